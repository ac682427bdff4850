package ort

import (
	"cmp"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// DefaultOrder returns the execution order of a graph in stock ONNX Runtime at its default setting,
// as far as no optimization changes the nodes: a depth-first walk against the edges from the nodes
// without readers, the last of them in the file first; at each node it goes first to the producer
// that stands last in the file (its graph_viewer.cc). Constant nodes, which ONNX Runtime turns into
// initializers, come first. It replaces operators without a kernel of their own by their function
// bodies, whose nodes count as if they stood behind all others. In the file, producers must come
// before their readers.
func DefaultOrder(g *graph.Graph) graph.Order { return defaultOrder(g, graph.FileOrder(g)) }

// defaultOrder is DefaultOrder of the file whose nodes stand in an order.
func defaultOrder(g *graph.Graph, file graph.Order) graph.Order {
	p := &live.Program{Steps: make([]live.Step, len(g.Nodes)), Bytes: make([]int64, len(g.Values))}
	for i, id := range file {
		p.Steps[i] = live.NewStep(g, id, &live.Sizes{})
	}
	for _, d := range g.Outputs {
		p.Outputs = append(p.Outputs, d.Value)
	}
	order := make(graph.Order, len(g.Nodes))
	for i, step := range new(orderer).run(p) {
		order[i] = file[step]
	}
	return order
}

// orderer computes the default orders of one program after another in the same memory. Its zero
// value computes the order when all optimizations are off. The steps of a program are in the order
// of the file that it is to be written to.
type orderer struct {
	// basic takes Identity nodes out before the walk, as ONNX Runtime does from the basic level of
	// optimization on, unless the copied value has other readers and the copy is a graph output.
	// They follow their producers.
	basic bool
	// reverse turns every preference of the walk around. No runtime does this, but a program that
	// peaks low in both orders does not depend on how nodes are numbered, which changes when a
	// runtime fuses them.
	reverse bool
	// numbered says that the steps stand in the order of ONNX Runtime's numbers: the function
	// bodies that it expands have their places among them.
	numbered bool
	given    bool // the steps run in the order given

	def       []int32    // by value: its producer, or -1
	reads     []int32    // by value: how many operands it is
	returned  []bool     // by value: a graph output
	removed   []bool     // by step: an Identity that is taken out
	followers [][2]int32 // producer and the Identity taken out behind it, ascending by producer, then by place
	start     []int32    // by step: where its producers begin in producers
	producers []int32    // numbered as in ONNX Runtime, without repetition for each step
	read      []bool     // by step: whether another step reads its results
	seen      []bool
	stack     []int32 // a step to visit, or ^step to emit
	late      []int32 // leaves that function bodies stand for
	order     []int32
}

// run returns the default order of a program: step i of the result runs as the i-th. It is good
// until the next call.
func (o *orderer) run(p *live.Program) []int32 {
	n := len(p.Steps)
	if o.given {
		o.order = o.order[:0]
		for i := range n {
			o.order = append(o.order, int32(i))
		}
		return o.order
	}
	o.index(p)
	o.seen, o.order, o.stack, o.late = resized(o.seen, n), o.order[:0], o.stack[:0], o.late[:0]
	for i := range p.Steps {
		switch {
		case isConstant(&p.Steps[i]):
			o.seen[i] = true
			o.order = append(o.order, int32(i))
		case o.read[i], o.removed[i]:
		case !o.numbered && table[p.Steps[i].Kind].expands:
			o.late = append(o.late, int32(i))
		default:
			o.stack = append(o.stack, int32(i))
		}
	}
	o.stack = append(o.stack, o.late...)
	if o.reverse {
		slices.Reverse(o.stack)
	}
	for len(o.stack) > 0 {
		top := o.stack[len(o.stack)-1]
		o.stack = o.stack[:len(o.stack)-1]
		if top < 0 {
			o.emit(^top)
			continue
		}
		if o.seen[top] {
			continue
		}
		o.seen[top] = true
		o.stack = append(o.stack, ^top)
		for _, producer := range o.producers[o.start[top]:o.start[top+1]] {
			if !o.seen[producer] {
				o.stack = append(o.stack, producer)
			}
		}
	}
	return o.order
}

// emit appends a step and the taken-out copies of its results.
func (o *orderer) emit(step int32) {
	o.order = append(o.order, step)
	i, _ := slices.BinarySearchFunc(o.followers, step, func(f [2]int32, step int32) int {
		return cmp.Compare(f[0], step)
	})
	for ; i < len(o.followers) && o.followers[i][0] == step; i++ {
		o.order = append(o.order, o.followers[i][1])
	}
}

func isConstant(s *live.Step) bool { return op.Of(s.Kind).Has(op.ConstantRole) }

// rank is ONNX Runtime's sort key of a step.
func (o *orderer) rank(p *live.Program, step int32) int32 {
	if !o.numbered && table[p.Steps[step].Kind].expands {
		return step + int32(len(p.Steps))
	}
	return step
}

// index lists the producers of every step.
func (o *orderer) index(p *live.Program) {
	o.define(p)
	o.read, o.start, o.producers = resized(o.read, len(p.Steps)), resized(o.start, len(p.Steps)+1), o.producers[:0]
	for i := range p.Steps {
		from := len(o.producers)
		if !o.removed[i] {
			for _, v := range p.Steps[i].In {
				if v != graph.NoValue && o.def[v] >= 0 {
					o.producers = append(o.producers, o.def[v])
					o.read[o.def[v]] = true
				}
			}
		}
		own := o.producers[from:]
		slices.SortFunc(own, func(a, b int32) int { return cmp.Compare(o.rank(p, a), o.rank(p, b)) })
		if o.reverse {
			slices.Reverse(own)
		}
		o.producers = o.producers[:from+len(slices.Compact(own))]
		o.start[i+1] = int32(len(o.producers))
	}
}

// define finds the producer of every value, and the Identity steps that are taken out.
func (o *orderer) define(p *live.Program) {
	o.def, o.reads, o.returned = resized(o.def, len(p.Bytes)), resized(o.reads, len(p.Bytes)),
		resized(o.returned, len(p.Bytes))
	o.removed, o.followers = resized(o.removed, len(p.Steps)), o.followers[:0]
	for i := range o.def {
		o.def[i] = -1
	}
	for _, v := range p.Outputs {
		o.returned[v] = true
	}
	for i := range p.Steps {
		for _, v := range p.Steps[i].In {
			if v != graph.NoValue {
				o.reads[v]++
			}
		}
	}
	for i := range p.Steps {
		if s := &p.Steps[i]; !isConstant(s) {
			o.defineOutputs(s, int32(i))
		}
	}
	slices.SortFunc(o.followers, func(a, b [2]int32) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
}

func (o *orderer) defineOutputs(s *live.Step, at int32) {
	in, out := s.Input(0), s.Output0()
	if o.basic && table[s.Kind].copies && in != graph.NoValue && out != graph.NoValue && o.def[in] >= 0 &&
		!o.returned[in] && (!o.returned[out] || o.reads[in] == 1) {
		o.removed[at] = true
		o.def[out] = o.def[in]
		o.followers = append(o.followers, [2]int32{o.def[in], at})
		return
	}
	for _, v := range s.Out {
		if v != graph.NoValue {
			o.def[v] = at
		}
	}
}

// Walk is an execution order of a program's steps in the absence of optimizations.
type Walk uint8

const (
	// Given is the order of the steps.
	Given Walk = iota
	// Unoptimized is the default order when all optimizations are off.
	Unoptimized
	// Basic is the default order when copies have been taken out.
	Basic
	// Reversed is Basic with all preferences of the walk turned around.
	Reversed
	numWalks
)

var walkers = [numWalks]orderer{Given: {given: true}, Basic: {basic: true}, Reversed: {basic: true, reverse: true}}
