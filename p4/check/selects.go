package main

import (
	"bufio"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A selection is a parser state of the sources that goes on by what it finds in the packet.
type selection struct {
	gress string // ingress, egress
	state string
}

var (
	parserLine = regexp.MustCompile(`^parser (Ingress|Egress)\w*\(`)
	stateLine  = regexp.MustCompile(`^\s*state (\w+) \{`)
)

// selections finds them in the text of P4 sources, where a parser and a state each begin a line.
func selections(source string) []selection {
	var found []selection
	var current selection
	for line := range strings.Lines(source) {
		if m := parserLine.FindStringSubmatch(line); m != nil {
			current = selection{gress: strings.ToLower(m[1])}
		} else if m := stateLine.FindStringSubmatch(line); m != nil {
			current.state = m[1]
		}
		if strings.Contains(line, "transition select(") && current.gress != "" {
			found = append(found, current)
		}
	}
	return found
}

var (
	assemblyParser = regexp.MustCompile(`^parser (ingress|egress)\b`)
	assemblyState  = regexp.MustCompile(`^    ([^\s:#]+):$`)
	assemblyMatch  = regexp.MustCompile(`^      match: *\[`)
)

// checkSelects looks for each selection in the parsers of a Tofino assembly: a state that comes from the one in the source must match something.
func checkSelects(assembly string, wanted []selection) error {
	var matching []selection
	var current selection
	lines := bufio.NewScanner(strings.NewReader(assembly))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line != "" && line[0] != ' ':
			current = selection{}
			if m := assemblyParser.FindStringSubmatch(line); m != nil {
				current.gress = m[1]
			}
		case current.gress == "":
		case assemblyState.MatchString(line):
			current.state = assemblyState.FindStringSubmatch(line)[1]
		case assemblyMatch.MatchString(line):
			matching = append(matching, current)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the assembly: %w", err)
	}
	if len(wanted) == 0 {
		return fmt.Errorf("no select was found in the sources")
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(matching, w.becomes) {
			return fmt.Errorf("the %s parser's select in state %s is gone: no state of that name in the assembly has a match", w.gress, w.state)
		}
	}
	return nil
}

// becomes says whether a state of the assembly comes from the one in the source: compilers prefix and split states.
func (s selection) becomes(compiled selection) bool {
	if s.gress != compiled.gress {
		return false
	}
	return slices.Contains(strings.FieldsFunc(compiled.state, func(r rune) bool { return r == '.' || r == '$' }), s.state)
}
