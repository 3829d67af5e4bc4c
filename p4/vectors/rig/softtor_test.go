package rig

import (
	"os"
	"testing"

	"spillway/p4/softtor"
	"spillway/p4/vectors"
)

// allPorts are those of the fixtures.
func allPorts(t *testing.T, files []*vectors.File) []uint16 {
	t.Helper()
	var f vectors.Fixture
	f.Hosts = map[string]vectors.Host{}
	for _, file := range files {
		for name, host := range file.Fixture.Hosts {
			f.Hosts[file.Name+" "+name] = host
		}
	}
	return f.Ports()
}

func load(t *testing.T) []*vectors.File {
	t.Helper()
	files, err := vectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// shortDir is a directory whose name leaves room for a socket's in 108 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "rig")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(directory); err != nil {
			t.Error(err)
		}
	})
	return directory
}

// TestSoftTor: the same cases as through Program.Run, but attached to
// interfaces and programmed over P4Runtime.
func TestSoftTor(t *testing.T) {
	files := load(t)
	started := map[int]*SoftTor{}
	for _, f := range files {
		tor, ok := started[f.Fixture.Elements]
		if !ok {
			var err error
			config := softtor.Config{Slots: 4096, Elements: f.Fixture.Elements}
			if tor, err = StartSoftTor(t.Context(), shortDir(t), config, allPorts(t, files)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := tor.Close(); err != nil {
					t.Error(err)
				}
			})
			started[f.Fixture.Elements] = tor
		}
		for _, c := range f.Cases {
			t.Run(f.Name+"/"+c.Name, func(t *testing.T) {
				if err := f.Run(tor, &c); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
