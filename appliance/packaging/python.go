package packaging

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/goreleaser/nfpm/v2"
)

// pythonSources is the directory of the Python package in the repository, pythonPlace where Debian's python3 looks for packages.
const (
	pythonSources = "worker/python"
	pythonPlace   = "/usr/lib/python3/dist-packages"
)

const pythonDescription = `in-network aggregation of gradients: the library for Python
Collectives of Spillway over NumPy arrays and torch tensors without copies, a
communication hook for DistributedDataParallel, and a backend of torch.distributed.`

// BuildPython makes python3-spillway, which is the same for all architectures, and returns its path.
func BuildPython(ctx context.Context, o Options) (path string, err error) {
	o.Architecture = "all"
	if o.Version == "" {
		o.Version = Version()
	}
	when, err := epoch()
	if err != nil {
		return "", err
	}
	stage, err := os.MkdirTemp("", "spillway-python-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	b := &build{Options: o, ctx: ctx, stage: stage, when: when}
	items, err := b.pythonItems()
	if err != nil {
		return "", err
	}
	list, err := b.stageItems("python3-spillway", items)
	if err != nil {
		return "", err
	}
	info, err := b.complete(&nfpm.Info{
		Name: "python3-spillway", Section: "python", Description: pythonDescription,
		Overridables: nfpm.Overridables{
			Depends:  []string{"python3 (>= 3.9)", fmt.Sprintf("libspillway1 (>= %s)", o.Version)},
			Suggests: []string{"python3-numpy", "python3-torch"},
			Contents: list,
		},
	})
	if err != nil {
		return "", fmt.Errorf("python3-spillway: %w", err)
	}
	return b.write(info)
}

var pythonVersion = regexp.MustCompile(`(?m)^__version__ = ".*"$`)

// pythonItems are the package's files in the sources, with the version of this package, and what belongs beside them.
func (b *build) pythonItems() ([]item, error) {
	const doc = "/usr/share/doc/python3-spillway/"
	items := []item{
		{to: pythonPlace + "/spillway-" + b.Version + ".egg-info", text: pythonMetadata},
		{to: doc + "copyright", text: copyright},
		{to: doc + "pytorch.md", text: source("docs/pytorch.md")},
		{to: doc + "examples/digits.py", text: source(pythonSources + "/examples/digits.py")},
		{to: doc + "examples/step.py", text: source(pythonSources + "/examples/step.py")},
		{to: doc + "examples/digits.csv.gz", text: source("loadtest/train/data/digits.csv.gz")},
		{to: doc + "examples/README.md", text: source("loadtest/train/data/README.md")},
	}
	sources := filepath.Join(b.Repository, pythonSources)
	err := filepath.WalkDir(filepath.Join(sources, "spillway"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if extension := filepath.Ext(path); extension != ".py" && extension != ".typed" {
			return nil // compiled by a Python that ran here
		}
		name, err := filepath.Rel(sources, path)
		items = append(items, item{to: filepath.Join(pythonPlace, name), text: pythonSource(path)})
		return err
	})
	return items, err
}

func pythonSource(path string) func(*build) ([]byte, error) {
	return func(b *build) ([]byte, error) {
		text, err := os.ReadFile(path)
		return pythonVersion.ReplaceAll(text, fmt.Appendf(nil, "__version__ = %q", b.Version)), err
	}
}

// pythonMetadata is by what pip and importlib.metadata know the package.
func pythonMetadata(b *build) ([]byte, error) {
	return fmt.Appendf(nil, "Metadata-Version: 2.1\nName: spillway\nVersion: %s\nSummary: Collectives over Spillway's in-network aggregation, for NumPy and torch\n", b.Version), nil
}
