package p4info

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	configv1 "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Difference says where two P4Infos first differ in what they mean to a controller, and is empty when they do not. The order of
// objects, documentation, annotations, aliases and the package's description mean nothing; neither do leading zeros of a value.
func Difference(want, got *configv1.P4Info) string {
	return differ(want.ProtoReflect(), got.ProtoReflect(), "")
}

// meaningless are the fields that do not count.
var meaningless = map[protoreflect.Name]bool{
	"pkg_info": true, "doc": true, "annotations": true, "annotation_locations": true, "structured_annotations": true, "alias": true, "type_info": true,
}

func differ(want, got protoreflect.Message, path string) string {
	fields := want.Descriptor().Fields()
	for n := range fields.Len() {
		field := fields.Get(n)
		if meaningless[field.Name()] {
			continue
		}
		at := Path(path, string(field.Name()))
		a, b := want.Get(field), got.Get(field)
		var difference string
		switch {
		case field.IsMap():
			if !proto.Equal(want.Interface(), got.Interface()) {
				difference = at + " differs"
			}
		case field.IsList() && field.Message() != nil:
			difference = differObjects(a.List(), b.List(), at)
		case field.IsList():
			if x, y := scalars(a.List()), scalars(b.List()); !slices.Equal(x, y) {
				difference = fmt.Sprintf("%s is %v, not %v", at, y, x)
			}
		case field.Message() != nil && want.Has(field) != got.Has(field):
			difference = fmt.Sprintf("%s is %s, not %s", at, presence(got.Has(field)), presence(want.Has(field)))
		case field.Message() != nil:
			if want.Has(field) {
				difference = differ(a.Message(), b.Message(), at)
			}
		case field.Kind() == protoreflect.BytesKind:
			if !bytes.Equal(bytes.TrimLeft(a.Bytes(), "\x00"), bytes.TrimLeft(b.Bytes(), "\x00")) {
				difference = fmt.Sprintf("%s is %x, not %x", at, b.Bytes(), a.Bytes())
			}
		case !a.Equal(b):
			difference = fmt.Sprintf("%s is %v, not %v", at, b, a)
		}
		if difference != "" {
			return difference
		}
	}
	return ""
}

func presence(there bool) string {
	if there {
		return "there"
	}
	return "missing"
}

func scalars(list protoreflect.List) []string {
	var out []string
	for n := range list.Len() {
		out = append(out, fmt.Sprint(list.Get(n)))
	}
	slices.Sort(out)
	return out
}

// differObjects compares lists whose elements have a name or a number of their own.
func differObjects(want, got protoreflect.List, path string) string {
	a, b := objects(want), objects(got)
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if _, ok := b[name]; !ok {
			return fmt.Sprintf("%s[%s] is missing", path, name)
		}
		if difference := differ(a[name], b[name], fmt.Sprintf("%s[%s]", path, name)); difference != "" {
			return difference
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			return fmt.Sprintf("%s[%s] is there, but not known", path, name)
		}
	}
	if want.Len() != got.Len() {
		return fmt.Sprintf("%s has %d elements, not %d", path, got.Len(), want.Len())
	}
	return ""
}

// objects are the elements of a list by what they are called.
func objects(list protoreflect.List) map[string]protoreflect.Message {
	out := map[string]protoreflect.Message{}
	for n := range list.Len() {
		object := list.Get(n).Message()
		out[called(object)] = object
	}
	return out
}

func called(object protoreflect.Message) string {
	fields := object.Descriptor().Fields()
	if preamble := fields.ByName("preamble"); preamble != nil && preamble.Message() != nil {
		return called(object.Get(preamble).Message())
	}
	for _, name := range []protoreflect.Name{"name", "id", "param_id"} {
		if field := fields.ByName(name); field != nil && object.Has(field) && field.Message() == nil {
			return object.Get(field).String()
		}
	}
	return ""
}
