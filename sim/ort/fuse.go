package ort

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// The fusions of optimizer. Each is offered the steps in their order, and puts the steps it makes
// after all others.

// addRow makes one step of a dense MatMul and the Add of a row behind it (matmul_add_fusion.cc).
func (o *optimizer) addRow(at int32) {
	s := &o.out.Steps[at]
	if s.Node == graph.NoNode || !o.node[s.Node].dense {
		return
	}
	next := o.onlyReader(s)
	if next < 0 {
		return
	}
	add := &o.out.Steps[next]
	if add.Node == graph.NoNode || o.node[add.Node].row == 0 {
		return
	}
	row := add.In[o.node[add.Node].row-1]
	if row == s.Out[0] {
		return
	}
	o.replace(live.Step{Node: graph.NoNode, Kind: op.Gemm, In: append(slices.Clone(s.In), row), Out: add.Out}, at, next)
}

// joinViews makes one Reshape of a Reshape and the views behind it: as long as one alone reads the
// last, and its shape is known (FuseContiguousReshapes in reshape_fusion.cc). How the first learns
// its shape does not count, so a shape that a node computes for it is read no more.
func (o *optimizer) joinViews(at int32) {
	first := &o.out.Steps[at]
	if !o.describe(at).chains {
		return
	}
	chain := []int32{at}
	for {
		last := &o.out.Steps[chain[len(chain)-1]]
		next := o.onlyReader(last)
		if next < 0 || !o.describe(next).joins || o.as[o.out.Steps[next].In[0]] != last.Out[0] {
			break
		}
		chain = append(chain, next)
	}
	if len(chain) == 1 {
		return
	}
	joined := live.Step{Node: graph.NoNode, Kind: op.Reshape, In: slices.Clone(first.In[:1]),
		Out: o.out.Steps[chain[len(chain)-1]].Out}
	for _, i := range chain {
		for _, v := range o.out.Steps[i].In[1:] {
			if v != graph.NoValue && o.def[v] >= 0 {
				o.unread(v)
			}
		}
	}
	o.replace(joined, chain...)
}

// activate makes one step of a Gemm and the activation behind it (gemm_activation_fusion.cc).
func (o *optimizer) activate(at int32) {
	s := &o.out.Steps[at]
	if !table[s.Kind].activated {
		return
	}
	if next := o.onlyReader(s); next >= 0 && table[o.out.Steps[next].Kind].activation {
		o.replace(live.Step{Node: s.Node, Kind: s.Kind, In: s.In, Out: o.out.Steps[next].Out}, at, next)
	}
}

// transpose lets a MatMul read its operands as they are before a Transpose
// (matmul_transpose_fusion.cc).
func (o *optimizer) transpose(at int32) {
	if s := &o.out.Steps[at]; o.isProduct(s) {
		o.readThrough(at)
	}
}

// transposeGemm does so for Gemm (gemm_transpose_fusion.cc).
func (o *optimizer) transposeGemm(at int32) {
	if table[o.out.Steps[at].Kind].gemm {
		o.readThrough(at)
	}
}

// readThrough replaces those of a step's first two operands that a Transpose makes by that
// Transpose's operand.
func (o *optimizer) readThrough(at int32) {
	s := &o.out.Steps[at]
	fused := live.Step{Node: s.Node, Kind: s.Kind, In: slices.Clone(s.In), Out: s.Out}
	for slot, v := range s.In[:min(2, len(s.In))] {
		if from := o.maker(v); from >= 0 && o.describe(from).swaps {
			fused.In[slot] = o.as[o.out.Steps[from].In[0]]
			o.unread(v)
		}
	}
	if !slices.Equal(fused.In, s.In) {
		o.replace(fused, at)
	}
}

// scale makes a factor before or behind a product part of it (matmul_scale_fusion.cc).
func (o *optimizer) scale(at int32) {
	s := &o.out.Steps[at]
	if !o.isProduct(s) {
		return
	}
	fused, replaced := live.Step{Node: s.Node, Kind: s.Kind, In: slices.Clone(s.In), Out: s.Out}, []int32{at}
	for slot, v := range s.In {
		if from := o.maker(v); from >= 0 && o.describe(from).scaled > 0 {
			fused.In[slot] = o.as[o.out.Steps[from].In[o.describe(from).scaled-1]]
			o.reads[fused.In[slot]]++
			o.unread(v)
		}
	}
	if next := o.onlyReader(s); next >= 0 && o.describe(next).scaled > 0 &&
		o.out.Steps[next].In[o.describe(next).scaled-1] == s.Out[0] {
		fused.Out = o.out.Steps[next].Out
		replaced = append(replaced, next)
	}
	if len(replaced) > 1 || !slices.Equal(fused.In, s.In) {
		o.replace(fused, replaced...)
	}
}

func (o *optimizer) isProduct(s *live.Step) bool {
	return s.Node != graph.NoNode && o.node[s.Node].matrix
}

// describe returns the facts of a step's node.
func (o *optimizer) describe(at int32) nodeFacts {
	if s := &o.out.Steps[at]; s.Node != graph.NoNode {
		return o.node[s.Node]
	}
	return nodeFacts{}
}

// maker returns the step that makes a value, or -1.
func (o *optimizer) maker(v graph.ValueID) int32 {
	if v == graph.NoValue || o.def[v] < 0 || o.gone[o.def[v]] {
		return -1
	}
	return o.def[v]
}

// onlyReader returns the one step that reads the results of a step, once; -1 if there are others or
// its result is returned.
func (o *optimizer) onlyReader(s *live.Step) int32 {
	v := s.Out[0]
	if v == graph.NoValue || o.reads[v] != 1 || o.results[v] {
		return -1
	}
	return o.reader[v]
}

// unread counts one reader fewer, and takes out a step that has no readers left.
func (o *optimizer) unread(v graph.ValueID) {
	if o.reads[v]--; o.reads[v] == 0 && !o.results[v] {
		o.gone[o.def[v]] = true
	}
}

// replace puts a step in place of others.
func (o *optimizer) replace(s live.Step, others ...int32) {
	for _, at := range others {
		o.gone[at] = true
	}
	at := o.append(s)
	o.gone = append(o.gone, false)
	for _, v := range s.Out {
		if v != graph.NoValue {
			o.def[v] = at
		}
	}
	for _, v := range s.In {
		if v != graph.NoValue {
			o.reader[v] = at
		}
	}
}
