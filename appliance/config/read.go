package config

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// reader fills a Config from YAML nodes. The YAML library's own decoder stops at the first unknown key and says neither the path nor what
// would be right.
type reader struct{ *findings }

// read fills the configuration.
func (r reader) read(root *yaml.Node, c *Config) { r.value(root, reflect.ValueOf(c).Elem(), "") }

// value reads one node into v, whatever v is.
func (r reader) value(node *yaml.Node, v reflect.Value, path string) {
	if path != "" {
		r.source.lines[path] = node.Line
	}
	switch {
	case node.Kind == yaml.AliasNode:
		r.wrongAt(node.Line, path, "write the value out", "an alias (*%s)", node.Value)
	case node.Style&yaml.TaggedStyle != 0:
		r.wrongAt(node.Line, path, "write the value without it", "a tag (%s)", node.Tag)
	case isNull(node) && path != "":
		r.wrongAt(node.Line, path, fmt.Sprintf("give it one, such as %s, or leave the key out", example(v)), "has no value")
	case v.Kind() == reflect.Pointer:
		// Pointers are to sections that may be left out; what a section that is there has by default goes first.
		section := reflect.New(v.Type().Elem())
		switch of := section.Interface().(type) {
		case *Switch:
			*of = *defaultSwitch()
		case *Cluster:
			*of = *defaultCluster()
		case *EmbeddedEtcd:
			*of = *defaultEmbedded()
		}
		v.Set(section)
		r.section(node, section.Elem(), path)
	case isLeaf(v.Type()):
		r.leaf(node, v, path)
	case v.Kind() == reflect.Slice:
		r.list(node, v, path)
	default:
		r.section(node, v, path)
	}
}

// isLeaf reports whether a type is written as one scalar.
func isLeaf(t reflect.Type) bool {
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Slice && t.Kind() != reflect.Pointer || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

// section reads a mapping into a struct.
func (r reader) section(node *yaml.Node, v reflect.Value, path string) {
	keys := keysOf(v.Type())
	if node.Kind != yaml.MappingNode {
		r.wrongAt(node.Line, path, "write "+listed(quoted(keys), "and")+" below it, each on a line of its own, as needed", "%s, where keys should be", described(node))
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		name := key.Value
		below := join(path, name)
		if key.Kind != yaml.ScalarNode {
			r.wrongAt(key.Line, path, "write a plain word", "%s as a key", described(key))
			continue
		}
		if line, twice := first[name]; twice {
			r.problems = append(r.problems, Problem{key.Line, below, fmt.Sprintf("is there twice, first in line %d", line), "remove one"})
			continue
		}
		first[name] = key.Line
		field, ok := fieldOf(v, name)
		if !ok {
			r.wrongAt(key.Line, below, suggest(name, path, keys), "there is no such key")
			continue
		}
		r.value(value, field, below)
		// The line of a key that has a section below it is the key's, not that of the first thing in it.
		r.source.lines[below] = key.Line
	}
}

// list reads a sequence.
func (r reader) list(node *yaml.Node, v reflect.Value, path string) {
	if node.Kind != yaml.SequenceNode {
		r.wrongAt(node.Line, path, "write a list, "+example(v), "%s, where a list should be", described(node))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content)))
	for i, item := range node.Content {
		r.value(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

// leaf reads a scalar.
func (r reader) leaf(node *yaml.Node, v reflect.Value, path string) {
	if node.Kind != yaml.ScalarNode {
		r.wrongAt(node.Line, path, "write one value, such as "+example(v), "%s, where one value should be", described(node))
		return
	}
	text := node.Value
	if wrong := scan(text, v); wrong != "" {
		instead := "write one such as " + example(v)
		if v.Type() == reflect.TypeFor[time.Duration]() {
			if n, err := strconv.ParseUint(text, 10, 32); err == nil {
				instead = fmt.Sprintf("write %ds, or %dm if minutes are meant", n, n)
			}
		}
		if v.Type() == reflect.TypeFor[Size]() {
			if n, err := strconv.ParseUint(strings.TrimRight(text, "kKmMgGiIbB "), 10, 32); err == nil {
				instead = fmt.Sprintf("write one such as %dMiB", n)
			}
		}
		r.wrongAt(node.Line, path, instead, "%s", wrong)
	}
}

// scan sets v from text, and says what is wrong if it cannot.
func scan(text string, v reflect.Value) (wrong string) {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil || v.Type() == reflect.TypeFor[netip.Addr]() && text == "" {
			return fmt.Sprintf("%q is not %s", text, kindOf(v.Type()))
		}
		return ""
	}
	var err error
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		var d time.Duration
		// ParseDuration takes a bare 0; a unit is asked for everywhere.
		if d, err = time.ParseDuration(text); err == nil {
			v.SetInt(int64(d))
		}
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Sprintf("%q is not true or false", text)
		}
		v.SetBool(text == "true")
	case v.CanInt():
		var n int64
		if n, err = strconv.ParseInt(text, 10, v.Type().Bits()); err == nil {
			v.SetInt(n)
		}
	case v.CanUint():
		var n uint64
		if n, err = strconv.ParseUint(text, 10, v.Type().Bits()); err == nil {
			v.SetUint(n)
		}
	}
	if err != nil {
		return fmt.Sprintf("%q is not %s", text, kindOf(v.Type()))
	}
	return ""
}
