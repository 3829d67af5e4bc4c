package output

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Rows is a table for people. Columns are as wide as their widest cell, two spaces apart; numbers stand to the right.
type Rows struct {
	heads []string
	right []bool
	rows  [][]string
}

// NewRows is a table with these column heads; one that begins with '>' stands to the right.
func NewRows(heads ...string) *Rows {
	r := &Rows{}
	for _, head := range heads {
		text, right := strings.CutPrefix(head, ">")
		r.heads, r.right = append(r.heads, text), append(r.right, right)
	}
	return r
}

// Add adds a row. An empty cell becomes a dash, so that columns can be cut by programs too.
func (r *Rows) Add(cells ...any) {
	row := make([]string, len(r.heads))
	for i := range row {
		row[i] = "-"
		if i < len(cells) {
			if text := fmt.Sprint(cells[i]); text != "" {
				row[i] = text
			}
		}
	}
	r.rows = append(r.rows, row)
}

// Empty reports whether no row was added.
func (r *Rows) Empty() bool { return len(r.rows) == 0 }

// Write writes the table, with the heads first.
func (r *Rows) Write(w io.Writer) error {
	widths := make([]int, len(r.heads))
	all := append([][]string{r.heads}, r.rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if r.right[i] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
			line.WriteString("  ")
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// Pairs is a list of names and values for people.
type Pairs struct{ lines []string }

// Add adds a pair, unless the value is empty.
func (p *Pairs) Add(name, format string, args ...any) {
	if value := fmt.Sprintf(format, args...); value != "" {
		p.lines = append(p.lines, name+"\t"+value)
	}
}

// Append adds other pairs, with something in front of their names.
func (p *Pairs) Append(before string, other *Pairs) {
	for _, line := range other.lines {
		p.lines = append(p.lines, before+line)
	}
}

// Write writes the pairs, the values below each other.
func (p *Pairs) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range p.lines {
		if _, err := fmt.Fprintln(t, line); err != nil {
			return err
		}
	}
	return t.Flush()
}
