package main

import (
	"encoding/json"
	"fmt"
)

// torchPlan is what is measured of training in PyTorch. The aim is the project's, of the time that averaging the gradients takes.
func torchPlan() []section {
	step := func(more ...string) []string {
		return append([]string{"torch", "--step", "--workers", "4", "--parameters", "25600000", "--steps", "5", "--rate", "500mbit", "--output", "json"}, more...)
	}
	const aim = "≥ 1.35× (communication)"
	return []section{{
		title: "PyTorch, 25.6 million parameters",
		text: "A step of DistributedDataParallel on four ranks at 500 Mbit/s, with the gradients of as many parameters as a ResNet-50 has, on random data: through Spillway's hook, and through gloo. " +
			"Communication is the averages alone, with all gradients there at once; a step has them overlap with the backward pass, which two cores compute for four ranks. Each is the median over five steps of the slowest rank's time. " +
			"Losses are at every rank's port, each way, of UDP's packets and of TCP's alike. The straggler is one rank that pauses for half a second before each: both wait for it, so what is gained is the same, and the ratio less.",
		rows: []row{
			{label: "no loss", args: step(), aim: aim, read: readTorch},
			{label: "1% of packets lost", args: step("--loss", "1%"), aim: aim, read: readTorch},
			{label: "a straggler", args: step("--straggler", "500ms"), read: readTorch},
		},
		columns: []column{
			{title: "communication, Spillway, s", key: "spillway_communication", digits: 2}, {title: "gloo, s", key: "gloo_communication", digits: 2},
			{title: "gloo ÷ Spillway", key: "gloo_communication", over: "spillway_communication", digits: 2},
			{title: "whole step, Spillway, s", key: "spillway_whole", digits: 2}, {title: "gloo, s", key: "gloo_whole", digits: 2},
			{title: "gloo ÷ Spillway", key: "gloo_whole", over: "spillway_whole", digits: 2},
		},
	}}
}

// readTorch reads the report of `spill-load torch --step`.
func readTorch(report []byte) (figure, error) {
	var r map[string]*torchTimes
	if err := json.Unmarshal(report, &r); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	f := figure{}
	for _, through := range []string{"spillway", "gloo"} {
		times := r[through]
		if times == nil || times.Communication <= 0 || times.Whole <= 0 {
			return nil, fmt.Errorf("the report has no times through %s", through)
		}
		f[through+"_communication"], f[through+"_whole"] = times.Communication, times.Whole
	}
	return f, nil
}
