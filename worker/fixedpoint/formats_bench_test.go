package fixedpoint

import "testing"

// BenchmarkFormats is BenchmarkChunk for the other formats, and for averages that no power of two divides.
func BenchmarkFormats(b *testing.B) {
	const elements = 256
	f32, f64 := make([]float32, elements), make([]float64, elements)
	f16, bf16 := make([]Float16, elements), make([]BFloat16, elements)
	for i := range f32 {
		v := float64(i) - 100.25
		f32[i], f64[i], f16[i], bf16[i] = float32(v), v, ToFloat16(v), ToBFloat16(v)
	}
	packet := make([]byte, 4*elements)
	Quantise(packet, f32, 8, 29)
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"float32/average of 3", func() { Average(f32, packet, 8, 29, 3) }},
		{"float32/ordered", func() { EncodeOrdered(packet, f32, Maximum); DecodeOrdered(f32, packet) }},
		{"float64/exponent", func() { ExponentFloat64(f64) }},
		{"float64/quantise", func() { QuantiseFloat64(packet, f64, 8, 29) }},
		{"float64/dequantise", func() { DequantiseFloat64(f64, packet, 8, 29, 1) }},
		{"float16/exponent", func() { ExponentFloat16(f16) }},
		{"float16/quantise", func() { QuantiseFloat16(packet, f16, 8, 29) }},
		{"float16/dequantise", func() { DequantiseFloat16(f16, packet, 8, 29, 1) }},
		{"bfloat16/exponent", func() { ExponentBFloat16(bf16) }},
		{"bfloat16/quantise", func() { QuantiseBFloat16(packet, bf16, 8, 29) }},
		{"bfloat16/dequantise", func() { DequantiseBFloat16(bf16, packet, 8, 29, 1) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/elements, "ns/element")
		})
	}
}
