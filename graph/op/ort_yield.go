package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// yieldRule: the inputs leave the forward half; the outputs are the gradients of those inputs
// that non_differentiable_outputs does not list, in order.
//
// A gradient listed in full_shape_outputs (by the input's index) has the input's shape for sure.
// The others have it, too, unless their producer sends a smaller one that stretches to it; for them
// the file's type comes first.
func yieldRule(c *Ctx) {
	fixed := c.listAttr("non_differentiable_outputs")
	full := c.listAttr("full_shape_outputs")
	for _, list := range [][]int64{fixed, full} {
		for _, i := range list {
			if i < 0 || i >= int64(len(c.Node.Inputs)) {
				c.Errorf("an attribute lists output %d of the forward half, which has %d", i, len(c.Node.Inputs))
				return
			}
		}
	}
	k := 0
	for i := range c.Node.Inputs {
		if slices.Contains(fixed, int64(i)) {
			continue
		}
		t := c.In(i)
		if out := c.Node.Output(k); out != graph.NoValue && !slices.Contains(full, int64(i)) &&
			c.inf.declared.get(out).Shape.Ranked {
			t.Shape = graph.Shape{}
		}
		c.Out(k, t)
		k++
	}
	if len(c.Node.Outputs) > k {
		c.Errorf("has %d outputs for %d differentiable inputs", len(c.Node.Outputs), k)
	}
}

// atenRule calls a function of PyTorch's operator library, named by the attribute operator. It
// infers the types of the functions that ONNX Runtime's exporter is known to leave, and of no
// others.
func atenRule(c *Ctx) {
	switch c.Str("operator", "") {
	case "embedding", "aten::embedding":
		c.embedding()
	case "embedding_backward", "aten::embedding_backward":
		c.embeddingBackward()
	}
}

// wantInputs calls Errorf where one of the first n inputs is left out.
func (c *Ctx) wantInputs(n int) bool {
	for i := range n {
		if !c.Has(i) {
			c.Errorf("input %d is left out; the operator %q requires it", i, c.Str("operator", ""))
			return false
		}
	}
	return true
}

// embedding: weight [V, D…] at ids gives the ids' shape and D….
func (c *Ctx) embedding() {
	if !c.wantInputs(2) {
		return
	}
	w, ids := c.Shape(0), c.Shape(1)
	if !c.rankFrom(0, 1) {
		return
	}
	if !w.Ranked || !ids.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	dims := append(append([]symbolic.Expr(nil), ids.Dims...), w.Dims[1:]...)
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
}

// embeddingBackward: inputs are the gradient, the ids and the number of rows.
func (c *Ctx) embeddingBackward() {
	if !c.wantInputs(3) {
		return
	}
	if !c.rankFrom(0, 1) {
		return
	}
	rows := symbolic.Unknown()
	if e, ok := c.Contents(2); ok && len(e) == 1 {
		rows = e[0]
	}
	if n, ok := rows.Const(); ok && n < 0 {
		c.Errorf("input 2 is %d; the number of rows cannot be negative", n)
		return
	}
	c.OutTensor(0, c.DType(0), graph.Dims(rows, dimAt(c.Shape(0), -1)))
}

// pythonOpRule: output 0 is the address of the function's context, the others are tensors whose
// types and ranks the attributes give. Outputs beyond them (saved random states) are unknown.
func pythonOpRule(c *Ctx) {
	c.OutTensor(0, graph.Int64, graph.Dims())
	c.pythonTensors(1)
}

// pythonOpGradRule: input 0 is the context; every output is a tensor.
func pythonOpGradRule(c *Ctx) { c.pythonTensors(0) }

func (c *Ctx) pythonTensors(first int) {
	types, ranks := c.listAttr("output_tensor_types"), c.listAttr("output_tensor_ranks")
	if ranks != nil && len(ranks) != len(types) {
		c.Errorf("output_tensor_ranks has %d entries and output_tensor_types %d; they must be equal",
			len(ranks), len(types))
		return
	}
	for k, n := range types {
		d := graph.DType(n)
		if int64(d) != n || !d.Valid() {
			c.Errorf("output_tensor_types lists %d, which names no element type", n)
			return
		}
		s := graph.Shape{}
		if ranks != nil && ranks[k] >= 0 && ranks[k] <= maxRank {
			s = graph.UnknownDims(int(ranks[k]))
		}
		if first+k < len(c.Node.Outputs) {
			c.OutTensor(first+k, d, s)
		}
	}
}
