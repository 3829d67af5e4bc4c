package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Model is the live view as a state machine of bubbletea.
type Model struct {
	source   Source
	interval time.Duration
	ctx      context.Context

	before, now *Snapshot
	err         error // of the last attempt, while what is shown is older
	width       int
	height      int
}

// NewModel is a view that takes a snapshot each interval, until ctx ends.
func NewModel(ctx context.Context, source Source, interval time.Duration) Model {
	return Model{ctx: ctx, source: source, interval: interval, width: 80, height: 24}
}

// Taken is the message that brings a snapshot, or says why there is none.
type Taken struct {
	Snapshot *Snapshot
	Err      error
}

type due struct{}

// Init takes the first snapshot.
func (m Model) Init() tea.Cmd { return m.take }

func (m Model) take() tea.Msg {
	s, err := m.source(m.ctx)
	return Taken{s, err}
}

// Update takes keys, sizes and snapshots in.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		}
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case Taken:
		m.err = msg.Err
		if msg.Err == nil {
			m.before, m.now = m.now, msg.Snapshot
		}
		return m, tea.Tick(m.interval, func(time.Time) tea.Msg { return due{} })
	case due:
		return m, m.take
	}
	return m, nil
}

// View is the whole screen.
func (m Model) View() tea.View {
	view := tea.NewView(m.Screen())
	view.AltScreen = true
	view.WindowTitle = "spillctl top"
	return view
}

// Run shows the view on a terminal until the user or ctx ends it. The terminal is then as it was.
func Run(ctx context.Context, source Source, interval time.Duration, options ...tea.ProgramOption) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel() // a snapshot that is being taken is not waited for
	options = append([]tea.ProgramOption{tea.WithContext(ctx), tea.WithoutSignalHandler()}, options...)
	_, err := tea.NewProgram(NewModel(inner, source, interval), options...).Run()
	if ctx.Err() != nil {
		return nil // a signal is another way to end it
	}
	return err
}
