package cluster

import (
	"errors"
	"testing"

	"spillway/appliance/jobs"
)

// TestForget: an appliance that has gone is missing until it is forgotten; one that is there cannot be, nor by a leader that was deposed.
func TestForget(t *testing.T) {
	client := embedded(t).client()
	deposed := 0
	s := elected(t, client, "leader", func() { deposed++ })
	put := func(key string) {
		t.Helper()
		if _, err := client.Put(t.Context(), key, `{"name":"a"}`); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(key string) {
		t.Helper()
		if _, err := client.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if known, err := s.ForgetNode("a"); known || err != nil {
		t.Errorf("one that never was: %v, %v", known, err)
	}
	put(s.keys.member("a"))
	put(s.keys.knownAs("a"))
	if _, err := s.ForgetNode("a"); !errors.Is(err, jobs.ErrNodeThere) {
		t.Errorf("one that is there: %v", err)
	}
	v := newView()
	if _, err := v.read(t.Context(), client, s.keys); err != nil || len(v.ever()) != 1 {
		t.Errorf("%v, %v", v.ever(), err)
	}
	remove(s.keys.member("a"))
	if known, err := s.ForgetNode("a"); !known || err != nil {
		t.Errorf("%v, %v", known, err)
	}
	if _, err := v.read(t.Context(), client, s.keys); err != nil || len(v.ever()) != 0 {
		t.Errorf("%v, %v", v.ever(), err)
	}
	put(s.keys.knownAs("a"))
	remove(s.leader)
	if _, err := s.ForgetNode("a"); !errors.Is(err, ErrDeposed) || deposed != 1 {
		t.Errorf("by the leader that was deposed, which was told %d times: %v", deposed, err)
	}
}
