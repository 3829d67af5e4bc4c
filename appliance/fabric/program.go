package fabric

import (
	"fmt"

	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/p4/v1model"
)

// The kinds of ToR that the appliance brings the program for.
const (
	KindSoftware = "software"
	KindBMv2     = "bmv2"
)

// Program is the pipeline for a kind of ToR.
func Program(kind string) (client.Pipeline, error) {
	switch kind {
	case KindSoftware:
		return client.NewPipeline(pipeline.Software(), nil) // it is the program
	case KindBMv2:
		return client.NewPipeline(pipeline.Software(), v1model.Program)
	}
	return client.Pipeline{}, fmt.Errorf("there is no program for a ToR of kind %q: write %s or %s", kind, KindSoftware, KindBMv2)
}
