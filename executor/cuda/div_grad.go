package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/graph"
)

// divGrad is ONNX Runtime's DivGrad(dC, A, B), the gradients of C = A/B. The terms of an operand
// that was stretched are made in float32 in workspace and then added up.
type divGrad struct {
	grads [2]divGradOperand
	sum   *stretchedSum
}

// divGradOperand computes the gradient of one operand.
type divGradOperand struct {
	terms, whole *broadcastKernel    // in float32, and as the output
	in           [3]*executor.Tensor // dC, B, and A for the gradient of B
}

// newDivGrad makes the kernel of DivGrad.
func newDivGrad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := p.DType(0)
	if err := anyFloats(p, t, p.DType(1), p.DType(2)); err != nil {
		return nil, err
	}
	if err := sameTypes(p); err != nil {
		return nil, err
	}
	sum, err := newStretchedSum(d, t)
	if err != nil {
		return nil, err
	}
	k := &divGrad{sum: sum}
	for i, name := range []string{"dividend_", "divisor_"} {
		g := &k.grads[i]
		if g.whole, err = newBroadcast(d, "divgrad", name+suffix(t)+"_"+suffix(t), i+2, 4); err != nil {
			return nil, err
		}
		if g.terms, err = newBroadcast(d, "divgrad", name+suffix(t)+"_f32", i+2, 4); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Workspace has room for the terms of one gradient at a time, and for the sums of both.
func (k *divGrad) Workspace(in, out [][]int) int {
	n, terms := 0, 0
	for i := range k.grads {
		if i < len(out) && out[i] != nil && !slices.Equal(in[i+1], in[0]) {
			terms = executor.RoundUp(4 * elements(in[0]))
			n += k.sum.space(in[0], in[i+1])
		}
	}
	return n + terms
}

// stretchesTo reports whether a shape broadcasts to full and to no larger one.
func stretchesTo(shape, full []int) bool {
	lead := len(full) - len(shape)
	for i, d := range shape {
		if lead < 0 || d != 1 && d != full[lead+i] {
			return false
		}
	}
	return true
}

// Run computes the gradients.
func (k *divGrad) Run(c *executor.Ctx) error {
	var terms *executor.Tensor
	full := c.In(0).Shape
	for i := 1; i <= 2; i++ {
		if !stretchesTo(c.In(i).Shape, full) {
			return c.Errorf("input %d has shape %v, which does not stretch to that of input 0, %v",
				i, c.In(i).Shape, full)
		}
	}
	for i := range k.grads {
		g := &k.grads[i]
		if !c.Wants(i) {
			continue
		}
		x := c.In(i + 1)
		y := c.Out(i, x.Shape...)
		if slices.Equal(x.Shape, full) {
			if err := g.make(c, g.whole, y); err != nil {
				return err
			}
			continue
		}
		if terms == nil {
			terms = &k.sum.terms
			*terms = executor.Tensor{DType: graph.Float32, Shape: full, Data: c.Scratch(4 * c.In(0).Len())}
		}
		if err := g.make(c, g.terms, terms); err != nil {
			return err
		}
		if err := k.sum.run(c, terms, y); err != nil {
			return err
		}
	}
	return nil
}

// make computes the terms by either kernel.
func (g *divGradOperand) make(c *executor.Ctx, by *broadcastKernel, y *executor.Tensor) error {
	g.in = [3]*executor.Tensor{c.In(0), c.In(2), c.In(1)}
	if err := by.set(c, g.in[:by.inputs]...); err != nil {
		return err
	}
	by.pack(by.begin(), y)
	return by.line(by.n, by.perThread)
}
