package server_test

import (
	"testing"

	"spillway/appliance/events"
	"spillway/appliance/jobs"
)

func newManager(t testing.TB, dir string, log *events.Log) *jobs.Manager {
	t.Helper()
	manager, err := jobs.New(jobs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return manager
}
