package ort

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
)

// optimizer rewrites a program as ONNX Runtime's optimizations at their default setting rewrite its
// graph before they order it, as far as memory or the order depends on it: copies and repeated work
// are removed, and one node, numbered after all others, takes over the work of two or three. Its
// graph_transformer_utils.cc has the passes and their order.
type optimizer struct {
	*Facts
	order orderer

	out     live.Program
	in      []graph.ValueID // storage of the operands of out
	as      []graph.ValueID // by value: its replacement
	def     []int32         // by value: its step in out, or -1
	reads   []int32         // by value
	reader  []int32         // by value: the last step that reads it
	results []bool          // by value: it is returned
	at      []int32         // by returned value: its place among the outputs
	gone    []bool          // by step of out
	folded  []bool          // by value: computed before the first run
	equal   map[uint64]int32
}

func newOptimizer(f *Facts) *optimizer {
	return &optimizer{Facts: f, order: orderer{numbered: true}, equal: map[uint64]int32{}}
}

// rewrite returns the program after the optimizations, and the execution order of its steps. Both
// are good until the next call.
func (o *optimizer) rewrite(p *live.Program) (*live.Program, []int32) {
	o.load(p)
	for i := range passes {
		o.compact()
		passes[i].run(o)
	}
	o.compact()
	return &o.out, o.walk()
}

// walk returns the order of the steps in an optimization's walk. It is good until the next call.
func (o *optimizer) walk() []int32 { return o.order.run(&o.out) }

// each returns a pass that offers every step to a fusion, in the order of execution.
func each(fuse func(o *optimizer, at int32)) func(*optimizer) {
	return func(o *optimizer) {
		for _, at := range o.walk() {
			if !o.gone[at] {
				fuse(o, at)
			}
		}
	}
}

// load copies a program.
func (o *optimizer) load(p *live.Program) {
	o.out.Bytes, o.out.Persistent, o.out.Outputs = p.Bytes, p.Persistent, append(o.out.Outputs[:0], p.Outputs...)
	o.as, o.results = resized(o.as, len(p.Bytes)), resized(o.results, len(p.Bytes))
	for v := range o.as {
		o.as[v] = graph.ValueID(v)
	}
	o.at = resized(o.at, len(p.Bytes))
	for i, v := range slices.Backward(o.out.Outputs) {
		o.results[v], o.at[v] = true, int32(i)
	}
	o.out.Steps, o.in = o.out.Steps[:0], o.in[:0]
	for i := range p.Steps {
		o.append(p.Steps[i])
	}
	o.gone = resized(o.gone, len(o.out.Steps))
}

// shareConstants lets the readers of equal small constants read one of them.
func (o *optimizer) shareConstants() {
	for v, first := range o.same {
		if first != graph.ValueID(v) {
			o.as[v] = first
		}
	}
}

// expand puts the steps that ONNX Runtime replaces by function bodies after all others.
func (o *optimizer) expand() {
	n := len(o.out.Steps)
	o.out.Steps = slices.Grow(o.out.Steps, n)
	for i := range n {
		if table[o.out.Steps[i].Kind].expands {
			o.out.Steps = append(o.out.Steps, o.out.Steps[i])
			o.gone[i] = true
		}
	}
	o.gone = append(o.gone, make([]bool, len(o.out.Steps)-n)...)
}

// append adds a step with operands of its own.
func (o *optimizer) append(s live.Step) int32 {
	from := len(o.in)
	o.in = append(o.in, s.In...)
	s.In = o.in[from:len(o.in):len(o.in)]
	o.out.Steps = append(o.out.Steps, s)
	return int32(len(o.out.Steps)) - 1
}

// count finds where values are made and how often they are read.
func (o *optimizer) count() {
	n := len(o.out.Bytes)
	o.def, o.reads, o.reader = resized(o.def, n), resized(o.reads, n), resized(o.reader, n)
	for v := range o.def {
		o.def[v] = -1
	}
	for i := range o.out.Steps {
		for _, v := range o.out.Steps[i].In {
			if v != graph.NoValue {
				o.reads[v]++
				o.reader[v] = int32(i)
			}
		}
		for _, v := range o.out.Steps[i].Out {
			if v != graph.NoValue {
				o.def[v] = int32(i)
			}
		}
	}
}

// compact drops the steps that were taken out.
func (o *optimizer) compact() {
	kept := o.out.Steps[:0]
	for i := range o.out.Steps {
		if s := o.out.Steps[i]; !o.gone[i] {
			for slot, v := range s.In {
				if v != graph.NoValue {
					s.In[slot] = o.as[v]
				}
			}
			kept = append(kept, s)
		}
	}
	o.out.Steps = kept
	o.gone = resized(o.gone, len(kept))
	o.count()
}

// removeCopies takes out the steps that only copy, unless the copied value has other readers and
// the copy is returned.
func (o *optimizer) removeCopies() {
	for i := range o.out.Steps {
		s := &o.out.Steps[i]
		if s.Node == graph.NoNode || !o.node[s.Node].copies || s.In[0] == graph.NoValue || s.Out[0] == graph.NoValue ||
			len(s.Out) > 1 && !o.unused(s.Out[1]) {
			continue
		}
		in, out := o.as[s.In[0]], s.Out[0]
		if o.def[in] < 0 || o.results[in] || o.results[out] && o.reads[in] > 1 {
			continue
		}
		o.gone[i] = true
		o.as[out] = in
		o.reads[in] += o.reads[out] - 1
		if o.results[out] {
			o.results[in] = true
			o.out.Outputs[o.at[out]] = in
			o.at[in] = o.at[out]
		}
	}
}

// unused reports whether a value is neither read nor returned.
func (o *optimizer) unused(v graph.ValueID) bool {
	return v == graph.NoValue || o.reads[v] == 0 && !o.results[v]
}

// mergeEqual keeps one of all steps that do the same to the same, the one that runs first. Steps
// whose results are returned are not merged.
func (o *optimizer) mergeEqual() {
	clear(o.equal)
	for _, at := range o.walk() {
		s := &o.out.Steps[at]
		class := o.class(s)
		if class == 0 {
			continue
		}
		hash := uint64(class)
		for slot, v := range s.In {
			if v != graph.NoValue {
				s.In[slot] = o.as[v]
			}
			hash = hash*0x9e3779b97f4a7c15 + uint64(s.In[slot]+1)
			hash ^= hash >> 29
		}
		first, ok := o.equal[hash]
		if !ok {
			o.equal[hash] = at
			continue
		}
		if f := &o.out.Steps[first]; o.class(f) == class && slices.Equal(f.In, s.In) && len(f.Out) == len(s.Out) &&
			!o.returns(s) {
			o.gone[at] = true
			for slot, v := range s.Out {
				if v != graph.NoValue && f.Out[slot] != graph.NoValue {
					o.as[v] = f.Out[slot]
				}
			}
		}
	}
}

// foldConstants takes out the steps that depend on constants and fixed shapes alone.
func (o *optimizer) foldConstants() {
	o.folded = resized(o.folded, len(o.out.Bytes))
	copy(o.folded, o.fixed)
	for _, at := range o.walk() {
		s := &o.out.Steps[at]
		if s.Node == graph.NoNode || o.returns(s) || !o.node[s.Node].shape && !o.constant(s) {
			continue
		}
		o.gone[at] = true
		for _, v := range s.Out {
			if v != graph.NoValue {
				o.folded[v] = true
			}
		}
	}
}

// constant reports whether a step can be computed before the first run.
func (o *optimizer) constant(s *live.Step) bool {
	return o.class(s) != 0 && len(s.In) > 0 &&
		!slices.ContainsFunc(s.In, func(v graph.ValueID) bool { return v != graph.NoValue && !o.folded[v] })
}

// class is that of a step's node. Steps that are in no graph are views and scalars of anchors,
// which are never equal.
func (o *optimizer) class(s *live.Step) int32 {
	if s.Node == graph.NoNode {
		return 0
	}
	return o.node[s.Node].class
}

func (o *optimizer) returns(s *live.Step) bool {
	return slices.ContainsFunc(s.Out, func(v graph.ValueID) bool { return v != graph.NoValue && o.results[v] })
}
