package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A program is one of the two P4 programs and what is kept of its compilation.
type program struct {
	name     string   // its folder
	products []string // files there that a compiler made
}

var (
	bmv2   = program{name: "v1model", products: []string{"spillway.p4info.txtpb", "spillway.json"}}
	tofino = program{name: "tna", products: []string{"spillway.p4info.txtpb", "resources.txt"}}
)

// sourceFile is written beside the products: the compiler, and the sum of every file that went in or came out.
const sourceFile = "SOURCE"

// sums are lines "sha256  file" of the program's sources and products, by name, relative to dir.
func (p program) sums(dir string) (string, error) {
	var files []string
	for _, folder := range []string{"shared", p.name} {
		found, err := filepath.Glob(filepath.Join(dir, folder, "*.p4"))
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "", fmt.Errorf("no P4 sources in %s: %w", filepath.Join(dir, folder), fs.ErrNotExist)
		}
		for _, file := range found {
			files = append(files, path.Join(folder, filepath.Base(file)))
		}
	}
	for _, product := range p.products {
		files = append(files, path.Join(p.name, product))
	}
	slices.Sort(files)
	var lines strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(b), file)
	}
	return lines.String(), nil
}

// record writes SOURCE.
func (p program) record(dir, compiler string) error {
	sums, err := p.sums(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, p.name, sourceFile), []byte("compiler: "+compiler+"\n"+sums), 0o644)
}

// errStale is returned for products that are not those of the sources.
var errStale = errors.New("not as when it was compiled; run make p4 and commit what it makes")

// verify compares SOURCE with the files as they are.
func (p program) verify(dir string) error {
	recorded, err := os.ReadFile(filepath.Join(dir, p.name, sourceFile))
	if err != nil {
		return err
	}
	compiler, rest, found := bytes.Cut(recorded, []byte("\n"))
	if !found || !bytes.HasPrefix(compiler, []byte("compiler: ")) {
		return fmt.Errorf("%s/%s: the first line names no compiler", p.name, sourceFile)
	}
	sums, err := p.sums(dir)
	if err != nil {
		return err
	}
	was, is := strings.Split(string(rest), "\n"), strings.Split(sums, "\n")
	var stale []error
	for _, line := range was {
		if !slices.Contains(is, line) {
			_, file, _ := strings.Cut(line, "  ")
			stale = append(stale, fmt.Errorf("%s: %w", file, errStale))
		}
	}
	for _, line := range is {
		_, file, _ := strings.Cut(line, "  ")
		if file != "" && !strings.Contains(string(rest), "  "+file+"\n") {
			stale = append(stale, fmt.Errorf("%s: %w", file, errStale))
		}
	}
	return errors.Join(stale...)
}
