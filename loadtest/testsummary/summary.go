package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
)

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output, which belongs to no package yet
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// test is what is known of one test or subtest.
type test struct {
	action string // pass, fail or skip; empty while it runs
	output strings.Builder
	parent bool // it has subtests, which are counted in its place
}

// pkg is what is known of one package.
type pkg struct {
	tests  map[string]*test
	output strings.Builder // what belongs to no test: build errors, panics of the test binary
}

// summary reads events and counts what came of the tests.
type summary struct {
	out                     io.Writer
	packages                map[string]*pkg
	build                   strings.Builder
	skips                   []string
	passed, failed, skipped int
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, packages: map[string]*pkg{}}
}

// read takes the events up to the end of r. A line that is no event is shown as it is.
func (s *summary) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprint(s.out, string(line))
			} else {
				s.take(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take accounts for one event.
func (s *summary) take(e event) {
	if e.Action == "build-output" {
		s.build.WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := s.packages[e.Package]
	if p == nil {
		p = &pkg{tests: map[string]*test{}}
		s.packages[e.Package] = p
	}
	if e.Test == "" {
		switch e.Action {
		case "output":
			p.output.WriteString(e.Output)
		case "pass", "fail", "skip":
			s.finish(e, p)
			delete(s.packages, e.Package)
		}
		return
	}
	t := p.tests[e.Test]
	if t == nil {
		t = &test{}
		p.tests[e.Test] = t
		for name := e.Test; strings.Contains(name, "/"); {
			name = name[:strings.LastIndexByte(name, '/')]
			if parent := p.tests[name]; parent != nil {
				parent.parent = true
			}
		}
	}
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		t.action = e.Action
	}
}

// finish counts and reports a package that ended. A test that never ended
// (a panic, the time limit) failed; so did a package that failed without a failed test.
func (s *summary) finish(e event, p *pkg) {
	names := make([]string, 0, len(p.tests))
	for name := range p.tests {
		names = append(names, name)
	}
	sort.Strings(names)
	var passed, failed, skipped int
	var report strings.Builder
	for _, name := range names {
		t := p.tests[name]
		switch {
		case t.action == "pass":
			if !t.parent {
				passed++
			}
		case t.action == "skip":
			skipped++
			s.skips = append(s.skips, fmt.Sprintf("%s %s: %s", e.Package, name, reason(t.output.String())))
		default:
			if !t.parent || !failedChild(p, name) {
				failed++
			}
			report.WriteString(t.output.String())
		}
	}
	if e.Action == "fail" {
		if failed == 0 {
			failed++
		}
		report.WriteString(p.output.String())
	}
	s.passed, s.failed, s.skipped = s.passed+passed, s.failed+failed, s.skipped+skipped
	if passed+failed+skipped == 0 {
		return
	}
	verdict := "ok  "
	if failed > 0 {
		verdict = "FAIL"
		fmt.Fprint(s.out, s.build.String(), report.String())
		s.build.Reset()
	}
	fmt.Fprintf(s.out, "%s %-32s %7.1f s  %d passed, %d failed, %d skipped\n", verdict, e.Package, e.Elapsed, passed, failed, skipped)
}

// failedChild reports whether a subtest of the named test failed, which then counts in its place.
func failedChild(p *pkg, name string) bool {
	for child, t := range p.tests {
		if strings.HasPrefix(child, name+"/") && t.action != "pass" && t.action != "skip" {
			return true
		}
	}
	return false
}

// reason is what a skipped test said, without the lines the test runner adds.
func reason(output string) string {
	var said []string
	for _, line := range strings.Split(output, "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}

// close prints the skips and the closing line, and reports whether all is well.
func (s *summary) close() bool {
	fmt.Fprint(s.out, s.build.String())
	for name, p := range s.packages { // they never ended: go test itself was stopped
		s.failed++
		fmt.Fprintf(s.out, "FAIL %s did not end\n%s", name, p.output.String())
	}
	if len(s.skips) > 0 {
		fmt.Fprintf(s.out, "\nskipped:\n  %s\n", strings.Join(s.skips, "\n  "))
	}
	ran := s.passed+s.failed > 0
	if !ran {
		fmt.Fprintln(s.out, "no test ran")
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return ran && s.failed == 0
}
