package systemdtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What the root is made of. A change of any of it makes another root.
const (
	suite    = "bookworm"
	mirror   = "http://deb.debian.org/debian"
	include  = "systemd,systemd-sysv,dbus,adduser"
	patience = 6 * time.Minute // for debootstrap, which fetches some 60 MB
)

// debianRoot is the directory of a Debian, made if it is not in the cache. Nobody may write to it.
func debianRoot(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"debootstrap", "systemd-nspawn"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: install it (Debian: apt-get install debootstrap systemd-container)", err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "spillway")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	key := sha256.Sum256([]byte(strings.Join([]string{suite, mirror, include, runtime.GOARCH}, "\n")))
	root := filepath.Join(cache, fmt.Sprintf("debian-%s-%x", suite, key[:6]))
	// One maker at a time; the others wait and find it made.
	lock, err := os.OpenFile(root+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err == nil {
		return root
	} else if !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	makeRoot(t, root)
	return root
}

// makeRoot makes it beside its place and renames it, so that a root that is there is a whole one.
func makeRoot(t *testing.T, root string) {
	unfinished := root + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	out, err := exec.CommandContext(ctx, "debootstrap", "--variant=minbase", "--include="+include, suite, unfinished, mirror).CombinedOutput()
	if err != nil {
		t.Fatalf("debootstrap: %v\n%s", err, lastLines(string(out), 20))
	}
	if err := os.RemoveAll(filepath.Join(unfinished, "var/cache/apt/archives")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(unfinished, root); err != nil {
		t.Fatal(err)
	}
	t.Logf("made %s in %s", root, time.Since(began).Round(time.Second))
}

// lastLines are the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}
