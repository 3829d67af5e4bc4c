package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxText bounds a configuration: one with 10,000 hosts has less than 1 MiB.
const maxText = 1 << 20

// Load reads a file. The error lists all that is wrong with it (Error), each as "file:line: key: what is wrong; what to write instead".
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, text)
}

// Parse reads a configuration whose errors call it name.
func Parse(name string, text []byte) (*Config, error) {
	f := &findings{source: &source{file: name, lines: map[string]int{}}}
	if len(text) > maxText {
		f.wrong("", "it should have a few kilobytes", "longer than %d bytes", maxText)
		return nil, f.err()
	}
	root := f.document(text)
	if f.err() != nil {
		return nil, f.err()
	}
	c := Default()
	if root != nil {
		r := reader{f}
		r.read(root, c)
	}
	c.source = f.source
	c.complete()
	c.validate(f)
	if err := f.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// complete fills in the defaults that depend on something else, and has one way to say a thing where the file has two.
func (c *Config) complete() {
	for _, listen := range []*string{&c.API.Listen, &c.Metrics.Listen} {
		if *listen == "off" {
			*listen = ""
		}
	}
	if c.Jobs.Tor == "" {
		c.Jobs.Tor = TorNone
		if c.Switch != nil {
			c.Jobs.Tor = TorPrivate
		}
	}
}

// yamlLine is how the YAML library says where.
var yamlLine = regexp.MustCompile(`^(?:line (\d+): )?(.*)$`)

var unknownAnchor = regexp.MustCompile(`^unknown anchor '(.+)' referenced$`)

// document is the root of the YAML; nil when there is nothing in it.
func (f *findings) document(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var node yaml.Node
	if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		match := yamlLine.FindStringSubmatch(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " "))
		line := 1
		if n, err := strconv.Atoi(match[1]); err == nil {
			line = n
		} else if anchor := unknownAnchor.FindStringSubmatch(match[2]); anchor != nil {
			// The library says the line of everything but this.
			before, _, _ := bytes.Cut(text, []byte("*"+anchor[1]))
			line += bytes.Count(before, []byte("\n"))
		}
		f.wrongAt(line, "", "write \"key: value\", indented by spaces", "not YAML: %s", match[2])
		return nil
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		line := max(second.Line, 1)
		f.wrongAt(line, "", "remove it", "there is a second document, or something else after the first")
	}
	if node.Kind != yaml.DocumentNode || len(node.Content) != 1 || isNull(node.Content[0]) {
		return nil
	}
	return node.Content[0]
}
