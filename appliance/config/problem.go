package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInvalid is wrapped by every Error.
var ErrInvalid = errors.New("the configuration cannot be")

// Problem is one thing that is wrong.
type Problem struct {
	// Line is where, from 1 on; 0: in no line of the file.
	Line int
	// Key is the path of the key, like switch.hosts[2].mac; empty: none.
	Key string
	// Wrong says what is wrong, and Instead what to write instead, or to do.
	Wrong, Instead string
}

// Error is all that is wrong with a configuration, by line.
type Error struct {
	File     string
	Problems []Problem
}

// Error is a line for each problem.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, p.text(e.File))
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns ErrInvalid.
func (e *Error) Unwrap() error { return ErrInvalid }

func (p Problem) text(file string) string {
	text := file
	if p.Line > 0 {
		text += fmt.Sprintf(":%d", p.Line)
	}
	if p.Key != "" {
		text += ": " + p.Key
	}
	return text + ": " + p.Wrong + "; " + p.Instead
}

// source is where the keys of a configuration stand in its file. Problems with the machine, which are found later, have lines because of it.
type source struct {
	file  string
	lines map[string]int // by path; a path that is not here was left out
}

// line is that of the key or, if it was left out, of the nearest one above it.
func (s *source) line(path string) int {
	for s != nil && path != "" {
		if line, ok := s.lines[path]; ok {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	if s == nil || s.file == "" {
		return 0
	}
	return 1
}

// findings collects problems, one for each key: what follows from a first mistake would only hide it.
type findings struct {
	source   *source
	problems []Problem
}

// wrong notes a problem at the key, unless it, or a key above it, has one already.
func (f *findings) wrong(path, instead, format string, args ...any) {
	f.wrongAt(f.source.line(path), path, instead, format, args...)
}

func (f *findings) wrongAt(line int, path, instead, format string, args ...any) {
	if !f.has(path) {
		f.problems = append(f.problems, Problem{line, path, fmt.Sprintf(format, args...), instead})
	}
}

// has reports whether the key, or one that it is part of, has a problem.
func (f *findings) has(path string) bool {
	return slices.ContainsFunc(f.problems, func(p Problem) bool {
		rest, ok := strings.CutPrefix(path, p.Key)
		return ok && p.Key != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// err is all of it by line, or nil.
func (f *findings) err() error {
	if len(f.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(f.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return &Error{f.source.file, f.problems}
}
