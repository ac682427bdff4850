package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/graph"
)

// adamKernel is a step of AdamOptimizer: a kernel for the numbers that all elements share, and one
// for the elements. The host reads no results.
type adamKernel struct {
	prepare, step                         *launch
	alpha, beta, lambda, epsilon, maxNorm float32
	correct                               bool
	mode                                  int64
}

// adamScalarBytes is the size of adam_scalars of kernels/adam.cu.
const adamScalarBytes = 24

// newAdamOptimizer makes the kernel of AdamOptimizer.
func newAdamOptimizer(d *Device, p *executor.Prep) (executor.Kernel, error) {
	for i := range 9 {
		if t := p.DType(i); i != 1 && !isFloat(t) && (t != graph.Undefined || i < 6) {
			return nil, noTypes(p)
		}
	}
	for i, t := range p.Out {
		if i > 0 && t != graph.Undefined && !isFloat(t) {
			return nil, p.Unsupported("no CUDA kernel for output types %v", p.Out)
		}
	}
	n := p.Node
	k := &adamKernel{alpha: n.Float("alpha", 0.9), beta: n.Float("beta", 0.999), lambda: n.Float("lambda", 0),
		epsilon: n.Float("epsilon", 1e-8),
		maxNorm: n.Float("max_norm_clip", 1), correct: n.Int("do_bias_correction", 1) != 0,
		mode: n.Int("weight_decay_mode", 0)}
	var err error
	if k.prepare, err = d.launch("adam", "adam_prepare_any"); err != nil {
		return nil, err
	}
	k.step, err = d.launch("adam", "adam_any")
	return k, err
}

// Workspace has space for the shared numbers.
func (k *adamKernel) Workspace(_, _ [][]int) int { return executor.RoundUp(adamScalarBytes) }

// Run updates the weight.
func (k *adamKernel) Run(c *executor.Ctx) error {
	w := c.In(2)
	if err := k.operands(c); err != nil {
		return err
	}
	shared := c.Scratch(adamScalarBytes)
	if err := k.share(c, shared); err != nil {
		return err
	}
	a := k.step.begin().In(shared)
	for i := 2; i <= 6; i++ {
		a.In(dataOf(c.In(i)))
	}
	out := [5]*executor.Tensor{}
	for i, from := range [5]int{4, 5, 2, 3, 6} {
		if t := c.In(from); t != nil {
			out[i] = c.Out(i+1, t.Shape...)
		}
		a.Out(dataOf(out[i]))
	}
	a.Int(w.Len())
	for i := 2; i <= 6; i++ {
		a.Uint32(typeOf(c.In(i)))
	}
	for _, t := range out {
		a.Uint32(typeOf(t))
	}
	a.Float32(k.alpha).Float32(k.beta).Float32(k.lambda).Float32(k.epsilon).Uint32(uint32(k.mode))
	return k.step.line(w.Len(), 4)
}

// operands checks the inputs.
func (k *adamKernel) operands(c *executor.Ctx) error {
	w := c.In(2)
	for i := 3; i <= 6; i++ {
		if t := c.In(i); t != nil && t.Len() != w.Len() {
			return c.Errorf("input %d is %v, wanted the weight's shape %v", i, t, w.Shape)
		}
	}
	for i, what := range adamNumbers {
		if t := c.In(i); what != "" && (t == nil && i < 2 || t != nil && t.Len() != 1) {
			return c.Errorf("input %d is %v, wanted one number, %s", i, t, what)
		}
	}
	if c.Wants(5) && c.In(6) == nil {
		return c.Errorf("output 5 is wanted without input 6")
	}
	return nil
}

// adamNumbers names the inputs that are single numbers.
var adamNumbers = [10]string{
	0: "the learning rate", 1: "the update count", 7: "the loss scale", 8: "the norm of all gradients",
	9: "the update signal",
}

// share computes the numbers that all elements share.
func (k *adamKernel) share(c *executor.Ctx, to []byte) error {
	k.prepare.begin().In(c.In(0).Data).In(dataOf(c.In(7))).In(dataOf(c.In(8))).In(c.In(1).Data).
		In(dataOf(c.In(9))).Out(to).Out(dataOf(c.Out(0, c.In(1).Shape...))).Uint32(typeOf(c.In(0))).
		Uint32(typeOf(c.In(7))).Uint32(typeOf(c.In(8))).Float32(k.alpha).Float32(k.beta).Float32(k.maxNorm).
		Uint32(flag(k.correct))
	return k.prepare.run(driver.Line(1, 32))
}
