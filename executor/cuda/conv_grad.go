package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda/driver"
)

// convGradKernel is com.microsoft's ConvGrad: from dY, X and W the gradients of X, W and the bias.
type convGradKernel struct {
	*convolver
	plan convPlan
	want []int
}

// newConvGrad makes the kernel of ConvGrad.
var newConvGrad = convOf(cpu.NewConvGeometry, func(k *convolver) executor.Kernel {
	return &convGradKernel{convolver: k}
})

// Workspace returns the workspace of the libraries and the columns.
func (k *convGradKernel) Workspace(in, out [][]int) int {
	p, err := newConvPlan(k.geometry, in[1], in[2], k.size)
	if err != nil {
		return 0
	}
	room := k.rooms(&p, wanted(out, 0), wanted(out, 1))
	return executor.RoundUp(room.dnn) + executor.RoundUp(room.blas) + room.own
}

func wanted(out [][]int, i int) bool { return i < len(out) && out[i] != nil }

// gradRooms are the parts of a workspace: cuDNN computes one gradient after the other in the same
// one.
type gradRooms struct{ dnn, blas, own int }

// rooms shares out the workspace for the gradients that are wanted.
func (k *convGradKernel) rooms(p *convPlan, dx, dw bool) (r gradRooms) {
	blas := k.d.libraryWorkspace()
	if dx {
		if c := k.choice(p, driver.ConvData); c.library() {
			r.dnn = c.algo.Workspace
		} else {
			p.backward(k.size)
			r.own, r.blas = r.own+p.backwardBytes(), blas
		}
	}
	if dw {
		if c := k.choice(p, driver.ConvFilter); c.library() {
			r.dnn = max(r.dnn, c.algo.Workspace)
		} else {
			p.backwardWeights(k.size)
			r.own, r.blas = r.own+p.weightBytes(), blas
		}
	}
	return r
}

// LibraryWork says who computes the gradients that are wanted.
func (k *convGradKernel) LibraryWork(in, out [][]int) (list []executor.LibraryWork) {
	p, err := newConvPlan(k.geometry, in[1], in[2], k.size)
	if err != nil {
		return nil
	}
	if wanted(out, 0) {
		list = append(list, k.work(&p, driver.ConvData, "gradient of inputs", k.spreadBytes(&p)))
	}
	if wanted(out, 1) {
		p.backwardWeights(k.size)
		list = append(list,
			k.work(&p, driver.ConvFilter, "gradient of filters",
				p.weightBytes()+executor.RoundUp(k.d.libraryWorkspace())))
	}
	return list
}

// Run checks the shapes and computes.
func (k *convGradKernel) Run(c *executor.Ctx) error {
	dy, x, w := c.In(0), c.In(1), c.In(2)
	var err error
	if k.plan, err = newConvPlan(k.geometry, x.Shape, w.Shape, k.size); err != nil {
		return err
	}
	p := &k.plan
	k.want = append(append(k.want[:0], p.n, p.m), p.Out[3-p.Rank:]...)
	if !slices.Equal(dy.Shape, k.want) {
		return c.Errorf("input 0 (dY) has shape %v, wanted %v", dy.Shape, k.want)
	}
	dx, dw := c.Out(0, x.Shape...), c.Out(1, w.Shape...)
	room := k.rooms(p, dx != nil, dw != nil)
	lent := c.Scratch(room.dnn)
	if room.blas > 0 {
		k.lend(c)
	}
	if dx != nil {
		p.backward(k.size)
		if err := k.spread(c, p, dy.Data, w.Data, nil, dx.Data, lent); err != nil {
			return err
		}
	}
	if dw != nil {
		p.backwardWeights(k.size)
		if err := k.weights(c, dy.Data, x.Data, dw.Data, lent); err != nil {
			return err
		}
	}
	db := c.Out(2, p.m)
	if db == nil {
		return nil
	}
	k.biasGrad.begin().In(dy.Data).Out(db.Data).Int(p.m).Int(p.n * p.outPlane).Divider(max(p.outPlane, 1))
	return k.biasGrad.rows(p.m, 256, 0)
}

// weights computes dW: dY times the transposed columns, some images or some places of one at a
// time.
func (k *convGradKernel) weights(c *executor.Ctx, dy, x, dw, lent []byte) error {
	p, g := &k.plan, &k.gemm
	choice := k.choice(p, driver.ConvFilter)
	switch {
	case len(dw) == 0:
		return nil
	case p.n*p.outPlane == 0:
		return k.d.Memory().Fill(dw, 0)
	case choice.err != nil:
		return choice.err
	case choice.library():
		return k.convolve(p, driver.ConvFilter, &choice, x, dw, dy, lent)
	case p.depthwise():
		return k.weightsDepth(dy, x, dw)
	}
	columns := c.Scratch(p.images * p.c * p.taps * p.places * p.size)
	var right, room []byte
	if p.images > 1 {
		right = c.Scratch(p.images * p.m * p.outPlane * p.size)
	}
	if p.size == k.size {
		return k.addWeights(dy, x, dw, columns, right, nil)
	}
	room = c.Scratch(p.images * p.m * p.outPlane * 4)
	sums := c.Scratch(p.m * p.depth * 4)
	elem, tf32 := g.Elem, g.TF32
	g.Elem, g.TF32 = driver.F32, true // which can represent all bits of halves
	err := k.addWeights(dy, x, sums, columns, right, room)
	g.Elem, g.TF32 = elem, tf32
	if err != nil {
		return err
	}
	k.narrow.begin().In(sums).Out(dw).Int(p.m * p.depth).Float32(0).Float32(0)
	return k.narrow.line(p.m*p.depth, 4)
}

// addWeights adds up dW, piece by piece. dY goes to room as float32 where there is one.
func (k *convGradKernel) addWeights(dy, x, dw, columns, right, room []byte) error {
	p, g := &k.plan, &k.gemm
	g.TransB, g.Beta = true, 0
	defer func() { g.TransB, g.Beta = false, 0 }()
	for from := 0; from < p.n; from += p.images {
		count := min(p.images, p.n-from)
		y := dy[from*p.m*p.outPlane*k.size:][:count*p.m*p.outPlane*k.size]
		var err error
		if room != nil {
			if y, err = k.widened(y, room); err != nil {
				return err
			}
		}
		if p.images > 1 {
			if err := k.sideBySide(y, right, count); err != nil {
				return err
			}
			y = right
		}
		for place := 0; place < p.outPlane; place += p.places {
			n := min(p.places, p.outPlane-place)
			wide := count * n
			if err := k.makeColumns(p, x[from*p.c*p.inPlane*k.size:], columns, count, place, n, n, wide); err != nil {
				return err
			}
			ld := count * p.outPlane
			g.M, g.N, g.K, g.LDA, g.LDB, g.LDC = p.mg, p.depth, wide, ld, wide, p.depth
			g.Batch, g.StrideA, g.StrideB, g.StrideC = p.group, p.mg*ld, p.depth*wide, p.mg*p.depth
			if err := k.call(y, place, columns, 0, dw, 0); err != nil {
				return err
			}
			g.Beta = 1
		}
	}
	return nil
}

// sideBySide brings the planes of each filter of count images together.
func (k *convGradKernel) sideBySide(dy, right []byte, count int) error {
	p := &k.plan
	n := count * p.m * p.outPlane
	swap := k.swap
	if p.size != k.size {
		swap = k.swapWide
	}
	swap.begin().In(dy[:n*p.size]).Out(right[:n*p.size]).Int(n).Int(p.m * p.outPlane).Int(p.outPlane).
		Divider(p.outPlane).Divider(count)
	return swap.line(n, 2)
}

// weightsDepth computes dW of groups of one channel each.
func (k *convGradKernel) weightsDepth(dy, x, dw []byte) error {
	p := &k.plan
	a := k.depthWeights.begin().In(dy).In(x).Out(dw).Int(p.m * p.taps).Int(p.n).Int(p.n * p.outPlane).
		Uint32(uint32(p.m)).Uint32(uint32(p.c)).Divider(p.taps).Divider(p.mg).Divider(p.outPlane)
	p.pack(a)
	return k.depthWeights.rows(p.m*p.taps, 256, 0)
}
