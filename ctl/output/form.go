// Package output writes what spillctl found out: for people as tables, for programs as JSON or YAML, whose field names are a part of the API.
package output

import (
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// Form is how data are written.
type Form string

// The forms.
const (
	Table Form = "table"
	JSON  Form = "json"
	YAML  Form = "yaml"
)

// ParseForm reads a form's name.
func ParseForm(name string) (Form, error) {
	switch f := Form(name); f {
	case Table, JSON, YAML:
		return f, nil
	}
	return "", fmt.Errorf("output %q is none of %s, %s, %s", name, Table, JSON, YAML)
}

// Write writes an object in a form for programs.
func Write(w io.Writer, form Form, o *Object) error {
	switch form {
	case JSON:
		return indented(w).Encode(o)
	case YAML:
		e := yaml.NewEncoder(w)
		e.SetIndent(2)
		if err := e.Encode(o); err != nil {
			return err
		}
		return e.Close()
	default:
		return fmt.Errorf("an object has no form %q", form)
	}
}

func indented(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e
}

// WriteOne writes one object of a stream: a line of JSON, or a document of YAML.
func WriteOne(w io.Writer, form Form, o *Object) error {
	if form == YAML {
		if _, err := fmt.Fprintln(w, "---"); err != nil {
			return err
		}
		return Write(w, form, o)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(o)
}
