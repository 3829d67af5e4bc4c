package ledger

// numbers are the first so many numbers from 0 on, each of which one job may have.
type numbers struct {
	total int
	taken map[int]bool
}

func newNumbers(total int) numbers { return numbers{total: total, taken: map[int]bool{}} }

// next is the lowest free one.
func (n *numbers) next() (int, bool) {
	for i := range n.total {
		if !n.taken[i] {
			return i, true
		}
	}
	return 0, false
}

// available reports whether a number is there and free.
func (n *numbers) available(i int) bool { return i >= 0 && i < n.total && !n.taken[i] }

func (n *numbers) take(i int) { n.taken[i] = true }

func (n *numbers) give(i int) { delete(n.taken, i) }
