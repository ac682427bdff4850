package executor

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
)

// yieldKernel outputs the gradients of the forward half's outputs: the caller's, else those of MadeGradient.
type yieldKernel struct {
	f      *frame
	node   *graph.Node
	source []int  // by output: the input whose gradient it is
	full   []bool // by output: whether it certainly has the input's shape
}

// newYield reads the attributes of ONNX Runtime's YieldOp.
func newYield(f *frame, st *step) (Kernel, error) {
	n := st.node
	full := n.IntList("full_shape_outputs", nil)
	k := &yieldKernel{f: f, node: n, source: gradientSources(n)}
	for _, i := range k.source {
		k.full = append(k.full, slices.Contains(full, int64(i)))
	}
	if len(n.Outputs) > len(k.source) {
		return nil, st.prep.Errorf("has %d outputs for %d differentiable inputs", len(n.Outputs), len(k.source))
	}
	return k, nil
}

// Run copies the gradients.
func (k *yieldKernel) Run(c *Ctx) error {
	for i := range k.node.Outputs {
		if !c.Wants(i) {
			continue
		}
		x := c.In(k.source[i])
		t := x
		if given := k.f.s.fed[k.node.Outputs[i]]; given != nil {
			t = given
		}
		if t.DType != c.out[i].DType {
			return c.Errorf("the gradient given for %q is %v, wanted elements of %v",
				k.f.g.ValueName(k.node.Outputs[i]), t, c.out[i].DType)
		}
		if (k.full[i] || k.f.s.made(k.node.Outputs[i])) && !slices.Equal(t.Shape, x.Shape) {
			if t.Len() != 1 {
				return c.Errorf("the gradient given for %q is %v; full_shape_outputs promises %v",
					k.f.g.ValueName(k.node.Outputs[i]), t, x)
			}
			if err := k.f.space.spread(c.Out(i, x.Shape...).Data, t.Data); err != nil {
				return err
			}
			continue
		}
		if err := k.f.mem.Copy(c.Out(i, t.Shape...).Data, t.Data); err != nil {
			return err
		}
	}
	return nil
}

// findFeeds lists the gradients that boundary nodes hand out, and makes those of scalars and beside them.
func (s *Session) findFeeds() error {
	for i := range s.root.steps {
		n := s.root.steps[i].node
		if !op.Of(n.Kind).Has(op.Yield) {
			continue
		}
		sources := gradientSources(n)
		scalar := slices.ContainsFunc(sources, func(i int) bool { return s.scalar(n.Inputs[i]) })
		for j, v := range n.Outputs {
			if v == graph.NoValue {
				continue
			}
			f := Feed{Value: v}
			switch {
			case !scalar || j >= len(sources):
			case s.scalar(n.Inputs[sources[j]]):
				f.Made = LossGradient
			default:
				f.Made = ZeroGradient
			}
			s.feeds = append(s.feeds, f)
			if err := s.makeGradient(&f); err != nil {
				return err
			}
		}
	}
	return nil
}

// gradientSources lists, by output of a boundary node, the input of which the output is the gradient.
func gradientSources(n *graph.Node) []int {
	fixed, list := n.IntList("non_differentiable_outputs", nil), []int(nil)
	for i := range n.Inputs {
		if !slices.Contains(fixed, int64(i)) {
			list = append(list, i)
		}
	}
	return list
}

// scalar reports whether a value is one number of a float type, whatever its rank.
func (s *Session) scalar(v graph.ValueID) bool {
	shape := s.root.shapes[v]
	return oneOf(s.model.Graph.Values[v].Type.DType) != nil && shape != nil && (&Tensor{Shape: shape}).Len() == 1
}

// makeGradient gives a gradient the value of its kind.
func (s *Session) makeGradient(f *Feed) error {
	if f.Made == LikeOutput {
		return nil
	}
	t := s.model.Graph.Values[f.Value].Type.DType
	one := oneOf(t)
	if one == nil {
		return nil // newYield refuses other types when the step runs
	}
	if f.Made == ZeroGradient {
		clear(one)
	}
	return s.root.space.setFeed(f.Value, &Tensor{DType: t, Shape: []int{}, Data: one})
}

// oneOf is the number one in a float type; nil for other types.
func oneOf(t graph.DType) []byte {
	switch t {
	case graph.Float32:
		return NewTensor[float32](t, []int{}, 1).Data
	case graph.Float64:
		return NewTensor[float64](t, []int{}, 1).Data
	case graph.Float16:
		return NewTensor(t, []int{}, half.Float16From(1)).Data
	case graph.BFloat16:
		return NewTensor(t, []int{}, half.BFloat16From(1)).Data
	}
	return nil
}

// made reports whether a gradient is a single number that was made for lack of a given one.
func (s *Session) made(v graph.ValueID) bool {
	i := slices.IndexFunc(s.feeds, func(f Feed) bool { return f.Value == v })
	return i >= 0 && !s.feeds[i].Given && s.feeds[i].Made != LikeOutput
}
