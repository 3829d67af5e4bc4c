package output_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/golden"
	"spillway/ctl/output"
)

// answers are all messages that spillctl writes for programs.
var answers = map[string]proto.Message{
	"node": &v1.GetNodeResponse{}, "jobs": &v1.ListJobsResponse{}, "workers": &v1.ListWorkersResponse{}, "slots": &v1.ListSlotsResponse{},
	"levels": &v1.ListLevelsResponse{}, "counters": &v1.ListCountersResponse{}, "switch": &v1.GetSwitchResponse{}, "findings": &v1.DiagnoseResponse{},
	"event": &v1.Event{},
}

// fill gives every field a value, and every list one element.
func fill(m protoreflect.Message) {
	switch v := m.Interface().(type) {
	case *timestamppb.Timestamp:
		proto.Merge(v, timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)))
		return
	case *durationpb.Duration:
		proto.Merge(v, durationpb.New(1500*time.Millisecond))
		return
	}
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		if field.IsList() {
			list := m.Mutable(field).List()
			if field.Message() != nil {
				fill(list.AppendMutable().Message())
			} else {
				list.Append(example(field))
			}
		} else if field.Message() != nil {
			fill(m.Mutable(field).Message())
		} else {
			m.Set(field, example(field))
		}
	}
}

func example(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(`a "text" <&>`)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(7)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1 << 53)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0.25)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(2)
	default:
		panic("a field of a kind that the output does not know yet: " + field.Kind().String())
	}
}

// TestFieldNames holds all that programs may read, empty and filled: whoever changes a golden file changes the API.
func TestFieldNames(t *testing.T) {
	for name, m := range answers {
		for _, state := range []string{"empty", "filled"} {
			m = proto.Clone(m)
			if state == "filled" {
				fill(m.ProtoReflect())
			}
			for _, form := range []output.Form{output.JSON, output.YAML} {
				var b bytes.Buffer
				if err := output.Write(&b, form, output.Of(m)); err != nil {
					t.Fatalf("%s %s: %v", name, form, err)
				}
				golden.Check(t, name+"-"+state+"."+string(form), b.String())
			}
		}
	}
}

// TestFormsAgree: both forms say the same, and are what their own readers take.
func TestFormsAgree(t *testing.T) {
	for name, m := range answers {
		m = proto.Clone(m)
		fill(m.ProtoReflect())
		var j, y bytes.Buffer
		if err := output.Write(&j, output.JSON, output.Of(m)); err != nil {
			t.Fatal(err)
		}
		if err := output.Write(&y, output.YAML, output.Of(m)); err != nil {
			t.Fatal(err)
		}
		var fromJSON, fromYAML any
		if err := json.Unmarshal(j.Bytes(), &fromJSON); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, j.String())
		}
		if err := yaml.Unmarshal(y.Bytes(), &fromYAML); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, y.String())
		}
		back, err := json.Marshal(fromYAML)
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(fromJSON)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal(back, &a) != nil || json.Unmarshal(again, &b) != nil {
			t.Fatal("what was marshalled cannot be read")
		}
		if !equal(a, b) {
			t.Errorf("%s: YAML says %s\nJSON says %s", name, back, again)
		}
	}
}

func equal(a, b any) bool {
	x, _ := json.Marshal(a) // of what was unmarshalled a moment ago
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// TestAStream: a line of JSON for each, a document of YAML for each.
func TestAStream(t *testing.T) {
	var b bytes.Buffer
	for n := range uint64(3) {
		if err := output.WriteOne(&b, output.JSON, output.Of(&v1.Event{Number: n})); err != nil {
			t.Fatal(err)
		}
	}
	if lines := bytes.Count(b.Bytes(), []byte("\n")); lines != 3 {
		t.Errorf("%d lines for 3 events:\n%s", lines, b.String())
	}
	b.Reset()
	for n := range uint64(3) {
		if err := output.WriteOne(&b, output.YAML, output.Of(&v1.Event{Number: n})); err != nil {
			t.Fatal(err)
		}
	}
	documents := 0
	for decoder := yaml.NewDecoder(&b); ; documents++ {
		var event map[string]any
		if err := decoder.Decode(&event); err != nil {
			break
		}
		if event["number"] != documents {
			t.Errorf("document %d: number %v", documents, event["number"])
		}
	}
	if documents != 3 {
		t.Errorf("%d documents for 3 events", documents)
	}
}

func TestWordsOfANewerAppliance(t *testing.T) {
	if got := output.Word(v1.JobState(99)); got != "99" {
		t.Errorf("a state that is not known: %q", got)
	}
	if got := output.Word(v1.SwitchState_SWITCH_STATE_IN_SYNC); got != "in-sync" {
		t.Errorf("in sync: %q", got)
	}
	if got := output.Word(v1.JobState_JOB_STATE_UNSPECIFIED); got != "" {
		t.Errorf("unspecified: %q", got)
	}
}
