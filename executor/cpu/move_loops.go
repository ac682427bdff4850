package cpu

import "memopt/executor"

// The inner loops of mover. All take unit numbers lo..hi-1.

// moveWholeRows copies whole rows: a unit is an index of all axes but the last. Rows that follow
// each other along the second-to-last axis are done in one call.
func moveWholeRows[T moveWord](m *mover, lo, hi int) {
	dst, src := executor.Cast[T](m.dst), executor.Cast[T](m.src)
	k := len(m.dims) - 1
	rows, to, from := 1, 0, 0
	if k > 0 {
		rows, to, from = m.dims[k-1], m.to[k-1], m.from[k-1]
	}
	var w moveWalk
	axes := max(k-1, 0)
	w.start(m, axes, lo/rows)
	for lo < hi {
		first := lo % rows
		n := min(rows-first, hi-lo)
		r := moveRun{n, w.to + first*to, w.from + first*from, to, from, m.dims[k], m.to[k], m.from[k]}
		moveCopyRun(dst, src, &r)
		lo += n
		w.next(m, axes)
	}
}

// moveBlocks copies parts of long rows: a unit is m.width elements.
func moveBlocks[T moveWord](m *mover, lo, hi int) {
	dst, src := executor.Cast[T](m.dst), executor.Cast[T](m.src)
	k := len(m.dims) - 1
	var w moveWalk
	w.start(m, k, lo/m.blocks)
	for ; lo < hi; lo++ {
		at := lo % m.blocks * m.width
		r := moveRun{rows: 1, toAt: w.to + at*m.to[k], fromAt: w.from + at*m.from[k],
			n: min(m.width, m.dims[k]-at), to: m.to[k], from: m.from[k]}
		moveCopyRun(dst, src, &r)
		if (lo+1)%m.blocks == 0 {
			w.next(m, k)
		}
	}
}

// moveRun is a matrix to copy: rows rows of n elements.
type moveRun struct {
	rows, toAt, fromAt, toRow, fromRow int
	n, to, from                        int
}

func moveCopyRun[T moveWord](dst, src []T, r *moveRun) {
	t, f := r.toAt, r.fromAt
	for range r.rows {
		switch {
		case r.to != 1 || r.from != 0 && r.from != 1:
			moveCopyStrided(dst, src, t, f, r)
		case r.from == 0:
			d, v := dst[t:t+r.n], src[f]
			for i := range d {
				d[i] = v
			}
		case r.n >= 8:
			copy(dst[t:t+r.n], src[f:f+r.n])
		default: // a call of copy would take longer
			d, s := dst[t:t+r.n], src[f:f+r.n]
			for i := range d {
				d[i] = s[i]
			}
		}
		t += r.toRow
		f += r.fromRow
	}
}

func moveCopyStrided[T moveWord](dst, src []T, t, f int, r *moveRun) {
	to, from := r.to, r.from
	for range r.n {
		dst[t] = src[f]
		t += to
		f += from
	}
}

// movePlanes transposes: the last axis has unit stride in dst, the one before it in src. A
// unit is m.width steps of the latter, about a cache line of src, by the whole last axis, so
// that lines of src are read once and dst is written along m.width streams.
func movePlanes[T moveWord](m *mover, lo, hi int) {
	dst, src := executor.Cast[T](m.dst), executor.Cast[T](m.src)
	k := len(m.dims) - 1
	n, row, col := m.dims[k], m.to[k-1], m.from[k]
	var w moveWalk
	w.start(m, k-1, lo/m.blocks)
	for ; lo < hi; lo++ {
		at := lo % m.blocks * m.width
		width := min(m.width, m.dims[k-1]-at)
		transposeStrip(dst, src, w.to+at*row, w.from+at, n, width, row, col)
		if (lo+1)%m.blocks == 0 {
			w.next(m, k-1)
		}
	}
}

// transposeStrip sets dst[t + a*row + b] = src[f + b*col + a] for a < width and b < n, eight values
// of b at a time.
func transposeStrip[T moveWord](dst, src []T, t, f, n, width, row, col int) {
	b := 0
	for ; b+8 <= n; b += 8 {
		transposeEight(dst[t+b:], src[f+b*col:], width, row, col)
	}
	for ; b < n; b++ {
		at := t + b
		for _, v := range src[f+b*col:][:width] {
			dst[at] = v
			at += row
		}
	}
}

// transposeEight sets dst[a*row + b] = src[b*col + a] for a < width and b < 8.
func transposeEight[T moveWord](dst, src []T, width, row, col int) {
	s0, s1 := src[:width], src[col:][:width]
	s2, s3 := src[2*col:][:width], src[3*col:][:width]
	s4, s5 := src[4*col:][:width], src[5*col:][:width]
	s6, s7 := src[6*col:][:width], src[7*col:][:width]
	at := 0
	for a := range s0 {
		d := dst[at : at+8 : at+8]
		d[0], d[1], d[2], d[3] = s0[a], s1[a], s2[a], s3[a]
		d[4], d[5], d[6], d[7] = s4[a], s5[a], s6[a], s7[a]
		at += row
	}
}
