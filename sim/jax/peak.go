package jax

import (
	"cmp"
	"slices"
)

// Usage is the memory of a step.
type Usage struct {
	Peak      int64 // bytes, those of arguments, results and Program.Held included
	Arguments int64
	Results   int64
	Heap      int64 // bytes of other values at the fullest moment
}

// span is a range of moments, both ends included.
type span struct{ from, to int32 }

// buffer is memory of a value.
type buffer struct {
	bytes    int64
	spans    []span
	argument bool
	result   bool
}

// machine runs a step on a clock of two moments for each equation: operands that it may write over are read in the
// first one, and results are written in the second.
type machine struct {
	clock   int32
	buffers []buffer
	free    map[int32]bool
	tries   int
}

// frame is a body that runs.
type frame struct {
	*machine
	*fusion
	at []int32 // by root: its buffer; or one of the places below
}

// The places of values without a buffer of their own.
const (
	nowhere = -1 // a constant, or computed within its readers
	stacked = -2 // a slice of a stack that no reader has taken out yet
)

// Peak simulates a step.
func (p *Program) Peak(b *Body) Usage {
	m := &machine{free: p.Free}
	f := m.frame(b, -1)
	u := Usage{}
	for _, v := range b.Inputs {
		f.at[v] = m.new(b.Bytes[v])
		m.buffers[f.at[v]].argument = true
		u.Arguments += b.Bytes[v]
	}
	f.run()
	m.clock += 2
	for _, v := range b.Outputs {
		if v < 0 {
			continue
		}
		u.Results += b.Bytes[v]
		if x := f.at[f.root[v]]; x >= 0 && !m.buffers[x].argument {
			m.touch(x, m.clock+1)
			m.buffers[x].result = true
		}
	}
	u.Heap = m.heap()
	u.Peak = p.Held + u.Arguments + u.Results + u.Heap
	return u
}

// frame prepares a body; its results from number stacks on are written into stacks; -1: none of them.
func (m *machine) frame(b *Body, stacks int) *frame {
	f := &frame{m, fuse(b, stacks, m.free), make([]int32, len(b.Bytes))}
	for v := range f.at {
		f.at[v] = nowhere
	}
	return f
}

// new makes a buffer at the present moment.
func (m *machine) new(bytes int64) int32 {
	m.buffers = append(m.buffers, buffer{bytes: bytes, spans: []span{{m.clock, m.clock}}})
	return int32(len(m.buffers) - 1)
}

// touch notes that a buffer is in use until a moment.
func (m *machine) touch(x, until int32) {
	if x >= 0 {
		last := &m.buffers[x].spans[len(m.buffers[x].spans)-1]
		last.to = max(last.to, until)
	}
}

// run runs the steps of a body.
func (f *frame) run() {
	for i := range f.body.Steps {
		s := &f.body.Steps[i]
		virtual := len(s.Out) == 1 && f.virtual[s.Out[0]]
		if f.alias(s) || virtual && !f.pushed[s.Out[0]] {
			continue
		}
		f.clock += 2
		f.reads(s)
		switch {
		case virtual: // into a stack
		case s.Primitive == "scan":
			f.scan(s)
		default:
			if len(s.Bodies) > 0 {
				f.nested(s)
			}
			f.clock++
			for _, v := range s.Out {
				f.at[v] = f.new(f.body.Bytes[v])
			}
			f.clock--
		}
	}
}

// maxFused bounds the values that are computed within one reader, and maxTries the comparisons of the search for
// results in whose memory other values may lie.
const maxFused, maxTries = 100, 50_000_000

// reads notes that a step reads its operands, and those of operands that it computes within itself.
func (f *frame) reads(s *Step) {
	var most int64
	for _, v := range s.Out {
		most = max(most, f.body.Bytes[v])
	}
	seen := map[int32]bool{}
	var visit func(v int32)
	visit = func(v int32) {
		if v < 0 || seen[f.root[v]] || len(seen) > maxFused {
			return
		}
		v = f.root[v]
		seen[v] = true
		if f.virtual[v] {
			for _, o := range f.body.Steps[f.maker[v]].In {
				visit(o)
			}
			return
		}
		if f.at[v] == stacked {
			if f.takes(v, s, f.free) {
				return
			}
			f.at[v] = f.new(f.body.Bytes[v])
		}
		until := f.clock + 1
		if fused[s.Primitive] && f.body.Bytes[v] == most {
			until = f.clock // the result may lie there
		}
		f.touch(f.at[v], until)
	}
	for _, v := range s.In {
		visit(v)
	}
}

// nested runs the bodies of a conditional or of a loop without a known length.
func (f *frame) nested(s *Step) {
	for _, b := range s.Bodies {
		g := f.frame(b, -1)
		f.clock++
		for _, v := range b.Inputs {
			g.at[v] = f.new(b.Bytes[v])
			f.touch(g.at[v], f.clock+1)
		}
		g.run()
		f.clock += 2
		for _, v := range b.Outputs {
			if v >= 0 {
				f.touch(g.at[g.root[v]], f.clock)
			}
		}
	}
	f.hold(s.In)
}

// hold keeps operands until the present moment.
func (f *frame) hold(values []int32) {
	for _, v := range values {
		if v >= 0 && !f.virtual[f.root[v]] {
			f.touch(f.at[f.root[v]], f.clock)
		}
	}
}

// scan runs the body of a loop once. Constants and stacks are there throughout. The memory of a carried value is free
// between the last reader of the old value and the maker of the new one; where they overlap, the new one is copied.
func (f *frame) scan(s *Step) {
	f.clock++
	for _, v := range s.Out[s.Carry:] {
		f.at[v] = f.new(f.body.Bytes[v])
	}
	b := s.Bodies[0]
	g := f.frame(b, s.Carry)
	for i, v := range b.Inputs {
		switch k := i - s.Consts; {
		case k >= s.Carry:
			g.at[v] = stacked
		case k >= 0:
			g.at[v] = f.new(b.Bytes[v])
		case s.In[i] >= 0:
			g.at[v] = f.at[f.root[s.In[i]]]
		}
	}
	f.clock++
	g.run()
	f.clock += 2
	for k := range s.Carry {
		old := g.at[b.Inputs[s.Consts+k]]
		f.at[s.Out[k]] = old
		o := b.Outputs[k]
		if o < 0 || g.at[g.root[o]] < 0 || g.at[g.root[o]] == old {
			f.touch(old, f.clock)
			continue
		}
		next := g.at[g.root[o]]
		f.touch(next, f.clock)
		spans := f.buffers[old].spans
		if f.buffers[next].argument || f.buffers[next].spans[0].from <= spans[len(spans)-1].to {
			f.buffers[old].spans = append(spans, span{f.clock, f.clock}) // a copy
		} else {
			f.at[s.Out[k]] = next
		}
	}
	for _, v := range s.Out {
		f.touch(f.at[v], f.clock)
	}
	f.hold(s.In[:s.Consts])
	f.hold(s.In[s.Consts+s.Carry:])
}

// heap lays values into results where these are not there yet, and adds up the others at the fullest moment.
func (m *machine) heap() int64 {
	order := make([]int32, len(m.buffers))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(x, y int32) int { return cmp.Compare(m.buffers[y].bytes, m.buffers[x].bytes) })
	var hosts [][]int32
	delta := make([]int64, m.clock+3)
	for _, i := range order {
		x := &m.buffers[i]
		switch {
		case x.argument:
		case x.result:
			hosts = append(hosts, []int32{i})
		case m.lodge(hosts, i):
		default:
			for _, s := range x.spans {
				delta[s.from] += x.bytes
				delta[s.to+1] -= x.bytes
			}
		}
	}
	var now, most int64
	for _, d := range delta {
		now += d
		most = max(most, now)
	}
	return most
}

// lodge puts a buffer into the smallest result that has room for it at its moments.
func (m *machine) lodge(hosts [][]int32, i int32) bool {
	for h, list := range slices.Backward(hosts) {
		if m.buffers[list[0]].bytes < m.buffers[i].bytes {
			continue
		}
		if m.tries += len(list); m.tries > maxTries {
			return false
		}
		if !slices.ContainsFunc(list, func(j int32) bool { return m.overlap(i, j) }) {
			hosts[h] = append(list, i)
			return true
		}
	}
	return false
}

func (m *machine) overlap(i, j int32) bool {
	return slices.ContainsFunc(m.buffers[i].spans, func(a span) bool {
		return slices.ContainsFunc(m.buffers[j].spans, func(b span) bool { return a.from <= b.to && b.from <= a.to })
	})
}
