package dataplane

import "testing"

// TestVerifierHasRoom: at every size the program stays well below the limit of
// a million instructions explored (docs/decisions/0012), for kernels differ.
func TestVerifierHasRoom(t *testing.T) {
	for elements, d := range shared {
		info, err := d.objects.Tor.Info()
		if err != nil {
			t.Fatal(err)
		}
		explored, ok := info.VerifiedInstructions()
		if !ok {
			t.Fatal("the kernel does not say how many instructions it explored")
		}
		t.Logf("%d elements: %d instructions explored", elements, explored)
		if explored > 500_000 {
			t.Errorf("%d elements: %d instructions explored", elements, explored)
		}
	}
}
