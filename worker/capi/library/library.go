// Package library builds libspillway from worker/capi: the shared library with its names and versions, and what compilers need beside it. It is what make lib, the Debian packages and the
// tests have in common. It needs Go and a C compiler for the architecture.
package library

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// File is the library's file, and the name that programs which are linked with it ask for; Link is what a linker looks for, a symbolic link.
const (
	File = "libspillway.so.1"
	Link = "libspillway.so"
)

// exports keeps everything but the header's functions to the library.
//
//go:embed exports.map
var exports embed.FS

// Options say what to build.
type Options struct {
	// Repository is the directory of the sources, Out that of the library, which is made.
	Repository, Out string
	// Architecture as Go calls it; empty: this machine's.
	Architecture string
	// Version is what spillway_version says.
	Version string
}

// ErrNoCompiler means that there is no C compiler for the architecture.
var ErrNoCompiler = errors.New("no C compiler")

// compilers are those of Debian, by architecture.
var compilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// Compiler is the C compiler for an architecture; an ErrNoCompiler says what to install.
func Compiler(architecture string) (string, error) {
	if architecture == runtime.GOARCH {
		if path, err := exec.LookPath("gcc"); err == nil {
			return path, nil
		}
	}
	name, known := compilers[architecture]
	if !known {
		return "", fmt.Errorf("%w for %s", ErrNoCompiler, architecture)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w for %s: install %s (%w)", ErrNoCompiler, architecture, "gcc-"+strings.ReplaceAll(strings.TrimSuffix(name, "-gcc"), "_", "-"), err)
	}
	return path, nil
}

// emulators run programs of another architecture, with its C library from Debian's cross compiler.
var emulators = map[string][]string{
	"amd64": {"qemu-x86_64", "-L", "/usr/x86_64-linux-gnu"},
	"arm64": {"qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"},
}

// Emulator is what a command begins with that runs a program of an architecture on this machine: nothing for its own, else qemu's
// user emulation (Debian: qemu-user). The tests use it.
func Emulator(architecture string) []string {
	if architecture == runtime.GOARCH {
		return nil
	}
	return slices.Clone(emulators[architecture])
}

// Build compiles the library into a directory, and returns its path. The same sources, version and compilers give the same bytes.
func Build(ctx context.Context, o Options) (string, error) {
	if o.Architecture == "" {
		o.Architecture = runtime.GOARCH
	}
	compiler, err := Compiler(o.Architecture)
	if err != nil {
		return "", err
	}
	out, err := filepath.Abs(o.Out)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	stage, err := os.MkdirTemp("", "libspillway-")
	if err != nil {
		return "", err
	}
	path, err := compile(ctx, o, compiler, stage, out)
	return path, errors.Join(err, os.RemoveAll(stage))
}

func compile(ctx context.Context, o Options, compiler, stage, out string) (string, error) {
	script, err := exports.ReadFile("exports.map")
	if err != nil {
		return "", err
	}
	scriptPath := filepath.Join(stage, "exports.map")
	if err := os.WriteFile(scriptPath, script, 0o644); err != nil {
		return "", err
	}
	made := filepath.Join(stage, File)
	// Go asks the network's names of its own resolver, so that nothing but libc and libm is needed.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-tags=netgo,osusergo",
		"-ldflags=-s -w -buildid= -X main.builtVersion="+o.Version+
			" -linkmode=external -extldflags '-Wl,-soname,"+File+" -Wl,--version-script,"+scriptPath+" -Wl,-z,defs -Wl,--build-id=none'",
		"-o", made, "./worker/capi")
	cmd.Dir = o.Repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux", "GOARCH="+o.Architecture, "GOFLAGS=", "CC="+compiler, "CGO_CFLAGS=-O2", "CGO_LDFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile libspillway for %s: %w\n%s", o.Architecture, err, text)
	}
	text, err := os.ReadFile(made)
	if err != nil {
		return "", err
	}
	// Beside its place and renamed, so that programs that have it mapped keep what they have.
	path := filepath.Join(out, File)
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path)
}

// Header is spillway.h.
func Header(repository string) ([]byte, error) {
	return os.ReadFile(filepath.Join(repository, "worker/capi/spillway.h"))
}

// PkgConfig is the file for pkg-config, for a library and a header in these directories.
func PkgConfig(libdir, includedir, version string) []byte {
	return fmt.Appendf(nil, `libdir=%s
includedir=%s

Name: spillway
Description: collectives over in-network aggregation
Version: %s
Libs: -L${libdir} -lspillway
Cflags: -I${includedir}
`, libdir, includedir, version)
}

// Install puts a library that can be linked with into a directory: with its link, the header, and a file for pkg-config.
func Install(ctx context.Context, o Options) error {
	if _, err := Build(ctx, o); err != nil {
		return err
	}
	header, err := Header(o.Repository)
	if err != nil {
		return err
	}
	link := filepath.Join(o.Out, Link)
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(
		os.Symlink(File, link),
		os.WriteFile(filepath.Join(o.Out, "spillway.h"), header, 0o644),
		os.WriteFile(filepath.Join(o.Out, "spillway.pc"), PkgConfig("${pcfiledir}", "${pcfiledir}", o.Version), 0o644),
	)
}
