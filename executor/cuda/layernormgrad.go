package cuda

import (
	"memopt/executor"
)

// normForm says which operands a gradient of ONNX Runtime's has: dY, X, scale, mean, r; simplified dY, X, scale, r;
// invertible dY, Y, scale, bias, r.
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

// rowChunks cuts the rows into chunks whose sums for dscale and dbias are made apart, by the shape alone.
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

// Run computes the gradients.
func (k *layerNormGradKernel) Run(c *executor.Ctx) error {
	dy, x, scale := c.In(0), c.In(1), c.In(2)
	if err := sameShapes(c, 0, 1); err != nil {
		return err
	}
	axis := int(k.axis)
	if axis < 0 {
		axis += x.Rank()
	}
	if axis < 0 || axis >= x.Rank() {
		return c.Errorf("axis %d; input 1 has rank %d", k.axis, x.Rank())
	}
	rows, n := elements(x.Shape[:axis]), elements(x.Shape[axis:])
	if scale.Len() != n {
		return c.Errorf("input 2, the scale, is %v, wanted %d elements", scale, n)
	}
	bias, mean, inv, err := k.stats(c, rows, n)
	if err != nil {
		return err
	}
	dx, dscale := c.Out(0, x.Shape...), c.Out(1, scale.Shape...)
	var dbias *executor.Tensor
	switch k.form {
	case normPlain:
		dbias = c.Out(2, scale.Shape...)
	case normInvertible:
		dbias = c.Out(2, bias.Shape...)
	}
	chunks, chunk := rowChunks(rows, n)
	part := c.Scratch(4 * 2 * chunks * n)
	for _, l := range []*launch{k.launch, k.sums} {
		if l == k.launch && dx == nil {
			continue
		}
		a := l.begin()
		a.In(dy.Data)
		a.In(x.Data)
		a.In(scale.Data)
		a.In(dataOf(bias))
		a.In(dataOf(mean))
		a.In(inv.Data)
		a.Out(dataOf(dx))
		a.Out(part)
		a.Int(rows)
		a.Int(n)
		a.Int(chunks)
		a.Int(chunk)
		a.Uint32(flag(k.form == normSimplified))
		a.Uint32(typeOf(mean))
		a.Uint32(typeOf(inv))
		a.Uint32(wide(x.DType, n))
	}
	if n == 0 {
		return nil
	}
	// The sums first: dX may lie in the memory of dY.
	if dscale != nil || dbias != nil {
		if err := k.sums.tiles((n+31)/32*chunks, 8); err != nil {
			return err
		}
		a := k.parts.begin()
		a.In(part)
		a.Out(dataOf(dscale))
		a.Out(dataOf(dbias))
		a.Int(n)
		a.Int(chunks)
		if err := k.parts.tiles((2*n+31)/32, 8); err != nil {
			return err
		}
	}
	if dx == nil {
		return nil
	}
	return k.teams(rows, n)
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
