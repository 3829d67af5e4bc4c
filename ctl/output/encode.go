package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Object is a message of the API as spillctl writes it for programs: its fields in the order of their declaration, under their names in the .proto files. It
// is written rather than protojson's form because that has 64-bit numbers as strings, leaves fields out that are zero, and spells enums in capitals
// with their type's name in front.
//
// All fields are there: a number or text that is not set as its zero value, a list that is empty as [], a message or time that is not set as null. Times are
// in RFC 3339, durations in seconds, enums in their values' words, small and with dashes: "in-sync".
type Object struct {
	names  []string
	values []any
}

// Of is the object of a message.
func Of(m proto.Message) *Object { return objectOf(m.ProtoReflect()) }

// With is the object with one more field at its end.
func (o *Object) With(name string, value any) *Object {
	o.names, o.values = append(o.names, name), append(o.values, value)
	return o
}

func objectOf(m protoreflect.Message) *Object {
	o := &Object{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		o.With(string(field.Name()), fieldOf(m, field))
	}
	return o
}

func fieldOf(m protoreflect.Message, field protoreflect.FieldDescriptor) any {
	if field.IsList() {
		list := m.Get(field).List()
		values := make([]any, list.Len())
		for i := range values {
			values[i] = scalarOf(field, list.Get(i))
		}
		return values
	}
	if field.Message() != nil && !m.Has(field) {
		return nil
	}
	return scalarOf(field, m.Get(field))
}

func scalarOf(field protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch field.Kind() {
	case protoreflect.EnumKind:
		return wordOf(field.Enum(), value.Enum())
	case protoreflect.MessageKind:
		switch m := value.Message().Interface().(type) {
		case *timestamppb.Timestamp:
			return m.AsTime().Format(time.RFC3339Nano)
		case *durationpb.Duration:
			return m.AsDuration().Seconds()
		default:
			return objectOf(value.Message())
		}
	default:
		return value.Interface()
	}
}

// Word is an enum's value in the words of the output: without the type's name, which all values have in front, small, with dashes.
func Word(value protoreflect.Enum) string { return wordOf(value.Descriptor(), value.Number()) }

func wordOf(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) string {
	value := enum.Values().ByNumber(number)
	if value == nil {
		return fmt.Sprint(number) // of a newer appliance
	}
	zero := string(enum.Values().Get(0).Name())
	prefix := strings.TrimSuffix(zero, "UNSPECIFIED")
	word := strings.TrimPrefix(string(value.Name()), prefix)
	if word == "UNSPECIFIED" {
		return ""
	}
	return strings.ReplaceAll(strings.ToLower(word), "_", "-")
}

// MarshalJSON keeps the order of the fields.
func (o *Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:", name)
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // texts are for terminals and jq
		if err := e.Encode(o.values[i]); err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// MarshalYAML keeps the order of the fields.
func (o *Object) MarshalYAML() (any, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for i, name := range o.names {
		var value yaml.Node
		if err := value.Encode(o.values[i]); err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &value)
	}
	return node, nil
}
