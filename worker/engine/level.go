package engine

import (
	"fmt"
	"slices"

	"spillway/wire"
)

// MaxTreeWorkers bounds the workers of a job whose home is a node of a tree: three levels of 64 children.
const MaxTreeWorkers = wire.MaxChildren * wire.MaxChildren * wire.MaxChildren

// Level is what a worker is at its home where that is a node of a tree (docs/protocol.md, section 9). In a job of one level it is not needed: bits are ranks.
type Level struct {
	// Bit is this worker's among the members of its home, and Ranks are theirs, by bit.
	Bit   int
	Ranks []int
	// Beyond are the ranks below each child of the home's parent, by bit, where that parent is the root. Without them an error cannot tell
	// who of all the others is missing.
	Beyond [][]int
}

func (l *Level) validate(c *Config) error {
	switch {
	case len(l.Ranks) < 1 || len(l.Ranks) > wire.MaxChildren:
		return fmt.Errorf("%d workers of one home are not between 1 and %d", len(l.Ranks), wire.MaxChildren)
	case l.Bit < 0 || l.Bit >= len(l.Ranks):
		return fmt.Errorf("bit %d is none of the home's %d", l.Bit, len(l.Ranks))
	case l.Ranks[l.Bit] != c.Rank:
		return fmt.Errorf("bit %d is that of rank %d, not of %d", l.Bit, l.Ranks[l.Bit], c.Rank)
	case c.releases():
		return fmt.Errorf("a job of several levels waits for all: a quorum of %d of %d workers cannot be", c.Policy.Quorum, c.Workers)
	case len(l.Beyond) > wire.MaxChildren:
		return fmt.Errorf("%d nodes beside the home's are above %d", len(l.Beyond), wire.MaxChildren)
	}
	for _, ranks := range append(slices.Clone(l.Beyond), l.Ranks) {
		if slices.ContainsFunc(ranks, func(rank int) bool { return rank < 0 || rank >= c.Workers }) {
			return fmt.Errorf("a rank among %v is not between 0 and %d", ranks, c.Workers-1)
		}
	}
	return nil
}

// most is how many workers a job may have.
func (c *Config) most() int {
	if c.Level != nil {
		return MaxTreeWorkers
	}
	return wire.MaxChildren
}

// bits are this worker's and everybody's at its home.
func (c *Config) bits() (own, full uint64) {
	if c.Level != nil {
		return 1 << c.Level.Bit, wire.FullBitmap(len(c.Level.Ranks))
	}
	return 1 << c.Rank, wire.FullBitmap(c.Workers)
}

// ranksOf lists the ranks that a bitmap of this worker's home names.
func (c *Config) ranksOf(bitmap uint64) []int {
	ranks := ranksOf(bitmap)
	if c.Level != nil {
		for i, bit := range ranks {
			ranks[i] = c.Level.Ranks[bit]
		}
	}
	return ranks
}

// beyond lists the ranks that are missing where a node above has the bits.
func (c *Config) beyond(have uint64) []int {
	var ranks []int
	for bit, below := range c.Level.Beyond {
		if have>>bit&1 == 0 {
			ranks = append(ranks, below...)
		}
	}
	if ranks == nil {
		for rank := range c.Workers {
			if !slices.Contains(c.Level.Ranks, rank) {
				ranks = append(ranks, rank)
			}
		}
	}
	slices.Sort(ranks)
	return ranks
}

// setLevel has the worker go on as a member of other homes, where its bit may be another. What is kept and in flight has all bits.
func (e *Engine) setLevel(level *Level) {
	e.cfg.Level = level
	e.own, e.full = e.cfg.bits()
	for c := e.oldest; c != nil; c = c.following {
		c.own, c.everybody = e.own, e.full
	}
}

// onHeldAbove takes the word that the home's sum of a chunk is complete, and with its parent, who waits for others: PENDING with PARTIAL in a job of several levels.
func (e *Engine) onHeldAbove(now int64, position uint64, ch *chunk, have uint64) {
	ch.have, ch.above, ch.haveKnown, ch.heldAbove, ch.held, ch.due = e.full, have, true, true, true, 0
	e.touch(now, position, ch)
}
