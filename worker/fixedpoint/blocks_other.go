//go:build !amd64 && !arm64

package fixedpoint

// The compiler's code for the portable loops takes everything.

func magnitudeBlocks([]float32) (done int, m uint32)      { return 0, 0 }
func quantiseBlocks([]byte, []float32, float64) int       { return 0 }
func dequantiseBlocks([]float32, []byte, float64) int     { return 0 }
func quantisePairBlocks([]byte, []float32, float64) int   { return 0 }
func dequantisePairBlocks([]float32, []byte, float64) int { return 0 }
func encodeBlocks([]byte, []int32) int                    { return 0 }
func decodeBlocks([]int32, []byte) int                    { return 0 }
