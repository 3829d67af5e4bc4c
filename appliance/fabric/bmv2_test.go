package fabric_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/appliance/fabric"
	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/p4/vectors/rig"
)

// The same against a server that is not ours: first synchronisation, a repair, a new generation, a reboot, another controller.
func TestFabricBMv2(t *testing.T) {
	if _, err := exec.LookPath(rig.SimpleSwitch); err != nil {
		t.Skipf("%s is not on PATH: it comes with p4lang's package bmv2, or from github.com/p4lang/behavioral-model", rig.SimpleSwitch)
	}
	program, err := fabric.Program(fabric.KindBMv2)
	if err != nil {
		t.Fatal(err)
	}
	directory, err := os.MkdirTemp("", "bmv2") // the test's own is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	b, err := rig.StartBMv2(deadline(t), directory, program, []uint16{1, 2, homePort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	here := hosts()[:3]
	s := prepare(t, b.Address(), func(c *fabric.Config) { c.Device, c.Program, c.Hosts, c.Election.Low = 1, program, here, 10 })
	job := newJob(3, 1)
	job.Workers = job.Workers[:2]
	s.SetJob(job)
	s.begin()
	s.wait(backup) // the rig's own session is primary
	if err := b.Client.Close(); err != nil {
		t.Fatal(err)
	}
	s.wait(inSync)
	s.settled(3, 1)
	has := func(jobs ...pipeline.Job) {
		t.Helper()
		updates, err := pipeline.HostEntries(pipeline.Software(), flood, here...)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			more, err := pipeline.Entries(pipeline.Software(), j)
			if err != nil {
				t.Fatal(err)
			}
			updates = append(updates, more...)
		}
		want := map[pipeline.Key]string{}
		items, err := pipeline.Items(pipeline.Software(), updates)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range items {
			want[i.Key] = i.Value
		}
		reader, err := b.Dial(deadline(t), client.ElectionID{Low: 1}) // a backup
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		found, err := pipeline.ReadItems(deadline(t), reader, pipeline.Software())
		if err != nil {
			t.Fatal(err)
		}
		got := map[pipeline.Key]string{}
		for _, i := range found {
			got[i.Key] = i.Value
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	}
	has(job)
	s.counts(job.Index, map[string]uint64{})
	if d, err := s.Describe(deadline(t), true); err != nil || d.GetSlotsReadable() || d.GetSlots() != 4096 || d.GetPushes() != 1 {
		t.Errorf("%v, %v", d, err)
	}

	// Another controller takes over, changes things, and leaves.
	other, err := b.Dial(deadline(t), client.ElectionID{Low: 1000})
	if err != nil {
		t.Fatal(err)
	}
	s.wait(backup)
	// What is in the counters of a generation before is not the next one's: they can be set here too.
	counted, err := pipeline.ZeroCounts(pipeline.Software(), job.Index)
	if err != nil {
		t.Fatal(err)
	}
	counted[0].GetEntity().GetCounterEntry().Data.PacketCount = 5
	if err := other.Write(deadline(t), counted...); err != nil {
		t.Fatal(err)
	}
	s.counts(job.Index, map[string]uint64{"claimed": 5})
	err = other.Write(deadline(t),
		&p4v1.Update{Type: p4v1.Update_INSERT, Entity: pipeline.Multicast(77, 1)}, &p4v1.Update{Type: p4v1.Update_MODIFY, Entity: pipeline.Multicast(3, 1)})
	if err != nil {
		t.Fatal(err)
	}
	next := newJob(3, 2)
	next.Workers = job.Workers
	s.SetJob(next)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	s.wait(inSync)
	s.settled(3, 2)
	has(next)
	if text := s.events.wait(t, "switch-repaired", 1); !strings.Contains(text, "1 changed, 1 foreign") {
		t.Error(text)
	}
	s.counts(job.Index, map[string]uint64{})

	// A reboot.
	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
	s.wait(away)
	if err := b.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := b.Client.Close(); err != nil {
		t.Fatal(err)
	}
	s.events.wait(t, "pipeline-pushed", 2)
	s.wait(inSync)
	s.settled(3, 2)
	has(next)
	s.RemoveJob(3)
	s.SetJob(job)
	s.settled(3, 1)
	has(job)
}
