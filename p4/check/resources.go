package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// resources are what each stage uses, from the compiler's pipe/logs/resources.json. The two directions share the stages.
type resources struct {
	Resources struct {
		MAU struct {
			Stages []usage `json:"mau_stages"`
		} `json:"mau"`
	} `json:"resources"`
}

type usage struct {
	Number int `json:"stage_number"`
	SRAM   struct {
		Used []any `json:"srams"`
	} `json:"rams"`
	TCAM struct {
		Used []any `json:"tcams"`
	} `json:"tcams"`
	MapRAM struct {
		Used []any `json:"maprams"`
	} `json:"map_rams"`
	ALU struct {
		Used []any `json:"meters"`
	} `json:"meter_alus"`
	Tables struct {
		Used []any `json:"ids"`
	} `json:"logical_tables"`
	Bytes struct {
		Used []struct {
			Type string `json:"byte_type"`
		} `json:"bytes"`
	} `json:"xbar_bytes"`
}

// Of each stage of a Tofino.
const (
	stageSRAM         = 80
	stageTCAM         = 24
	stageMapRAM       = 48
	stageALUs         = 4
	stageTables       = 16
	stageExactBytes   = 128
	stageTernaryBytes = 66
)

func readResources(b []byte) ([]usage, error) {
	var r resources
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("resources.json: %w", err)
	}
	if len(r.Resources.MAU.Stages) == 0 {
		return nil, fmt.Errorf("resources.json has no stages")
	}
	return r.Resources.MAU.Stages, nil
}

// summary checks the layout and says what is used, for people.
func summary(l layout, used []usage) (string, error) {
	registers, err := l.registers()
	if err != nil {
		return "", err
	}
	ingress, egress, err := l.stages()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Stages: %d of ingress, %d of egress, of %d. Written by make p4.\n\n", ingress, egress, maxStages)
	fmt.Fprintf(&b, "stage     SRAM     TCAM  map RAM  stateful ALU  tables  exact bytes  ternary bytes\n")
	line := "%5s  %7s  %7s  %7s  %12s  %6s  %11s  %13s\n"
	of := func(n, all int) string { return fmt.Sprintf("%d/%d", n, all) }
	var sram, tcam, mapRAM, alus, tables int
	for _, u := range used {
		exact, ternary := 0, 0
		for _, x := range u.Bytes.Used {
			if x.Type == "ternary" {
				ternary++
			} else {
				exact++
			}
		}
		fmt.Fprintf(&b, line, fmt.Sprint(u.Number), of(len(u.SRAM.Used), stageSRAM), of(len(u.TCAM.Used), stageTCAM), of(len(u.MapRAM.Used), stageMapRAM),
			of(len(u.ALU.Used), stageALUs), of(len(u.Tables.Used), stageTables), of(exact, stageExactBytes), of(ternary, stageTernaryBytes))
		sram, tcam, mapRAM = sram+len(u.SRAM.Used), tcam+len(u.TCAM.Used), mapRAM+len(u.MapRAM.Used)
		alus, tables = alus+len(u.ALU.Used), tables+len(u.Tables.Used)
	}
	n := len(used)
	fmt.Fprintf(&b, line, "all", of(sram, n*stageSRAM), of(tcam, n*stageTCAM), of(mapRAM, n*stageMapRAM), of(alus, n*stageALUs), of(tables, n*stageTables), "", "")
	fmt.Fprintf(&b, "\nEach of the %d registers lies in one stage:\n", len(registers))
	byStage := map[int][]string{}
	for name, s := range registers {
		byStage[s] = append(byStage[s], strings.TrimPrefix(name, "SpillwayIngress."))
	}
	for _, s := range slices.Sorted(maps.Keys(byStage)) {
		slices.Sort(byStage[s])
		fmt.Fprintf(&b, "%5d  %s\n", s, strings.Join(byStage[s], ", "))
	}
	return b.String(), nil
}
