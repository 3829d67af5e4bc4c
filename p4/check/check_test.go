package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// programs is the folder of the P4 programs, seen from this package.
const programs = ".."

func TestProductsAreThoseOfTheSources(t *testing.T) {
	for _, p := range []program{bmv2, tofino} {
		if err := p.verify(programs); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
}

func TestProgramsAgree(t *testing.T) {
	a, err := readP4Info(filepath.Join(programs, bmv2.name, "spillway.p4info.txtpb"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := readP4Info(filepath.Join(programs, tofino.name, "spillway.p4info.txtpb"))
	if err != nil {
		t.Fatal(err)
	}
	if err := agree(a, b); err != nil {
		t.Error(err)
	}
}

func TestProductsNameNoMachine(t *testing.T) {
	for _, p := range []program{bmv2, tofino} {
		for _, product := range append(p.products, sourceFile) {
			b, err := os.ReadFile(filepath.Join(programs, p.name, product))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"/tmp/", "/home/", "/root/", "/work/", "/usr/"} {
				if strings.Contains(string(b), path) {
					t.Errorf("%s/%s names a path of the machine that compiled it: %s", p.name, product, path)
				}
			}
		}
	}
}

func TestDisagreement(t *testing.T) {
	file := filepath.Join(programs, bmv2.name, "spillway.p4info.txtpb")
	for _, change := range []struct{ name, from, to, want string }{
		{"a width", "bitwidth: 48", "bitwidth: 47", "bitwidth"},
		{"a name", `name: "send_up"`, `name: "send_down"`, "send_up"},
		{"a size", "size: 4096", "size: 2048", "size"},
		{"an id", "", "", "id"},
	} {
		t.Run(change.name, func(t *testing.T) {
			a, err := readP4Info(file)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := string(b)
			if change.name == "an id" {
				text = moveID(t, text, "uplink")
			} else {
				text = strings.Replace(text, change.from, change.to, 1)
			}
			other := filepath.Join(t.TempDir(), "other.p4info.txtpb")
			if err := os.WriteFile(other, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			doctored, err := readP4Info(other)
			if err != nil {
				t.Fatal(err)
			}
			if err := agree(a, doctored); err == nil || !strings.Contains(err.Error(), change.want) {
				t.Errorf("%v, want a complaint about %s", err, change.want)
			}
		})
	}
}

// moveID gives the object of that name the next id.
func moveID(t *testing.T, text, name string) string {
	t.Helper()
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) == `name: "`+name+`"` && strings.Contains(lines[i-1], "id: ") {
			lines[i-1] += "1"
			return strings.Join(lines, "\n")
		}
	}
	t.Fatalf("nothing is called %s", name)
	return ""
}

func TestStaleProducts(t *testing.T) {
	dir := t.TempDir()
	p := program{name: "v1model", products: []string{"made.json"}}
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("shared/a.p4", "one")
	write("v1model/b.p4", "two")
	write("v1model/made.json", "three")
	if err := p.record(dir, "p4c 1"); err != nil {
		t.Fatal(err)
	}
	if err := p.verify(dir); err != nil {
		t.Fatalf("right after it was recorded: %v", err)
	}
	for _, change := range []struct{ file, before string }{{"shared/a.p4", "one"}, {"v1model/b.p4", "two"}, {"v1model/made.json", "three"}} {
		write(change.file, "changed")
		if err := p.verify(dir); err == nil || !strings.Contains(err.Error(), change.file) {
			t.Errorf("%s changed: %v", change.file, err)
		}
		write(change.file, change.before)
	}
	write("shared/new.p4", "four")
	if err := p.verify(dir); err == nil || !strings.Contains(err.Error(), "shared/new.p4") {
		t.Errorf("a new source: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "shared/new.p4")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "v1model/made.json")); err != nil {
		t.Fatal(err)
	}
	if err := p.verify(dir); err == nil {
		t.Error("a product is missing, and nothing was said")
	}
}
