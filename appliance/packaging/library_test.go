package packaging

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"spillway/worker/capi/library"
)

// TestLibrary: the packages of the C library are the same bytes each time, and a program is built with what pkg-config says of them and runs, for every
// architecture; qemu runs those of another than this machine's.
func TestLibrary(t *testing.T) {
	for _, architecture := range Architectures() {
		t.Run(architecture, func(t *testing.T) {
			root, times := t.TempDir(), 2
			if architecture != runtime.GOARCH {
				times = 1
			}
			var first [][]byte
			for range times {
				paths, err := BuildLibrary(t.Context(), Options{Repository: repository(t), Out: t.TempDir(), Architecture: architecture, Version: "1.2.3"})
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
						unpackLibrary(t, path, root, architecture, i)
					}
				}
			}
			useLibrary(t, root, architecture)
		})
	}
}

// unpackLibrary looks at the control file of a package and unpacks it; number 0 is libspillway1, 1 libspillway-dev.
func unpackLibrary(t *testing.T, path, root, architecture string, number int) {
	t.Helper()
	if out, err := exec.Command("dpkg-deb", "--extract", path, root).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	out, err := exec.Command("dpkg-deb", "--field", path, "Package", "Architecture", "Depends").CombinedOutput()
	want := []string{
		"Package: libspillway1\nArchitecture: " + architecture + "\nDepends: libc6",
		"Package: libspillway-dev\nArchitecture: " + architecture + "\nDepends: libspillway1 (= 1.2.3)",
	}[number]
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%s: %v\n%s, want %s", filepath.Base(path), err, out, want)
	}
}

// useLibrary compiles and runs a program with the unpacked packages.
func useLibrary(t *testing.T, root, architecture string) {
	t.Helper()
	libdir := filepath.Join(root, "usr/lib", triplets[architecture])
	pc, err := os.ReadFile(filepath.Join(libdir, "pkgconfig/spillway.pc"))
	if err != nil || !bytes.Contains(pc, []byte("libdir=/usr/lib/"+triplets[architecture]+"\n")) {
		t.Errorf("%v\n%s", err, pc)
	}
	compiler, err := library.Compiler(architecture)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "version")
	source := "#include <spillway.h>\n#include <string.h>\nint main(void) { return strcmp(spillway_version(), \"1.2.3\"); }\n"
	cmd := exec.Command(compiler, "-x", "c", "-", "-o", program, "-I", filepath.Join(root, "usr/include"), "-L", libdir, "-lspillway", "-Wl,-rpath,"+libdir)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	run := append(library.Emulator(architecture), program)
	if out, err := exec.Command(run[0], run[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", run, err, out)
	}
}
