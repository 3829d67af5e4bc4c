package model

import (
	"testing"

	"spillway/p4/vectors"
)

// TestVectors: the cases and the text of the protocol say the same.
func TestVectors(t *testing.T) {
	files, err := vectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	m := New()
	for _, f := range files {
		for _, c := range f.Cases {
			t.Run(f.Name+"/"+c.Name, func(t *testing.T) {
				if err := f.Run(m, &c); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
