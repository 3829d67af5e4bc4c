package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// maxStages is what a Tofino has in each direction.
const maxStages = 12

// A layout is where the compiler put things: what it tells the driver in pipe/context.json.
type layout struct {
	Tables []placed `json:"tables"`
}

type placed struct {
	Name      string  `json:"name"`
	Direction string  `json:"direction"`
	Type      string  `json:"table_type"`
	Stages    []stage `json:"stage_tables"`
	Match     struct {
		Stages []stage `json:"stage_tables"`
	} `json:"match_attributes"`
}

type stage struct {
	Number int `json:"stage_number"`
}

func readLayout(b []byte) (layout, error) {
	var l layout
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("context.json: %w", err)
	}
	if len(l.Tables) == 0 {
		return l, fmt.Errorf("context.json has no tables")
	}
	return l, nil
}

// registers are the stages of the stateful registers, by name. Each must lie in one stage: one that lies in two is two registers with one
// name, and packets on different paths see different ones.
func (l layout) registers() (map[string]int, error) {
	at := map[string][]int{}
	for _, t := range l.Tables {
		if t.Type == "stateful" {
			if at[t.Name] == nil {
				at[t.Name] = []int{} // where it lies nowhere, that is told too
			}
			for _, s := range t.Stages {
				at[t.Name] = append(at[t.Name], s.Number)
			}
		}
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("context.json has no stateful registers")
	}
	one := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		if len(at[name]) != 1 {
			return nil, fmt.Errorf("register %s lies in stages %v, not in one", name, at[name])
		}
		one[name] = at[name][0]
	}
	return one, nil
}

// stages is how many stages each direction takes.
func (l layout) stages() (ingress, egress int, err error) {
	for _, t := range l.Tables {
		for _, s := range append(slices.Clone(t.Stages), t.Match.Stages...) {
			switch t.Direction {
			case "ingress":
				ingress = max(ingress, s.Number+1)
			case "egress":
				egress = max(egress, s.Number+1)
			}
		}
	}
	if ingress == 0 {
		return 0, 0, fmt.Errorf("context.json has no tables of ingress")
	}
	if ingress > maxStages || egress > maxStages {
		return ingress, egress, fmt.Errorf("%d stages of ingress and %d of egress, a Tofino has %d", ingress, egress, maxStages)
	}
	return ingress, egress, nil
}
