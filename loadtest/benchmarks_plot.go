package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// plotted says what of a section is drawn: a column, over the rows' x, a curve for each name that rows have.
type plotted struct {
	file          string // beside the page; its ending says the format
	title, xLabel string
	column        int
}

// The size of a plot.
const plotWidth, plotHeight = 16 * vg.Centimeter, 9 * vg.Centimeter

// draw writes the section's plot into a directory.
func (s section) draw(directory string, values [][]float64) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = s.plot.title, s.plot.xLabel, s.columns[s.plot.column].title
	p.Legend.Top, p.Y.Min = true, 0
	p.Add(plotter.NewGrid())
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
	if err := plotutil.AddLinePoints(p, curves...); err != nil {
		return fmt.Errorf("draw the plot: %w", err)
	}
	p.Y.Min = 0
	if err := p.Save(plotWidth, plotHeight, filepath.Join(directory, s.plot.file)); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
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
