// Package metrics gives what the appliance does to Prometheus. Most is read when it asks, through appliance/observe; what happens between two
// questions, calls of the API and workers that joined, is counted as it happens.
//
// names.go is the list of all metrics; docs/metrics.md is made of it, and a test holds the two together.
package metrics
