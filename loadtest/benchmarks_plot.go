package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// plotted says what of a section is drawn: a column, over the rows' x, a curve for each name that rows have; or what the first row's report has of a course of time.
type plotted struct {
	file          string // beside the page; its ending says the format
	title, xLabel string
	column        int
	// course reads the curves from a report: that of the last round. nil: the column is drawn.
	course func(report []byte) ([]curve, error)
	yLabel string // of a course
}

// curve is a named line of a plot.
type curve struct {
	name   string
	points plotter.XYs
}

// The size of a plot.
const plotWidth, plotHeight = 16 * vg.Centimeter, 9 * vg.Centimeter

// draw writes the section's plot into a directory. reports are the last of each command.
func (s section) draw(directory string, values [][]float64, reports map[string]json.RawMessage) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = s.plot.title, s.plot.xLabel, s.plot.yLabel
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	var err error
	if s.plot.course != nil {
		err = s.addCourse(p, reports)
	} else {
		p.Y.Label.Text = s.columns[s.plot.column].title
		err = s.addColumn(p, values)
	}
	if err != nil {
		return fmt.Errorf("draw the plot: %w", err)
	}
	p.Y.Min = 0
	if err := p.Save(plotWidth, plotHeight, filepath.Join(directory, s.plot.file)); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}

// addCourse draws lines without marks.
func (s section) addCourse(p *plot.Plot, reports map[string]json.RawMessage) error {
	found, err := s.plot.course(reports[s.rows[0].command()])
	if err != nil {
		return err
	}
	var curves []any
	for _, c := range found {
		curves = append(curves, c.name, c.points)
	}
	return plotutil.AddLines(p, curves...)
}

// addColumn draws the values of one column.
func (s section) addColumn(p *plot.Plot, values [][]float64) error {
	var curves []any
	for _, name := range s.curves() {
		var points plotter.XYs
		for i, r := range s.rows {
			if r.curve == name {
				points = append(points, plotter.XY{X: r.x, Y: values[i][s.plot.column]})
			}
		}
		slices.SortFunc(points, func(a, b plotter.XY) int {
			switch {
			case a.X < b.X:
				return -1
			case a.X > b.X:
				return 1
			}
			return 0
		})
		curves = append(curves, name, points)
	}
	return plotutil.AddLinePoints(p, curves...)
}

// curves are the names of the section's curves, in the order of the rows.
func (s section) curves() []string {
	var names []string
	for _, r := range s.rows {
		if r.curve != "" && !slices.Contains(names, r.curve) {
			names = append(names, r.curve)
		}
	}
	return names
}
