package main

import (
	"time"

	"spillway/wire"
	"spillway/worker/fixedpoint"
)

// conversion is what a worker does to one chunk of float32 on its way out and
// back, in nanoseconds a chunk; medians over the rounds.
type conversion struct {
	ExponentNS   float64 `json:"exponent_ns"`
	QuantiseNS   float64 `json:"quantise_ns"`
	DequantiseNS float64 `json:"dequantise_ns"`
	// ConversionGbps is what one core converts out and back, in 10^9 bits of elements a second.
	ConversionGbps float64 `json:"conversion_gbps"`
}

// conversionRuns is how many chunks one timed round is.
const conversionRuns = 20_000

func benchConversion(elements, rounds int) conversion {
	x := make([]float32, elements)
	for i := range x {
		x[i] = float32(i%97) - 48.5
	}
	packet := make([]byte, elements*wire.ElementSize)
	back := make([]float32, elements)
	e, k := fixedpoint.Exponent(x), fixedpoint.Bits(4)
	var exponent, quantise, dequantise []float64
	for range rounds {
		exponent = append(exponent, timeChunks(func() { fixedpoint.Exponent(x) }))
		quantise = append(quantise, timeChunks(func() { fixedpoint.Quantise(packet, x, e, k) }))
		dequantise = append(dequantise, timeChunks(func() { fixedpoint.Dequantise(back, packet, e, k) }))
	}
	c := conversion{ExponentNS: median(exponent), QuantiseNS: median(quantise), DequantiseNS: median(dequantise)}
	c.ConversionGbps = float64(elements*wire.ElementSize*8) / (c.ExponentNS + c.QuantiseNS + c.DequantiseNS)
	return c
}

// timeChunks is the mean time of do in nanoseconds.
func timeChunks(do func()) float64 {
	start := time.Now()
	for range conversionRuns {
		do()
	}
	return float64(time.Since(start).Nanoseconds()) / conversionRuns
}
