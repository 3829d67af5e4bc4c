// Package spillwayv1 is the appliance's API, version 1, as Go code that buf makes of the definitions beside it. What calls mean, and how they fail, is
// said there: job.proto is for operators, worker.proto for workers, node.proto for whoever wants to see what goes on.
package spillwayv1
