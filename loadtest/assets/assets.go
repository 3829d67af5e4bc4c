// Package assets has what pages of spill-load carry along, so that they need no network: the charts' JavaScript, Apache ECharts 5.6.0 (see NOTICE).
package assets

import _ "embed" // for the script

//go:embed echarts.common.min.js
var echarts string

// ECharts is a script that defines echarts, without elements around it.
func ECharts() string { return echarts }
