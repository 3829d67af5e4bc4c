package refusal_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spillway/appliance/refusal"
)

func TestRefusalSurvivesGRPC(t *testing.T) {
	refused := refusal.New(codes.ResourceExhausted, refusal.NoRoom, "%d slots asked for, %d are free: %w", 512, 128, io.EOF).With("free", 128)
	if !errors.Is(refused, io.EOF) {
		t.Error("the cause is lost")
	}
	sent := status.Convert(fmt.Errorf("create job: %w", refused))
	got := refusal.Of(sent.Err())
	if got == nil || got.Code != codes.ResourceExhausted || got.Reason != refusal.NoRoom || got.Metadata["free"] != "128" {
		t.Fatalf("after gRPC: %+v", got)
	}
}

func TestOfOtherErrors(t *testing.T) {
	if got := refusal.Of(io.EOF); got != nil {
		t.Errorf("an error that is no refusal: %+v", got)
	}
	if got := refusal.Of(nil); got != nil {
		t.Errorf("no error: %+v", got)
	}
	if got := refusal.Of(status.Error(codes.Unavailable, "away")); got == nil || got.Code != codes.Unavailable || got.Reason != "" {
		t.Errorf("a foreign status: %+v", got)
	}
}
