package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// A kind is how values of one type are called, and one that is right.
type kind struct{ name, example string }

// kindFor is the kind of a type.
func kindFor(t reflect.Type) kind {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return kind{"a duration", "10m"}
	case reflect.TypeFor[Size]():
		return kind{"a size", "64MiB"}
	case reflect.TypeFor[netip.Addr]():
		return kind{"an address", "10.0.0.1"}
	case reflect.TypeFor[netip.Prefix]():
		return kind{"a network", "239.77.0.0/16"}
	case reflect.TypeFor[PortRange]():
		return kind{"a range of ports", "9800-10055"}
	case reflect.TypeFor[MAC]():
		return kind{"an Ethernet address", "02:00:00:00:00:01"}
	case reflect.TypeFor[[]Interface]():
		return kind{"a list", "[{name: eth0, address: 10.0.0.1}]"}
	case reflect.TypeFor[[]string]():
		return kind{"a list", `["10.1.0.10:2379"]`}
	case reflect.TypeFor[[]EtcdMember]():
		return kind{"a list", `[{name: rack7-a, address: "10.1.0.1:2380"}]`}
	case reflect.TypeFor[[]Host]():
		return kind{"a list", `[{address: 10.0.0.2, mac: "02:00:00:00:00:02", port: 2}]`}
	}
	switch t.Kind() {
	case reflect.Bool:
		return kind{"true or false", "false"}
	case reflect.String:
		return kind{"a text", "a text"}
	case reflect.Int, reflect.Int64:
		return kind{"a whole number", "64"}
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return kind{fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<(t.Bits()-1)-1+uint64(1)<<(t.Bits()-1)), "64"}
	}
	return kind{"a section", "its keys"}
}

func kindOf(t reflect.Type) string { return kindFor(t).name }

func example(v reflect.Value) string { return kindFor(v.Type()).example }

// described is what a node is, for people.
func described(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "keys"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", node.Value)
}

// keyOf is the key of a struct's field; empty: none.
func keyOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// keysOf are the keys of a section, in their order.
func keysOf(t reflect.Type) (keys []string) {
	for i := range t.NumField() {
		if key := keyOf(t.Field(i)); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// fieldOf is the field of a key.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if name := keyOf(v.Type().Field(i)); name != "" && name == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// join is the path of a key below another.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
