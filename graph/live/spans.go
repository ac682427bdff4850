package live

import (
	"cmp"
	"slices"

	"memopt/graph"
)

// Span is a run of bytes that holds the same from one step to another.
type Span struct {
	Range
	// Value is the youngest value of the program that lies there; for Unfilled the root, for Inner and
	// Beside NoValue.
	Value graph.ValueID
	Root  graph.ValueID // whose buffer it is; NoValue for Inner and Beside
	Lo    int64         // its first byte of the buffer
	Bytes int64
	Kind  Kind
}

// History is the contents of a simulated program's bytes, from its first step to its last.
type History struct {
	// Spans are in the order of their first steps, then of roots, then of bytes; bytes without a
	// root come last among those of a step. At every step, the spans whose range has it are
	// together Timeline.Live. Persistent bytes are left out.
	Spans  []Span
	Phases []Phase         // by step
	Source []graph.ValueID // by value: the one that it shows, through views
}

// Spans returns the contents of the bytes of a simulated program over time. The arguments are those of
// Compose. It takes time linear in the program, but for buffers with many parts: each part takes time
// linear in their number.
func Spans(g *graph.Graph, p *Program, t *Timeline, roles *Roles, backward []bool) *History {
	c := newComposer(g, p, t, roles, backward)
	h := &History{Phases: c.classify(), Source: c.source}
	w := &spanWriter{composer: c, open: make([][]Span, len(p.Bytes))}
	w.begin()
	for i := range p.Steps {
		w.step(int32(i))
	}
	for root, left := range w.open {
		w.end(left, t.Ranges[root].End)
	}
	if steps := int32(len(p.Steps)); t.Hidden > 0 && steps > 0 {
		w.end([]Span{{Value: graph.NoValue, Root: graph.NoValue, Bytes: t.Hidden, Kind: Beside}}, steps)
	}
	slices.SortFunc(w.out, func(x, y Span) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(uint32(x.Root), uint32(y.Root)),
			cmp.Compare(x.Lo, y.Lo), cmp.Compare(x.Kind, y.Kind))
	})
	h.Spans = w.out
	return h
}

// spanWriter paints values over buffers, and notes the spans that they paint over.
type spanWriter struct {
	*composer
	open  [][]Span // by root: the present contents of its bytes, without gaps, from the first byte to the last
	first []int32  // by step: one past the first root whose buffer begins there
	next  []int32  // by root: one past the next root that begins with it
	out   []Span
}

// begin lists the buffers by their first steps.
func (w *spanWriter) begin() {
	w.first, w.next = make([]int32, len(w.p.Steps)), make([]int32, len(w.p.Bytes))
	for v := len(w.t.Root) - 1; v >= 0; v-- {
		if w.t.Root[v] == graph.ValueID(v) && w.p.Bytes[v] > 0 {
			at := w.t.Ranges[v].Start
			w.next[v], w.first[at] = w.first[at], int32(v)+1
		}
	}
}

// step opens the buffers that begin at a step, and paints the values that the step makes.
func (w *spanWriter) step(at int32) {
	for v := w.first[at]; v != 0; v = w.next[v-1] {
		root := graph.ValueID(v - 1)
		w.open[root] = []Span{{Range{Start: at}, root, root, 0, w.p.Bytes[root], Unfilled}}
	}
	s := &w.p.Steps[at]
	for _, v := range s.Out {
		if v == graph.NoValue || w.source[v] != v || w.t.Root[v] == graph.NoValue {
			continue
		}
		if r := w.t.Ranges[w.t.Root[v]]; r.Start <= at && at < r.End {
			w.paint(v, at)
		}
	}
	if s.Inner > 0 {
		w.end([]Span{{Range{Start: at}, graph.NoValue, graph.NoValue, 0, s.Inner, Inner}}, at+1)
	}
}

// paint puts a value over the former contents of its bytes.
func (w *spanWriter) paint(v graph.ValueID, at int32) {
	root := w.t.Root[v]
	old := w.open[root]
	size := max(w.p.Bytes[root], 0)
	lo := min(w.t.Begin(v), size)
	hi := min(lo+max(w.p.Bytes[v], 0), size)
	if lo >= hi {
		return
	}
	from := firstEnding(old, lo+1)
	to := from
	for to < len(old) && old[to].Lo < hi {
		to++
	}
	var fresh []Span
	if before := old[from]; before.Lo < lo {
		before.Bytes = lo - before.Lo
		fresh = append(fresh, before)
	}
	fresh = append(fresh, Span{Range{Start: at}, v, root, lo, hi - lo, w.kind[v].public()})
	if behind := old[to-1]; behind.Lo+behind.Bytes > hi {
		behind.Lo, behind.Bytes = hi, behind.Lo+behind.Bytes-hi
		fresh = append(fresh, behind)
	}
	for _, s := range old[from:to] {
		s.Lo, s.Bytes = max(s.Lo, lo), min(s.Lo+s.Bytes, hi)-max(s.Lo, lo)
		w.end([]Span{s}, at)
	}
	w.open[root] = slices.Replace(old, from, to, fresh...)
}

// firstEnding returns the first of the spans of a buffer that ends at a byte or behind it.
func firstEnding(spans []Span, at int64) int {
	i, _ := slices.BinarySearchFunc(spans, at, func(s Span, at int64) int { return cmp.Compare(s.Lo+s.Bytes, at) })
	return i
}

// end notes that bytes hold something else from a step on.
func (w *spanWriter) end(spans []Span, at int32) {
	for _, s := range spans {
		if s.End = at; s.Start < at {
			w.out = append(w.out, s)
		}
	}
}
