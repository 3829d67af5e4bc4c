package packaging

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// pythonSources is the directory of the Python packages in the repository, pythonPlace where Debian's python3 looks for them.
const (
	pythonSources = "worker/python"
	pythonPlace   = "/usr/lib/python3/dist-packages"
)

const pythonDescription = `in-network aggregation of gradients: the library for Python
Collectives of Spillway over NumPy arrays and torch tensors without copies, a
communication hook for DistributedDataParallel, and a backend of torch.distributed.`

var pythonVersion = regexp.MustCompile(`(?m)^__version__ = "(.*)"$`)

// BuildPython makes the Debian package of the Python library, the same for all architectures, and returns its path. Options.Architecture is not looked at.
func BuildPython(ctx context.Context, o Options) (path string, err error) {
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
	list, err := b.stagePython()
	if err != nil {
		return "", err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "python3-spillway", Arch: "all", Platform: "linux", Version: o.Version, VersionSchema: "none",
		Section: "python", Priority: "optional", Maintainer: "The Spillway authors <spillway@localhost>", Description: pythonDescription, License: "Apache-2.0", MTime: when,
		Overridables: nfpm.Overridables{
			Depends:  []string{"python3 (>= 3.9)", fmt.Sprintf("libspillway1 (>= %s)", o.Version)},
			Suggests: []string{"python3-numpy", "python3-torch"},
			Contents: list,
			Deb:      nfpm.Deb{Compression: "zstd"},
		},
	})
	if info.Contents, err = files.PrepareForPackager(info.Contents, info.Umask, "deb", false, when); err != nil {
		return "", fmt.Errorf("contents: %w", err)
	}
	if err := nfpm.Validate(info); err != nil {
		return "", err
	}
	return writeDeb(info, o.Out, fmt.Sprintf("python3-spillway_%s_all.deb", o.Version))
}

// writeDeb makes a package beside its place and renames it.
func writeDeb(info *nfpm.Info, dir, name string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	out, err := os.CreateTemp(dir, ".spillway-*.deb")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	err = errors.Join(deb.Default.Package(info, out), out.Chmod(0o644), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("package %s: %w", name, err), os.Remove(out.Name()))
	}
	return path, nil
}

// stagePython writes the files of the package below the stage, with the version of this package.
func (b *build) stagePython() (files.Contents, error) {
	texts := map[string][]byte{}
	sources := filepath.Join(b.Repository, pythonSources)
	err := filepath.WalkDir(filepath.Join(sources, "spillway"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(sources, path)
		if err != nil {
			return err
		}
		if extension := filepath.Ext(name); extension != ".py" && extension != ".typed" {
			return nil // compiled by a Python that ran here
		}
		text, err := os.ReadFile(path)
		texts[filepath.Join(pythonPlace, name)] = pythonVersion.ReplaceAll(text, fmt.Appendf(nil, "__version__ = %q", b.Version))
		return err
	})
	if err != nil {
		return nil, err
	}
	texts[filepath.Join(pythonPlace, fmt.Sprintf("spillway-%s.egg-info", b.Version))] = fmt.Appendf(nil,
		"Metadata-Version: 2.1\nName: spillway\nVersion: %s\nSummary: Collectives over Spillway's in-network aggregation, for NumPy and torch\n", b.Version)
	for to, from := range map[string]string{
		"/usr/share/doc/python3-spillway/pytorch.md":          "docs/pytorch.md",
		"/usr/share/doc/python3-spillway/examples/digits.py":  pythonSources + "/examples/digits.py",
		"/usr/share/doc/python3-spillway/examples/step.py":    pythonSources + "/examples/step.py",
		"/usr/share/doc/python3-spillway/examples/digits.csv": "loadtest/train/data/digits.csv.gz",
	} {
		text, err := source(from)(b)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(from, ".gz") {
			to += ".gz"
		}
		texts[to] = text
	}
	if texts["/usr/share/doc/python3-spillway/copyright"], err = copyright(b); err != nil {
		return nil, err
	}
	var list files.Contents
	for to, text := range texts {
		from := filepath.Join(b.stage, fmt.Sprintf("python-%02d", len(list)))
		if err := os.WriteFile(from, text, 0o644); err != nil {
			return nil, err
		}
		list = append(list, &files.Content{
			Source: from, Destination: to, Type: files.TypeFile,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o644, MTime: b.when},
		})
	}
	return list, nil
}
