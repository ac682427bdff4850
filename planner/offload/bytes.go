package offload

// bytes is a number of bytes by run, raised and lowered over ranges of runs: a segment tree of maxima.
type bytes struct {
	n    int     // leaves: a power of two
	top  []int64 // by node: the maximum below it, with its own rest
	rest []int64 // by node: added to all below it
}

func newBytes(of []int64) *bytes {
	b := &bytes{n: 1}
	for b.n < len(of) {
		b.n *= 2
	}
	b.top, b.rest = make([]int64, 2*b.n), make([]int64, 2*b.n)
	copy(b.top[b.n:], of)
	for i := b.n - 1; i > 0; i-- {
		b.top[i] = max(b.top[2*i], b.top[2*i+1])
	}
	return b
}

// add raises the runs from one to before another.
func (b *bytes) add(from, to int32, by int64) { b.raise(1, 0, b.n, int(from), int(to), by) }

func (b *bytes) raise(node, low, high, from, to int, by int64) {
	if from >= high || to <= low {
		return
	}
	if from <= low && high <= to {
		b.top[node] += by
		b.rest[node] += by
		return
	}
	mid := (low + high) / 2
	b.raise(2*node, low, mid, from, to, by)
	b.raise(2*node+1, mid, high, from, to, by)
	b.top[node] = max(b.top[2*node], b.top[2*node+1]) + b.rest[node]
}

// most is the maximum over the runs from one to before another; 0 for an empty range.
func (b *bytes) most(from, to int32) int64 { return max(0, b.query(1, 0, b.n, int(from), int(to))) }

func (b *bytes) query(node, low, high, from, to int) int64 {
	if from >= high || to <= low {
		return -1 << 62
	}
	if from <= low && high <= to {
		return b.top[node]
	}
	mid := (low + high) / 2
	return b.rest[node] + max(b.query(2*node, low, mid, from, to), b.query(2*node+1, mid, high, from, to))
}
