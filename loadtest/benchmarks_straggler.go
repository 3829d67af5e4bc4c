package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"gonum.org/v1/plot/plotter"

	"spillway/loadtest/chaos"
)

// stragglerPlan is what is measured of jobs that go on without a straggler, and of those that wait.
func stragglerPlan() []section {
	command := []string{"chaos", "straggler", "--count", "10", "--seed", "7", "--output", "json"}
	policy := func(label, name, aim string) row {
		return row{label: label, args: command, aim: aim, read: readStraggler(name)}
	}
	return []section{{
		title: "Stragglers",
		text: "Eight workers reduce 64 kB a step, and are busy for 20 ms before each, as if an accelerator computed. The last one pauses once in 20 steps, at random, for ten times the step time. The job waits for it, or " +
			"has a quorum of seven after 5 ms. Steps a second are until the seven others have done the last one. Accuracy is of the demo's training with the same pauses, under the quorum with residuals " +
			"(what came too late goes into the next gradient). Slots are the ToR's that hold an incomplete sum, of 32, as a mean over time and as their time for each step, in a run through a software ToR: " +
			"where all wait, RESENDs bring what rests there to the home, and nothing new comes; under the quorum the others go on, and what they send while the straggler pauses rests there until it is overdue.",
		plot: &plotted{file: "benchmarks-straggler-slots.svg", title: "Slots of the ToR that a straggler holds", xLabel: "time, ms", yLabel: "slots held", course: readHeldSlots},
		rows: []row{
			policy("none slow", "none_slow", ""),
			policy("wait", "wait", ""),
			policy("quorum 7 after 5 ms", "quorum", "accuracy within 1 point of wait"),
		},
		columns: []column{
			{title: "steps/s", key: "steps_per_s", digits: 1}, {title: "of none slow", key: "steps_per_s", relative: true, percent: true, digits: 1},
			{title: "accuracy of the training", key: "accuracy", percent: true, digits: 2},
			{title: "ToR slots held, mean", key: "held_mean", digits: 2}, {title: "most", key: "held_most"},
			{title: "slot·ms a step", key: "held_ms", digits: 1},
		},
	}}
}

// readStraggler reads what the report of `spill-load chaos straggler` has about one policy. A run with a wrong sum is no measurement.
func readStraggler(policy string) func([]byte) (figure, error) {
	return func(report []byte) (figure, error) {
		var r struct {
			WrongSums int                `json:"wrong_sums"`
			Figures   map[string]float64 `json:"figures"`
		}
		if err := json.Unmarshal(report, &r); err != nil {
			return nil, fmt.Errorf("read the report: %w", err)
		}
		if r.WrongSums != 0 {
			return nil, errors.New("the report says that a sum was wrong")
		}
		f := figure{}
		for key, name := range map[string]string{
			"steps_per_s": "steps_per_s_", "accuracy": "accuracy_training_",
			"held_mean": "tor_slots_held_mean_", "held_most": "tor_slots_held_most_", "held_ms": "tor_slot_ms_per_step_",
		} {
			value, there := r.Figures[name+policy]
			if !there {
				return nil, fmt.Errorf("the report has no %s", name+policy)
			}
			f[key] = value
		}
		return f, nil
	}
}

// courseMS is how much of a run is drawn: some pauses.
const courseMS = 3000

// readHeldSlots reads how many slots of the ToR held an incomplete sum over time, waiting and under the quorum.
func readHeldSlots(report []byte) ([]curve, error) {
	var r struct {
		Held map[string][]chaos.HeldSlots `json:"tor_slots_held"`
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	var curves []curve
	for _, policy := range []string{"wait", "quorum"} {
		c := curve{name: policy}
		for _, seen := range r.Held[policy] {
			if seen.AtMS <= courseMS {
				c.points = append(c.points, plotter.XY{X: seen.AtMS, Y: float64(seen.Slots)})
			}
		}
		if len(c.points) < 2 {
			return nil, fmt.Errorf("the report has no course of the slots held with %s", policy)
		}
		curves = append(curves, c)
	}
	return curves, nil
}
