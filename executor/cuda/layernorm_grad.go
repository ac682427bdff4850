package cuda

import (
	"memopt/executor"
)

// normForm says which operands a gradient of ONNX Runtime's has: dY, X, scale, mean, r; simplified
// dY, X, scale, r; invertible dY, Y, scale, bias, r.
type normForm uint8

const (
	normPlain normForm = iota
	normSimplified
	normInvertible
)

// layerNormGradKernel is the gradient of a norm over the last axes.
type layerNormGradKernel struct {
	*launch             // dX
	sums, parts *launch // dscale and dbias: of chunks of rows, and of all
	form        normForm
	axis        int64
}

// layerNormGrad makes a gradient's kernel.
func layerNormGrad(form normForm) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		stats := 3
		if form == normInvertible {
			stats = 4
		}
		if err := normOperands(p, stats, 3); err != nil {
			return nil, err
		}
		k := &layerNormGradKernel{form: form, axis: p.Node.Int("axis", -1)}
		t := suffix(p.DType(0))
		for _, l := range []struct {
			to   **launch
			name string
		}{{&k.launch, "layernormgrad_"}, {&k.sums, "layernormsums_"}, {&k.parts, "layernormparts_"}} {
			var err error
			if *l.to, err = d.launch("layernorm_"+t, l.name+t); err != nil {
				return nil, err
			}
		}
		return k, nil
	}
}

// rowChunks cuts the rows into chunks whose sums for dscale and dbias are made apart, by the shape
// alone.
func rowChunks(rows, n int) (chunks, chunk int) {
	tiles := max((n+31)/32, 1)
	chunk = max((rows*tiles+2047)/2048, 32)
	return max((rows+chunk-1)/chunk, 1), chunk
}

// Workspace counts the chunks' sums.
func (k *layerNormGradKernel) Workspace(in, _ [][]int) int {
	if len(in) < 2 || in[1] == nil {
		return 0
	}
	axis := int(k.axis)
	if axis < 0 {
		axis += len(in[1])
	}
	if axis < 0 || axis >= len(in[1]) {
		return 0
	}
	rows, n := elements(in[1][:axis]), elements(in[1][axis:])
	chunks, _ := rowChunks(rows, n)
	return executor.RoundUp(4 * 2 * chunks * n)
}

// normGradRun is the work of a run.
type normGradRun struct {
	dy, x, scale, bias, mean, inv *executor.Tensor
	dx, dscale, dbias             *executor.Tensor // nil if not wanted
	part                          []byte           // the chunks' sums
	rows, n, chunks, chunk        int
}

// Run computes the gradients.
func (k *layerNormGradKernel) Run(c *executor.Ctx) error {
	r := normGradRun{dy: c.In(0), x: c.In(1), scale: c.In(2)}
	if err := k.operands(c, &r); err != nil {
		return err
	}
	r.dx, r.dscale = c.Out(0, r.x.Shape...), c.Out(1, r.scale.Shape...)
	switch k.form {
	case normPlain:
		r.dbias = c.Out(2, r.scale.Shape...)
	case normInvertible:
		r.dbias = c.Out(2, r.bias.Shape...)
	}
	r.chunks, r.chunk = rowChunks(r.rows, r.n)
	r.part = c.Scratch(4 * 2 * r.chunks * r.n)
	if r.n == 0 {
		return nil
	}
	// The sums first: dX may lie in the memory of dY.
	if r.dscale != nil || r.dbias != nil {
		if err := k.sumUp(&r); err != nil {
			return err
		}
	}
	if r.dx == nil {
		return nil
	}
	k.pack(k.launch, &r)
	return k.teams(r.rows, r.n)
}

// operands checks the operands, and finds out how many rows of how many elements there are.
func (k *layerNormGradKernel) operands(c *executor.Ctx, r *normGradRun) (err error) {
	if err := sameShapes(c, 0, 1); err != nil {
		return err
	}
	axis := int(k.axis)
	if axis < 0 {
		axis += r.x.Rank()
	}
	if axis < 0 || axis >= r.x.Rank() {
		return c.Errorf("axis %d; input 1 has rank %d", k.axis, r.x.Rank())
	}
	r.rows, r.n = elements(r.x.Shape[:axis]), elements(r.x.Shape[axis:])
	if r.scale.Len() != r.n {
		return c.Errorf("input 2, the scale, is %v, wanted %d elements", r.scale, r.n)
	}
	r.bias, r.mean, r.inv, err = k.stats(c, r.rows, r.n)
	return err
}

// sumUp computes dscale and dbias.
func (k *layerNormGradKernel) sumUp(r *normGradRun) error {
	k.pack(k.sums, r)
	if err := k.sums.tiles((r.n+31)/32*r.chunks, 8); err != nil {
		return err
	}
	k.parts.begin().In(r.part).Out(dataOf(r.dscale)).Out(dataOf(r.dbias)).Int(r.n).Int(r.chunks)
	return k.parts.tiles((2*r.n+31)/32, 8)
}

// pack packs the arguments of dX's kernel or of the sums'.
func (k *layerNormGradKernel) pack(l *launch, r *normGradRun) {
	a := l.begin().In(r.dy.Data).In(r.x.Data).In(r.scale.Data).In(dataOf(r.bias)).In(dataOf(r.mean)).
		In(r.inv.Data).Out(dataOf(r.dx)).Out(r.part)
	for _, v := range [...]int{r.rows, r.n, r.chunks, r.chunk} {
		a.Int(v)
	}
	a.Uint32(flag(k.form == normSimplified)).Uint32(typeOf(r.mean)).Uint32(typeOf(r.inv)).
		Uint32(wide(r.x.DType, r.n))
}

// stats gets the operands from input 3 on.
func (k *layerNormGradKernel) stats(c *executor.Ctx, rows, n int) (bias, mean, inv *executor.Tensor, err error) {
	last := 4
	switch k.form {
	case normPlain:
		if mean = c.In(3); mean.Len() != rows {
			return nil, nil, nil, c.Errorf("input 3, the mean, is %v, wanted %d elements", mean, rows)
		}
	case normSimplified:
		last = 3
	case normInvertible:
		if bias = c.In(3); bias.Len() != n {
			return nil, nil, nil, c.Errorf("input 3, the bias, is %v, wanted %d elements", bias, n)
		}
	}
	if inv = c.In(last); inv.Len() != rows {
		return nil, nil, nil, c.Errorf("input %d, the inverse deviation, is %v, wanted %d elements", last, inv, rows)
	}
	return bias, mean, inv, nil
}
