package train

import (
	"math"
	"math/rand/v2"
)

// network is 64 pixels, one hidden layer (ReLU) and a softmax over ten digits. All parameters lie in one
// slice, so that the gradient is one tensor to reduce: a row of hidden weights for each pixel, the hidden
// biases, a row of output weights for each digit, the output biases.
//
// The order of every sum is fixed and each product is rounded before it is added (the float32 conversions keep a
// compiler from fusing the two), so that ranks with equal weights stay bit-identical.
type network struct {
	hidden int
	params []float32

	// What one row needs on its way through.
	activation, delta []float32
	output            [Classes]float32
}

// parameters is the number of parameters of a network with that many hidden units.
func parameters(hidden int) int { return (Pixels+1)*hidden + (hidden+1)*Classes }

// newNetwork draws weights uniformly with the variance of He et al. (2015), the same for the same seed.
func newNetwork(hidden int, seed uint64) *network {
	n := &network{
		hidden:     hidden,
		params:     make([]float32, parameters(hidden)),
		activation: make([]float32, hidden),
		delta:      make([]float32, hidden),
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	draw := func(weights []float32, inputs int) {
		bound := math.Sqrt(6 / float64(inputs))
		for i := range weights {
			weights[i] = float32((2*rng.Float64() - 1) * bound)
		}
	}
	w1, _, w2, _ := n.layers(n.params)
	draw(w1, Pixels)
	draw(w2, hidden)
	return n
}

// layers are the parts of a slice that is laid out like the parameters.
func (n *network) layers(p []float32) (w1, b1, w2, b2 []float32) {
	w1, p = p[:Pixels*n.hidden], p[Pixels*n.hidden:]
	b1, p = p[:n.hidden], p[n.hidden:]
	w2, b2 = p[:Classes*n.hidden], p[Classes*n.hidden:]
	return w1, b1, w2, b2
}

// forward leaves the hidden activations and the probabilities of the digits, and
// returns the likeliest digit and the cross-entropy loss.
func (n *network) forward(row *Row) (digit int, loss float64) {
	w1, b1, w2, b2 := n.layers(n.params)
	copy(n.activation, b1)
	for i, x := range row.Pixels {
		if x != 0 {
			addScaled(n.activation, w1[i*n.hidden:], x)
		}
	}
	for i, a := range n.activation {
		n.activation[i] = max(a, 0)
	}
	for c := range n.output {
		n.output[c] = b2[c] + dot(n.activation, w2[c*n.hidden:])
		if n.output[c] > n.output[digit] {
			digit = c
		}
	}
	highest, total := float64(n.output[digit]), 0.0
	for _, z := range n.output {
		total += math.Exp(float64(z) - highest)
	}
	loss = math.Log(total) + highest - float64(n.output[row.Label])
	for c, z := range n.output {
		n.output[c] = float32(math.Exp(float64(z)-highest) / total)
	}
	return digit, loss
}

// backward adds the gradient of the loss of the row that last went forward.
func (n *network) backward(row *Row, gradient []float32) {
	_, _, w2, _ := n.layers(n.params)
	g1, gb1, g2, gb2 := n.layers(gradient)
	clear(n.delta)
	for c, p := range n.output {
		if c == row.Label {
			p--
		}
		gb2[c] += p
		addScaled(g2[c*n.hidden:(c+1)*n.hidden], n.activation, p)
		addScaled(n.delta, w2[c*n.hidden:], p)
	}
	for i, a := range n.activation {
		if a == 0 {
			n.delta[i] = 0
		}
	}
	addScaled(gb1, n.delta, 1)
	for i, x := range row.Pixels {
		if x != 0 {
			addScaled(g1[i*n.hidden:(i+1)*n.hidden], n.delta, x)
		}
	}
}

// addScaled adds x times each of from, which is at least as long, to into.
func addScaled(into, from []float32, x float32) {
	from = from[:len(into)]
	for i := range into {
		into[i] += float32(x * from[i])
	}
}

// dot is the inner product with b, which is at least as long as a. Four running
// sums, so that an addition need not wait for the one before it.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += float32(a[i] * b[i])
		s1 += float32(a[i+1] * b[i+1])
		s2 += float32(a[i+2] * b[i+2])
		s3 += float32(a[i+3] * b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += float32(a[i] * b[i])
	}
	return (s0 + s1) + (s2 + s3)
}
