package server

import (
	"errors"
	"fmt"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"spillway/p4/p4info"
	"spillway/p4/softtor/dataplane"
)

// errorSpace is the space of this server's errors.
const errorSpace = "spillway-softtor"

// refusal is why an update or a read is refused.
type refusal struct {
	code codes.Code
	// object and field say what is wrong: a table and its key, say.
	object, field string
	message       string
}

func (r *refusal) Error() string {
	if path := p4info.Path(r.object, r.field); path != "" {
		return path + ": " + r.message
	}
	return r.message
}

func refuse(code codes.Code, object, field, format string, args ...any) *refusal {
	return &refusal{code, object, field, fmt.Sprintf(format, args...)}
}

// asRefusal finds the status for an error: of the entry, of what the data plane can hold, or of the data plane itself.
func asRefusal(err error) *refusal {
	var known *refusal
	if errors.As(err, &known) {
		return known
	}
	var field *p4info.FieldError
	switch {
	case errors.As(err, &field):
	case errors.Is(err, dataplane.ErrInvalid):
		return refuse(codes.InvalidArgument, "", "", "%v", err)
	case errors.Is(err, dataplane.ErrFull):
		return refuse(codes.ResourceExhausted, "", "", "%v", err)
	default:
		return refuse(codes.Internal, "", "", "data plane: %v", err)
	}
	code := codes.InvalidArgument
	switch {
	case errors.Is(err, p4info.ErrBytestring):
		code = codes.OutOfRange
	case errors.Is(err, p4info.ErrScope):
		code = codes.PermissionDenied
	}
	return refuse(code, field.Table, field.Field, "%v", field.Err)
}

// detail is the P4Runtime error of a refusal; of nil, it is OK. The field is in a BadRequest detail too, for programs.
func (r *refusal) detail() (*p4v1.Error, error) {
	if r == nil {
		return &p4v1.Error{}, nil
	}
	bad, err := anypb.New(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: p4info.Path(r.object, r.field), Description: r.message},
	}})
	if err != nil {
		return nil, err
	}
	return &p4v1.Error{CanonicalCode: int32(r.code), Message: r.Error(), Space: errorSpace, Code: int32(r.code), Details: bad}, nil
}

// batchStatus is the status of a batch, nil when nothing in it was refused: UNKNOWN with one error for each element.
func batchStatus(what string, refusals []*refusal) error {
	failed := 0
	var first *refusal
	for _, r := range refusals {
		if r != nil {
			if first == nil {
				first = r
			}
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	st := &spb.Status{Code: int32(codes.Unknown), Message: fmt.Sprintf("%d of %d %s failed, the first: %v", failed, len(refusals), what, first)}
	for _, r := range refusals {
		each, err := r.detail()
		if err != nil {
			return status.Errorf(codes.Internal, "pack an error: %v", err)
		}
		packed, err := anypb.New(each)
		if err != nil {
			return status.Errorf(codes.Internal, "pack an error: %v", err)
		}
		st.Details = append(st.Details, packed)
	}
	return status.FromProto(st).Err()
}
