package top

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/output"
)

// Screen is what the view shows, cut to the terminal's size.
func (m Model) Screen() string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if m.now == nil {
		if m.err != nil {
			add("%v", m.err)
			add("")
			add("It is asked again every %s; q quits.", output.Duration(m.interval))
		} else {
			add("asking the appliance…")
		}
		return m.fit(lines)
	}
	lines = append(lines, m.head()...)
	if m.err != nil {
		add("older than it should be: %v", m.err)
	}
	add("")
	lines = append(lines, strings.Split(strings.TrimRight(m.jobs(), "\n"), "\n")...)
	if late := m.late(); len(late) > 0 {
		add("")
		add("late workers")
		lines = append(lines, late...)
	}
	if lags := m.lags(); lags != "" {
		add("")
		lines = append(lines, strings.Split(strings.TrimRight(lags, "\n"), "\n")...)
	}
	if len(m.now.Node.GetWarnings()) > 0 {
		add("")
	}
	for _, warning := range m.now.Node.GetWarnings() {
		add("warning: %s", warning)
	}
	add("")
	add("q quits; every %s", output.Duration(m.interval))
	return m.fit(lines)
}

// fit keeps the screen from wrapping and scrolling. The end of a long list is cut, not the last line, which says how to leave.
func (m Model) fit(lines []string) string {
	if len(lines) > m.height && m.height > 1 {
		lines = append(lines[:m.height-1:m.height-1], lines[len(lines)-1])
	}
	for i, line := range lines {
		if utf8.RuneCountInString(line) > m.width && m.width > 0 {
			lines[i] = string([]rune(line)[:m.width-1]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}

func (m Model) head() []string {
	node := m.now.Node
	tor := "no ToR"
	if node.Switch != v1.SwitchState_SWITCH_STATE_UNSPECIFIED {
		tor = "ToR " + output.Word(node.Switch)
	}
	lines := []string{fmt.Sprintf("%s  up %s  %d jobs, %d workers  %s", node.Name, output.Since(node.Started, m.now.Time), node.Jobs, node.WorkersPresent, tor)}
	capacity := node.Capacity
	for _, class := range capacity.GetSlotClasses() {
		if class.Slots.GetUsed() > 0 {
			lines = append(lines, gauge(fmt.Sprintf("slots E≤%d", class.Elements), class.Slots))
		}
	}
	if capacity.GetTorSlots() != nil {
		lines = append(lines, gauge("ToR slots", capacity.TorSlots))
	}
	return lines
}

const gaugeWidth = 30

// gauge shows how much of something is given away.
func gauge(name string, a *v1.Amount) string {
	part := 0.0
	if a.Total > 0 {
		part = min(1, float64(a.Used)/float64(a.Total))
	}
	full := int(part*gaugeWidth + 0.5)
	return fmt.Sprintf("%-12s [%s%s] %d of %d, %s", name, strings.Repeat("#", full), strings.Repeat(".", gaugeWidth-full), a.Used, a.Total, output.Share(part))
}

func (m Model) jobs() string {
	if len(m.now.Jobs) == 0 {
		return "There are no jobs."
	}
	rows := output.NewRows("JOB", "STATE", ">WORKERS", ">CHUNKS/S", ">RATE", ">SPILL", ">DROPS/S", ">WAITING", ">OLDEST")
	for _, job := range m.now.Jobs {
		name := job.Spec.GetName()
		r := ratesOf(name, m.before, m.now)
		var chunks, rate, spill, drops, oldest string
		if r.known {
			chunks, drops = output.Count(r.chunks), output.Count(r.dropped)
			rate = output.Count(r.chunks*float64(job.Spec.GetElements())*32) + "bit/s"
		}
		if r.spillable {
			spill = output.Share(r.spill)
		}
		waiting := m.now.Waiting[name]
		if waiting.Chunks > 0 {
			oldest = output.Duration(waiting.Oldest)
		}
		rows.Add(name, output.Word(job.State), fmt.Sprintf("%d/%d", job.Present, job.Spec.GetWorkers()), chunks, rate, spill, drops, waiting.Chunks, oldest)
	}
	var b strings.Builder
	if err := rows.Write(&b); err != nil {
		return err.Error() // a strings.Builder has none
	}
	return b.String()
}

func (m Model) late() []string {
	var lines []string
	for _, job := range m.now.Jobs {
		for _, w := range m.now.Workers[job.Spec.GetName()] {
			if !isLate(w) {
				continue
			}
			last := "no packet yet"
			if w.LastPacket != nil {
				last = "last packet " + output.Duration(max(0, m.now.Time.Sub(w.LastPacket.AsTime()).Truncate(time.Millisecond))) + " ago"
			}
			lines = append(lines, fmt.Sprintf("  %s rank %d %s %s: %d chunks wait for it, the oldest for %s; %s", job.Spec.GetName(), w.Rank, w.Address,
				output.Word(w.State), w.WaitedFor, output.Span(w.Late), last))
		}
	}
	return lines
}

// mostLags of a job are shown.
const mostLags = 5

// lags shows who holds the others up by coming late, chunk after chunk; empty when nobody does.
func (m Model) lags() string {
	rows, any := output.NewRows("HOLDS UP", ">RANK", "ADDRESS", ">OF THE TIME", ">P50", ">P99", ">WITHOUT/S"), false
	for _, job := range m.now.Jobs {
		all := lags(job, m.before, m.now)
		for _, l := range all[:min(len(all), mostLags)] {
			any = true
			rows.Add(job.Spec.GetName(), l.rank, l.address, output.Share(l.held), output.Late(l.lateness, 0.5), output.Late(l.lateness, 0.99),
				output.Count(float64(l.without)/m.now.Time.Sub(m.before.Time).Seconds()))
		}
	}
	if !any {
		return ""
	}
	var b strings.Builder
	if err := rows.Write(&b); err != nil {
		return err.Error() // a strings.Builder has none
	}
	return b.String()
}

// Text is what the view shows after two snapshots, whole and without what is said about keys.
func Text(before, now *Snapshot) string {
	m := Model{before: before, now: now}
	lines := strings.Split(m.Screen(), "\n")
	return strings.TrimRight(strings.Join(lines[:len(lines)-1], "\n"), "\n")
}
