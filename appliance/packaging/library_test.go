package packaging

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestLibrary: the packages of the C library are the same bytes each time, and a program is built with what pkg-config says of them and runs.
func TestLibrary(t *testing.T) {
	var first [][]byte
	root := t.TempDir()
	for range 2 {
		paths, err := BuildLibrary(t.Context(), Options{Repository: repository(t), Out: t.TempDir(), Architecture: runtime.GOARCH, Version: "1.2.3"})
		if err != nil {
			t.Fatal(err)
		}
		if len(paths) != 2 {
			t.Fatalf("packages %v", paths)
		}
		for i, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(first) == 2 && !bytes.Equal(first[i], text) {
				t.Errorf("two packages %s of the same sources differ", filepath.Base(path))
			}
			if len(first) < 2 {
				first = append(first, text)
				if out, err := exec.Command("dpkg-deb", "--extract", path, root).CombinedOutput(); err != nil {
					t.Fatalf("dpkg-deb: %v\n%s", err, out)
				}
				out, err := exec.Command("dpkg-deb", "--field", path, "Package", "Depends").CombinedOutput()
				if want := []string{"libspillway1\nDepends: libc6", "libspillway-dev\nDepends: libspillway1 (= 1.2.3)"}[i]; err != nil || !strings.Contains(string(out), want) {
					t.Errorf("%s: %v\n%s", filepath.Base(path), err, out)
				}
			}
		}
	}
	libdir := filepath.Join(root, "usr/lib", triplets[runtime.GOARCH])
	pc, err := os.ReadFile(filepath.Join(libdir, "pkgconfig/spillway.pc"))
	if err != nil || !bytes.Contains(pc, []byte("libdir=/usr/lib/"+triplets[runtime.GOARCH]+"\n")) {
		t.Errorf("%v\n%s", err, pc)
	}
	program := filepath.Join(root, "version")
	source := "#include <spillway.h>\n#include <string.h>\nint main(void) { return strcmp(spillway_version(), \"1.2.3\"); }\n"
	cmd := exec.Command("gcc", "-x", "c", "-", "-o", program, "-I", filepath.Join(root, "usr/include"), "-L", libdir, "-lspillway", "-Wl,-rpath,"+libdir)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
