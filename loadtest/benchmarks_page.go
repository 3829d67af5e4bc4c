package main

import (
	"fmt"
	"io"
	"strings"
)

// writePageHead says how the figures came about, and on what. It has no date, so that a
// page that is written again differs in what was measured only.
func writePageHead(w io.Writer, m Machine, rounds int) {
	fmt.Fprintf(w, `# Benchmarks

Written by `+"`sudo make bench`"+`; do not edit. All figures are medians of %d rounds, ratios are taken within a round. Workers, switch and
aggregator share the cores of one machine.

Machine: %s, %d cores, Linux %s, %s %s.
`, rounds, m.CPU, m.Cores, m.Kernel, m.Go, m.Arch)
}

// splitPage is a page's sections by title, each as write has written it.
func splitPage(page string) map[string]string {
	sections := make(map[string]string)
	for _, text := range strings.Split(page, sectionMark)[1:] {
		title, _, _ := strings.Cut(text, "\n")
		sections[title] = sectionMark + text
	}
	return sections
}

// sectionMark is what a section begins with.
const sectionMark = "\n## "

// write adds the section's table, and the command of each row, to the page.
func (s section) write(w io.Writer, values [][]float64) {
	fmt.Fprintf(w, sectionMark+"%s\n\n%s\n\n", s.title, s.text)
	if s.plot != nil {
		fmt.Fprintf(w, "![%s](%s)\n\n", s.plot.title, s.plot.file)
	}
	fmt.Fprint(w, "| |")
	for _, c := range s.columns {
		fmt.Fprintf(w, " %s |", c.title)
	}
	fmt.Fprintf(w, " aim |\n|---|%s---|\n", strings.Repeat("---:|", len(s.columns)))
	for i, r := range s.rows {
		fmt.Fprintf(w, "| %s |", r.label)
		for j, c := range s.columns {
			fmt.Fprintf(w, " %s |", c.format(values[i][j]))
		}
		fmt.Fprintf(w, " %s |\n", r.aim)
	}
	fmt.Fprintln(w)
	said := ""
	for _, r := range s.rows {
		if command := r.command(); command != said {
			fmt.Fprintf(w, "    sudo bin/spill-load %s\n", command)
			said = command
		}
	}
}
