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
	list, err := b.stageContents()
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
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "spillway", Arch: b.Architecture, Platform: "linux", Version: b.Version, VersionSchema: "none",
		Section: "net", Priority: "optional", Maintainer: "The Spillway authors <spillway@localhost>", Description: description, License: "Apache-2.0", MTime: b.when,
		Overridables: nfpm.Overridables{
			Depends:  []string{"systemd (>= 247)", "init-system-helpers", "util-linux"},
			Contents: list,
			Scripts:  nfpm.Scripts{PostInstall: scripts["postinst"], PreRemove: scripts["prerm"], PostRemove: scripts["postrm"]},
			Deb:      nfpm.Deb{Compression: "zstd"},
		},
	})
	prepared, err := files.PrepareForPackager(info.Contents, info.Umask, "deb", false, b.when)
	if err != nil {
		return nil, fmt.Errorf("contents: %w", err)
	}
	info.Contents = prepared
	return info, nfpm.Validate(info)
}

// write puts the package into its place.
func (b *build) write(info *nfpm.Info) (string, error) {
	return writeDeb(info, b.Out, fmt.Sprintf("spillway_%s_%s.deb", b.Version, b.Architecture))
}
