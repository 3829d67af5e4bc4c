package main

import (
	_ "embed" // for the template
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
	"github.com/go-echarts/go-echarts/v2/render"

	"spillway/loadtest/assets"
	"spillway/loadtest/quantity"
	"spillway/loadtest/rack"
)

//go:embed compare_page.html
var comparePage string

// comparedPlace is what the page has of one rack.
type comparedPlace struct {
	Title   string
	Charts  []template.HTML
	Results []CompareResult
}

// writePage writes the report as one page, which carries along all that it needs.
func (r *CompareReport) writePage(path string) error {
	var page strings.Builder
	if err := r.page(&page); err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func (r *CompareReport) page(w io.Writer) error {
	names := template.FuncMap{
		"title": systemTitle, "size": sizeText,
		"rounds": func(all []float64) string {
			var texts []string
			for _, ms := range all {
				texts = append(texts, fmt.Sprintf("%.4g", ms))
			}
			return strings.Join(texts, ", ")
		},
		"share": func(share *float64) string {
			if share == nil {
				return "–"
			}
			return fmt.Sprintf("%.1f%%", 100**share)
		},
		"against": func(p comparedPlace, of CompareResult) string {
			for _, ours := range p.Results {
				if ratio, there := ours.RatioTo[of.System]; there && ours.System == systemSpillway && ours.SizeBytes == of.SizeBytes {
					return fmt.Sprintf("%.2f× as fast", ratio)
				}
			}
			return ""
		},
	}
	page, err := template.New("page").Funcs(names).Parse(comparePage)
	if err != nil {
		return err
	}
	loss := ""
	if r.Config.Faults.Loss > 0 {
		p := quantity.Probability(r.Config.Faults.Loss)
		loss = p.String()
	}
	return page.Execute(w, struct {
		Title   string
		ECharts template.JS
		Report  *CompareReport
		Loss    string
		Burst   int
		Places  []comparedPlace
	}{"Spillway and what it is compared with", template.JS(assets.ECharts()), r, loss, rack.BurstKB, r.places()})
}

// places sorts the results by rack, and draws them.
func (r *CompareReport) places() []comparedPlace {
	var all []comparedPlace
	for _, result := range r.Results {
		title := fmt.Sprintf("%d workers, links of %s", result.Workers, rateText(result.RateBPS))
		if result.RateBPS == 0 {
			title = fmt.Sprintf("%d workers, unshaped links", result.Workers)
		}
		if len(all) == 0 || all[len(all)-1].Title != title {
			all = append(all, comparedPlace{Title: title})
		}
		at := &all[len(all)-1]
		at.Results = append(at.Results, result)
	}
	for i := range all {
		all[i].Charts = []template.HTML{
			r.timeChart(fmt.Sprintf("time%d", i), all[i].Results),
			r.ratioChart(fmt.Sprintf("ratio%d", i), all[i].Results),
		}
	}
	return all
}

// The colours of the systems, in the order of systemNames: they keep apart for eyes that do not see all colours (Okabe and Ito).
var systemColours = []string{"#0072B2", "#E69F00", "#009E73", "#CC79A7"}

// timeChart is the times by size, a line for each system. They lie decades apart, where bars would have no beginning.
func (r *CompareReport) timeChart(id string, results []CompareResult) template.HTML {
	line := charts.NewLine()
	line.SetGlobalOptions(chartOptions(id, "Time of an all-reduce, ms (logarithmic): less is better", "log")...)
	line.SetXAxis(resultSizes(results))
	for at, system := range systemNames {
		var points []opts.LineData
		for _, result := range results {
			if result.System == system.name {
				points = append(points, opts.LineData{Value: fmt.Sprintf("%.4g", result.P50MS), SymbolSize: 9})
			}
		}
		if points != nil {
			line.AddSeries(system.title, points, charts.WithItemStyleOpts(opts.ItemStyle{Color: systemColours[at]}), charts.WithLineStyleOpts(opts.LineStyle{Color: systemColours[at]}))
		}
	}
	return drawn(line.RenderSnippet())
}

// ratioChart is Spillway's ratios by size, a bar for each other system.
func (r *CompareReport) ratioChart(id string, results []CompareResult) template.HTML {
	bar := charts.NewBar()
	bar.SetGlobalOptions(chartOptions(id, "How many times as fast Spillway is: above 1 it is faster", "value")...)
	bar.SetXAxis(resultSizes(results))
	for at, system := range systemNames {
		var bars []opts.BarData
		for _, result := range results {
			if ratio, there := result.RatioTo[system.name]; there && result.System == systemSpillway {
				bars = append(bars, opts.BarData{Value: fmt.Sprintf("%.3g", ratio)})
			}
		}
		if bars != nil {
			bar.AddSeries(system.title, bars, charts.WithItemStyleOpts(opts.ItemStyle{Color: systemColours[at]}),
				charts.WithLabelOpts(opts.Label{Show: opts.Bool(true), Position: "top", FontSize: 10}))
		}
	}
	return drawn(bar.RenderSnippet())
}

// chartOptions are what both charts have in common.
func chartOptions(id, title, axis string) []charts.GlobalOpts {
	return []charts.GlobalOpts{
		charts.WithInitializationOpts(opts.Initialization{ChartID: id, Width: "540px", Height: "360px", Renderer: "svg"}),
		charts.WithTitleOpts(opts.Title{Title: title, TitleStyle: &opts.TextStyle{FontSize: 14}}),
		charts.WithLegendOpts(opts.Legend{Bottom: "0", ItemWidth: 14}),
		charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "axis"}),
		charts.WithYAxisOpts(opts.YAxis{Type: axis}),
		charts.WithGridOpts(opts.Grid{Left: "60", Right: "10", Top: "50", Bottom: "70"}),
		charts.WithAnimation(false),
	}
}

// resultSizes are the sizes of results, in their order.
func resultSizes(results []CompareResult) []string {
	var sizes []string
	for _, result := range results {
		if size := sizeText(result.SizeBytes); !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

func drawn(snippet render.ChartSnippet) template.HTML {
	return template.HTML(snippet.Element + snippet.Script)
}
