package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// compileAll compiles both programs into work, and where nothing is wrong puts the products and SOURCE into dir.
func compileAll(ctx context.Context, dir, work, note string, out io.Writer) error {
	work, err := filepath.Abs(work)
	if err != nil {
		return err
	}
	compiler, err := version(ctx)
	if err != nil {
		return err
	}
	if note != "" {
		compiler += ", " + note
	}
	if err := compileBMv2(ctx, dir, filepath.Join(work, bmv2.name)); err != nil {
		return fmt.Errorf("%s: %w", bmv2.name, err)
	}
	report, err := compileTofino(ctx, dir, filepath.Join(work, tofino.name))
	if err != nil {
		return fmt.Errorf("%s: %w", tofino.name, err)
	}
	a, err := readP4Info(filepath.Join(work, bmv2.name, "spillway.p4info.txtpb"))
	if err != nil {
		return err
	}
	b, err := readP4Info(filepath.Join(work, tofino.name, "spillway.p4info.txtpb"))
	if err != nil {
		return err
	}
	if err := agree(a, b); err != nil {
		return err
	}
	for _, p := range []program{bmv2, tofino} {
		for _, product := range p.products {
			if err := copyFile(filepath.Join(dir, p.name, product), filepath.Join(work, p.name, product)); err != nil {
				return err
			}
		}
		if err := p.record(dir, compiler); err != nil {
			return err
		}
	}
	_, err = io.WriteString(out, report)
	return err
}

func version(ctx context.Context) (string, error) {
	b, err := exec.CommandContext(ctx, "p4c", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("p4c --version: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// compile runs a compiler in dir. It may warn, and says so on standard error.
func compile(ctx context.Context, dir, name string, args ...string) error {
	var complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &complaints, &complaints
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, complaints.Bytes())
	}
	return nil
}

// compileBMv2 calls the compiler behind the driver p4c: the driver preprocesses into a file first, whose path would be in the product.
func compileBMv2(ctx context.Context, dir, work string) error {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	file := filepath.Join(work, "spillway.json")
	if err := compile(ctx, dir, "p4c-bm2-ss", "--arch", "v1model", "--p4runtime-files", filepath.Join(work, "spillway.p4info.txtpb"),
		"-o", file, bmv2.name+"/spillway.p4"); err != nil {
		return err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if b, err = withoutPlaces(b); err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

// withoutPlaces takes the places in the source out of a BMv2 configuration: half of its size, and different after every edit.
func withoutPlaces(b []byte) ([]byte, error) {
	var configuration any
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	if err := decoder.Decode(&configuration); err != nil {
		return nil, fmt.Errorf("the BMv2 configuration: %w", err)
	}
	forget(configuration)
	b, err := json.MarshalIndent(configuration, "", " ")
	return append(b, '\n'), err
}

func forget(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "source_info")
		for _, inner := range value {
			forget(inner)
		}
	case []any:
		for _, inner := range value {
			forget(inner)
		}
	}
}

// compileTofino compiles, assembles, checks, and writes the summary of resources, which it returns too.
func compileTofino(ctx context.Context, dir, work string) (string, error) {
	output := filepath.Join(work, "output")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return "", err
	}
	if err := compile(ctx, dir, "p4c", "--target", "tofino", "--arch", "tna", "-g", "--verbose", "1", "--p4runtime-force-std-externs",
		"--p4runtime-files", filepath.Join(work, "spillway.p4info.txtpb"), "-o", output, tofino.name+"/spillway.p4"); err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(dir, tofino.name, "parser.p4"))
	if err != nil {
		return "", err
	}
	assembly, err := os.ReadFile(filepath.Join(output, "pipe", "spillway.bfa"))
	if err != nil {
		return "", err
	}
	if err := checkSelects(string(assembly), selections(string(source))); err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(output, "pipe", "context.json"))
	if err != nil {
		return "", err
	}
	l, err := readLayout(b)
	if err != nil {
		return "", err
	}
	if b, err = os.ReadFile(filepath.Join(output, "pipe", "logs", "resources.json")); err != nil {
		return "", err
	}
	used, err := readResources(b)
	if err != nil {
		return "", err
	}
	report, err := summary(l, used)
	if err != nil {
		return "", err
	}
	return report, os.WriteFile(filepath.Join(work, "resources.txt"), []byte(report), 0o644)
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
