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
	// Quantise16NS and Dequantise16NS are of the same elements in 16 bits each.
	Quantise16NS   float64 `json:"quantise16_ns"`
	Dequantise16NS float64 `json:"dequantise16_ns"`
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
	e16, k16 := fixedpoint.PairExponent(x, fixedpoint.PairBits(4)), fixedpoint.PairBits(4)
	var exponent, quantise, dequantise, quantise16, dequantise16 []float64
	for range rounds {
		exponent = append(exponent, timeChunks(func() { fixedpoint.Exponent(x) }))
		quantise = append(quantise, timeChunks(func() { fixedpoint.Quantise(packet, x, e, k) }))
		dequantise = append(dequantise, timeChunks(func() { fixedpoint.Dequantise(back, packet, e, k) }))
		quantise16 = append(quantise16, timeChunks(func() { fixedpoint.QuantisePairs(packet, x, e16, k16) }))
		dequantise16 = append(dequantise16, timeChunks(func() { fixedpoint.DequantisePairs(back, packet, e16, k16, 1) }))
	}
	c := conversion{ExponentNS: median(exponent), QuantiseNS: median(quantise), DequantiseNS: median(dequantise),
		Quantise16NS: median(quantise16), Dequantise16NS: median(dequantise16)}
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
