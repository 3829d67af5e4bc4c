package packaging

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/files"

	"spillway/worker/capi/library"
)

// triplets are Debian's names of directories for libraries, by architecture.
var triplets = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

// libc is what the library needs: the symbols of glibc that it uses are none of a later version.
const libc = "libc6 (>= 2.34)"

const libraryDescription = `in-network aggregation of gradients: the C library
libspillway lets a training process join a job of a Spillway appliance and
all-reduce tensors with the other ranks, through the network's aggregators.`

const developmentDescription = `in-network aggregation of gradients: development files
The header, the link and the pkg-config file that programs are built with that
use libspillway.`

// BuildLibrary compiles libspillway and makes the packages libspillway1 and libspillway-dev, and returns their paths. It needs a C compiler for the
// architecture; a library.ErrNoCompiler says that there is none.
func BuildLibrary(ctx context.Context, o Options) (paths []string, err error) {
	if o.Version == "" {
		o.Version = Version()
	}
	when, err := epoch()
	if err != nil {
		return nil, err
	}
	stage, err := os.MkdirTemp("", "spillway-library-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	b := &build{Options: o, ctx: ctx, stage: stage, when: when}
	if _, err := library.Build(ctx, library.Options{Repository: o.Repository, Out: stage, Architecture: o.Architecture, Version: o.Version}); err != nil {
		return nil, err
	}
	libdir := "/usr/lib/" + triplets[o.Architecture]
	pc := library.PkgConfig(libdir, "/usr/include", o.Version)
	runtime := &nfpm.Info{Name: "libspillway1", Section: "libs", Description: libraryDescription, Overridables: nfpm.Overridables{
		Depends: []string{libc},
		Deb:     nfpm.Deb{Triggers: nfpm.DebTriggers{ActivateNoAwait: []string{"ldconfig"}}},
	}}
	development := &nfpm.Info{Name: "libspillway-dev", Section: "libdevel", Description: developmentDescription, Overridables: nfpm.Overridables{
		Depends: []string{"libspillway1 (= " + o.Version + ")"},
	}}
	for _, p := range []struct {
		info  *nfpm.Info
		items []item
	}{
		{runtime, []item{
			{to: libdir + "/" + library.File, text: binary(library.File)},
			{to: "/usr/share/doc/libspillway1/copyright", text: copyright},
		}},
		{development, []item{
			{to: "/usr/include/spillway.h", text: source("worker/capi/spillway.h")},
			{to: libdir + "/pkgconfig/spillway.pc", text: func(*build) ([]byte, error) { return pc, nil }},
			{to: "/usr/share/doc/libspillway-dev/copyright", text: copyright},
			{to: "/usr/share/doc/libspillway-dev/c-api.md", text: source("docs/c-api.md")},
		}},
	} {
		if p.info.Contents, err = b.stageItems(p.info.Name, p.items); err != nil {
			return nil, err
		}
		if p.info == development {
			p.info.Contents = append(p.info.Contents, &files.Content{Source: library.File, Destination: filepath.Join(libdir, library.Link), Type: files.TypeSymlink,
				FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", MTime: when}})
		}
		info, err := b.complete(p.info)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.info.Name, err)
		}
		path, err := b.write(info)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
