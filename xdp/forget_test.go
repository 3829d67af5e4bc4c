package xdp

import (
	"math/rand/v2"
	"testing"
)

// TestForgetSlots: everything is gone but what packets hold, whose slots are said.
func TestForgetSlots(t *testing.T) {
	at := underAttack(t)
	rng := rand.New(rand.NewPCG(7, 7))
	for range 40 {
		at.hit(at.honest(rng, 0))
	}
	var index, taken uint32
	var slot, empty aggregatorSlot
	for i := range at.a.config.Slots.total() {
		if err := at.a.objects.Slots.Lookup(i, &slot); err != nil {
			t.Fatal(err)
		}
		if slot != empty {
			index, taken = i, taken+1
		}
	}
	if taken < 5 {
		t.Fatalf("%d slots are taken", taken)
	}
	if err := at.a.objects.Slots.Lookup(index, &slot); err != nil {
		t.Fatal(err)
	}
	held := slot
	held.Held = 1
	if err := at.a.objects.Slots.Put(index, held); err != nil {
		t.Fatal(err)
	}
	if err := ForgetSlots(at.a.objects.Slots); err == nil {
		t.Error("a slot that is held was emptied")
	}
	var found aggregatorSlot
	if err := at.a.objects.Slots.Lookup(index, &found); err != nil || found != held {
		t.Errorf("a slot that is held was %+v and is %+v, %v", held, found, err)
	}
	if err := at.a.objects.Slots.Put(index, slot); err != nil {
		t.Fatal(err)
	}
	if err := ForgetSlots(at.a.objects.Slots); err != nil {
		t.Fatal(err)
	}
	for i := range at.a.config.Slots.total() {
		if err := at.a.objects.Slots.Lookup(i, &found); err != nil || found != empty {
			t.Errorf("slot %d is %+v, %v", i, found, err)
		}
	}
}
