package cpu

import (
	"memopt/executor"
)

// moveRank is the highest rank of copies, counted after nested neighbouring axes have been merged.
const moveRank = 32

// mover copies between two strided arrays: for every index of a box, the element of dst at
// toAt + Σ index*to becomes the element of src at fromAt + Σ index*from. No two indices may name
// the same element of dst; they may share an element of src (stride 0 repeats).
//
// It is the operand.Copier of this device: a kernel embeds a mover of its element size, describes
// the box from the outermost axis of dst to the innermost by Begin and Add, and calls Copy.
type mover struct {
	size           int // bytes per element: 1, 2, 4 or 8
	dims, to, from []int
	dst, src       []byte
	toAt, fromAt   int

	rows   int  // indices of all axes but the last (of a plane: but the last two)
	plane  bool // the last two axes swap the unit stride: see planes
	width  int  // elements of the last axis that one unit of work covers (of a plane: of the one before)
	blocks int  // units that the axis is cut into
}

// Begin starts the description of a box.
func (m *mover) Begin() {
	m.dims, m.to, m.from = m.dims[:0], m.to[:0], m.from[:0]
}

// Add adds an axis inside those that were added before. It is merged with its neighbour if both
// arrays step through the two as through one.
func (m *mover) Add(n, to, from int) {
	if n == 1 {
		return
	}
	last := len(m.dims) - 1
	if last >= 0 && m.to[last] == n*to && m.from[last] == n*from {
		m.dims[last] *= n
		m.to[last], m.from[last] = to, from
		return
	}
	m.dims, m.to, m.from = append(m.dims, n), append(m.to, to), append(m.from, from)
}

// Copy copies the box that was described.
func (m *mover) Copy(c *executor.Ctx, dst []byte, toAt int, src []byte, fromAt int) error {
	if product(m.dims) == 0 {
		return nil
	}
	if m.onItself(dst[toAt*m.size:], src[fromAt*m.size:]) {
		return nil
	}
	if len(m.dims) > moveRank {
		return c.Errorf("more than %d axes lie apart in memory", moveRank)
	}
	m.dst, m.toAt, m.src, m.fromAt = dst, toAt, src, fromAt
	m.arrange()
	m.rows = product(m.dims[:len(m.dims)-1])
	cut, inner := m.dims[len(m.dims)-1], 1
	m.width = (64 << 10) / m.size
	if m.plane {
		k := len(m.dims)
		m.rows = product(m.dims[:k-2])
		cut, inner = m.dims[k-2], m.dims[k-1]
		m.width = 64 / m.size
	}
	m.width = min(m.width, cut)
	m.blocks = (cut + m.width - 1) / m.width
	c.Parallel(m.rows*m.blocks, 1+(16<<10)/(m.width*inner), m)
	return nil
}

// onItself reports whether the box is one run of elements that lies where it is to go.
func (m *mover) onItself(to, from []byte) bool {
	run := len(m.dims) == 0 || len(m.dims) == 1 && m.to[0] == 1 && m.from[0] == 1
	return run && &to[0] == &from[0]
}

// arrange makes sure that there is a last axis, and finds planes: if dst runs along the last axis
// and src along another one, that one becomes the second-to-last.
func (m *mover) arrange() {
	m.plane = false
	if len(m.dims) == 0 {
		m.dims, m.to, m.from = append(m.dims, 1), append(m.to, 1), append(m.from, 1)
	}
	k := len(m.dims) - 1
	if m.to[k] != 1 || m.from[k] == 1 || m.from[k] == 0 {
		return
	}
	for i := k - 1; i >= 0; i-- {
		if m.from[i] != 1 {
			continue
		}
		for ; i < k-1; i++ {
			m.dims[i], m.dims[i+1] = m.dims[i+1], m.dims[i]
			m.to[i], m.to[i+1] = m.to[i+1], m.to[i]
			m.from[i], m.from[i+1] = m.from[i+1], m.from[i]
		}
		m.plane = true
		return
	}
}

// Range copies the units lo..hi-1.
func (m *mover) Range(lo, hi int) {
	switch m.size {
	case 1:
		moveUnits[uint8](m, lo, hi)
	case 2:
		moveUnits[uint16](m, lo, hi)
	case 4:
		moveUnits[uint32](m, lo, hi)
	case 8:
		moveUnits[uint64](m, lo, hi)
	}
}

// moveWord lists types that stand for all elements of their size.
type moveWord interface {
	uint8 | uint16 | uint32 | uint64
}

func moveUnits[T moveWord](m *mover, lo, hi int) {
	switch {
	case m.plane:
		movePlanes[T](m, lo, hi)
	case m.blocks > 1:
		moveBlocks[T](m, lo, hi)
	default:
		moveWholeRows[T](m, lo, hi)
	}
}

// moveWalk is a place in the first axes of a box.
type moveWalk struct {
	index    [moveRank]int
	to, from int
}

// start goes to index number n of the first axes.
func (w *moveWalk) start(m *mover, axes, n int) {
	w.to, w.from = m.toAt, m.fromAt
	for i := axes - 1; i >= 0; i-- {
		d := m.dims[i]
		x := n % d
		n /= d
		w.index[i] = x
		w.to += x * m.to[i]
		w.from += x * m.from[i]
	}
}

// next goes to the next index.
func (w *moveWalk) next(m *mover, axes int) {
	for i := axes - 1; i >= 0; i-- {
		w.index[i]++
		w.to += m.to[i]
		w.from += m.from[i]
		if w.index[i] < m.dims[i] {
			return
		}
		w.index[i] = 0
		w.to -= m.dims[i] * m.to[i]
		w.from -= m.dims[i] * m.from[i]
	}
}
