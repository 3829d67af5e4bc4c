package packaging

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPython: the same sources give the same package, and Python imports what is in it, with its version.
func TestPython(t *testing.T) {
	var texts [2][]byte
	var path string
	for i := range texts {
		var err error
		if path, err = BuildPython(t.Context(), Options{Repository: repository(t), Out: t.TempDir(), Version: "1.2.3"}); err != nil {
			t.Fatal(err)
		}
		if texts[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("two packages of the same sources differ")
	}
	if filepath.Base(path) != "python3-spillway_1.2.3_all.deb" {
		t.Errorf("the package is called %s", path)
	}
	depends, err := exec.Command("dpkg-deb", "--field", path, "Depends").Output()
	if err != nil || !strings.Contains(string(depends), "libspillway1 (>= 1.2.3)") {
		t.Errorf("it depends on %s (%v)", depends, err)
	}
	root := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "--extract", path, root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ask := exec.Command("/usr/bin/python3", "-B", "-c", "import spillway, importlib.metadata; print(spillway.__file__, spillway.__version__, importlib.metadata.version('spillway'))")
	ask.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, pythonPlace))
	out, err := ask.CombinedOutput()
	if want := filepath.Join(root, pythonPlace, "spillway/__init__.py") + " 1.2.3 1.2.3"; err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("Python says %s (%v), want %s", out, err, want)
	}
	for _, file := range []string{"usr/lib/python3/dist-packages/spillway/py.typed", "usr/share/doc/python3-spillway/copyright", "usr/share/doc/python3-spillway/examples/digits.csv.gz"} {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Error(err)
		}
	}
}

// TestWheel: make wheel's command makes a wheel of any platform, without a network.
func TestWheel(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "sources"), os.DirFS(filepath.Join(repository(t), pythonSources))); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("/usr/bin/python3", "-c", "import setuptools.build_meta; setuptools.build_meta.build_wheel('..')")
	build.Dir = filepath.Join(dir, "sources")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wheel := filepath.Join(dir, "spillway-"+Version()+"-py3-none-any.whl")
	ask := exec.Command("/usr/bin/python3", "-B", "-c", "import spillway; print(spillway.__version__)")
	ask.Env = append(os.Environ(), "PYTHONPATH="+wheel)
	if out, err := ask.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != Version() {
		t.Errorf("Python says %s (%v), want %s", out, err, Version())
	}
}
