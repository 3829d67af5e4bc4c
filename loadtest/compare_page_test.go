package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// chromium is Debian's; make installs it.
const chromium = "/usr/bin/chromium"

// browse renders a page in a browser without a network, and returns what became of it.
func browse(t *testing.T, path string, more ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir=" + t.TempDir(), "--virtual-time-budget=10000", "--enable-logging=stderr", "--dump-dom",
	}, more...)
	cmd := exec.CommandContext(ctx, chromium, append(args, "file://"+path)...)
	var said strings.Builder
	cmd.Stderr = &said
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "CONSOLE") { // an error of a script, or something that the page may not load
			t.Errorf("the browser says %s", line)
		}
	}
	return string(dom)
}

// comparedReport is a report as compare writes it, of two racks.
func comparedReport(t *testing.T) *CompareReport {
	t.Helper()
	text, err := os.ReadFile("testdata/compare.json")
	if err != nil {
		t.Fatal(err)
	}
	var report CompareReport
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return &report
}

// The page shows its charts in a browser that reaches nothing else.
func TestComparePage(t *testing.T) {
	report := comparedReport(t)
	report.Command = "spill-load compare --report '<b>.html'"
	path := filepath.Join(t.TempDir(), "compare.html")
	if err := report.writePage(path); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(page), "<script src") || strings.Contains(string(page), "<link") {
		t.Error("the page wants something from elsewhere")
	}
	dom := browse(t, path)
	_, body, _ := strings.Cut(dom, "<body>")
	if n := strings.Count(body, "<svg"); n != 4 { // two for each rack
		t.Errorf("%d charts were drawn, want 4", n)
	}
	for _, want := range []string{
		"3 workers, links of 500mbit", "3 workers, unshaped links", "Linux " + report.Machine.Kernel, "torch " + report.Versions["torch"],
		"--report '&lt;b&gt;.html'", "mpirun -np 3 --host w0:1,w1:1,w2:1", ">Gloo (torch.distributed)</text>", ">4MB</text>", ">4kB</text>", "TCP parameter server (ours)",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
