package packaging

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

//go:embed VERSION
var versionFile string

// Version is that of the sources.
func Version() string { return strings.TrimSpace(versionFile) }

// Architectures are those that packages are made for, by the name that Debian and Go give them.
func Architectures() []string { return []string{"amd64", "arm64"} }

// Options say which package to make.
type Options struct {
	// Repository is the directory of the sources, Out the directory that the package goes to, which is made.
	Repository, Out string
	// Architecture is one of Architectures.
	Architecture string
	// Version is that of the package and of the programs in it; empty: Version.
	Version string
}

// build is a package in the making.
type build struct {
	Options
	ctx   context.Context
	stage string    // a directory for what goes into it
	when  time.Time // of all files in it
}

// Build compiles the programs, makes the package, and returns its path. It needs Go, and nothing of Debian.
func Build(ctx context.Context, o Options) (path string, err error) {
	if o.Version == "" {
		o.Version = Version()
	}
	when, err := epoch()
	if err != nil {
		return "", err
	}
	stage, err := os.MkdirTemp("", "spillway-package-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	b := &build{Options: o, ctx: ctx, stage: stage, when: when}
	if err := b.compile(); err != nil {
		return "", err
	}
	info, err := b.info()
	if err != nil {
		return "", err
	}
	return b.write(info)
}

// epoch is the time that all files of a package have, so that it depends on the sources alone.
func epoch() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%s: want seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// compile makes both programs for the architecture: static, and without paths or dates of this machine.
func (b *build) compile() error {
	for program, from := range map[string]string{"spillwayd": "./appliance", "spillctl": "./ctl"} {
		cmd := exec.CommandContext(b.ctx, "go", "build", "-trimpath", "-buildvcs=false",
			"-ldflags=-s -w -X spillway/appliance/command.builtVersion="+b.Version+" -X spillway/ctl/command.builtVersion="+b.Version,
			"-o", filepath.Join(b.stage, program), from)
		cmd.Dir = b.Repository
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+b.Architecture, "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compile %s for %s: %w\n%s", program, b.Architecture, err, out)
		}
	}
	return nil
}

// description is that of the control file: its first line is the synopsis.
const description = `in-network aggregation of gradients: the appliance
spillwayd sums what training workers send each other, in an XDP program on a
host of the rack and, above it, in a programmable switch. This is the daemon,
the tool to watch and direct it (spillctl), and the service.`

// info is what nfpm is told.
func (b *build) info() (*nfpm.Info, error) {
	list, err := b.stageItems("content", contents)
	if err != nil {
		return nil, err
	}
	scripts := map[string]string{}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		text, err := File(name)
		if err != nil {
			return nil, err
		}
		scripts[name] = filepath.Join(b.stage, name)
		if err := os.WriteFile(scripts[name], text, 0o755); err != nil {
			return nil, err
		}
	}
	return b.complete(&nfpm.Info{
		Name: "spillway", Section: "net", Description: description,
		Overridables: nfpm.Overridables{
			Depends:  []string{"systemd (>= 247)", "init-system-helpers", "util-linux"},
			Contents: list,
			Scripts:  nfpm.Scripts{PostInstall: scripts["postinst"], PreRemove: scripts["prerm"], PostRemove: scripts["postrm"]},
		},
	})
}

// complete fills in what all packages have in common.
func (b *build) complete(info *nfpm.Info) (*nfpm.Info, error) {
	info.Arch, info.Platform, info.Version, info.VersionSchema = b.Architecture, "linux", b.Version, "none"
	info.Priority, info.Maintainer, info.License, info.MTime = "optional", "The Spillway authors <spillway@localhost>", "Apache-2.0", b.when
	info.Deb.Compression = "zstd"
	info = nfpm.WithDefaults(info)
	prepared, err := files.PrepareForPackager(info.Contents, info.Umask, "deb", false, b.when)
	if err != nil {
		return nil, fmt.Errorf("contents: %w", err)
	}
	info.Contents = prepared
	return info, nfpm.Validate(info)
}

// write makes the package beside its place and renames it.
func (b *build) write(info *nfpm.Info) (string, error) {
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(b.Out, fmt.Sprintf("%s_%s_%s.deb", info.Name, b.Version, b.Architecture))
	out, err := os.CreateTemp(b.Out, ".spillway-*.deb")
	if err != nil {
		return "", err
	}
	err = errors.Join(deb.Default.Package(info, out), out.Chmod(0o644), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("package %s for %s: %w", info.Name, b.Architecture, err), os.Remove(out.Name()))
	}
	return path, nil
}
