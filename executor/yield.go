package executor

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// yieldKernel outputs the gradients of the forward half's outputs: the caller's, or else values
// equal to the forward half's own.
type yieldKernel struct {
	f      *frame
	node   *graph.Node
	source []int  // by output: the input whose gradient it is
	full   []bool // by output: whether it certainly has the input's shape
}

// newYield reads the attributes of ONNX Runtime's YieldOp.
func newYield(f *frame, st *step) (Kernel, error) {
	n := st.node
	fixed, full := n.IntList("non_differentiable_outputs", nil), n.IntList("full_shape_outputs", nil)
	k := &yieldKernel{f: f, node: n}
	for i := range n.Inputs {
		if !slices.Contains(fixed, int64(i)) {
			k.source, k.full = append(k.source, i), append(k.full, slices.Contains(full, int64(i)))
		}
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
		if k.full[i] && !slices.Equal(t.Shape, x.Shape) {
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

// findFeeds lists the gradients that a boundary node hands out.
func (s *Session) findFeeds() {
	for i := range s.root.steps {
		n := s.root.steps[i].node
		if !op.Of(n.Kind).Has(op.Yield) {
			continue
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				s.feeds = append(s.feeds, Feed{Value: v})
			}
		}
	}
}
