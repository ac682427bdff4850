package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda/driver"
)

// spread applies the transpose of a convolution: dx [N, C, in…] of dy [N, M, out…], weights [M, C/group, kernel…] and a
// bias for each of C, or nil. lent is cuDNN's workspace where it has a part in it.
func (k *convolver) spread(c *executor.Ctx, p *convPlan, dy, w, bias, dx, lent []byte) error {
	if len(dx) == 0 {
		return nil
	}
	if p.mg == 0 || p.outPlane == 0 {
		// Nothing is added: a window without places leaves the bias.
		return k.addBack(p, nil, bias, dx, p.n, p.c, 0)
	}
	choice := k.choice(p, driver.ConvData)
	switch {
	case choice.err != nil:
		return choice.err
	case choice.library():
		if err := k.convolve(p, driver.ConvData, &choice, dx, w, dy, lent); err != nil || bias == nil {
			return err
		}
		return k.addBias(dx, bias, p.n, p.c, p.inPlane)
	case p.way == convDepth:
		return k.spreadDepth(p, dy, w, bias, dx)
	}
	columns, room := dx, []byte(nil)
	if p.way == convColumns {
		columns = c.Scratch(p.spreadColumns())
		if k.widen != nil {
			var err error
			if w, err = k.widened(w, c.Scratch(p.m*p.depth*4)); err != nil {
				return err
			}
			room = c.Scratch(p.images * p.m * p.outPlane * 4)
			elem, tf32 := k.gemm.Elem, k.gemm.TF32
			k.gemm.Elem, k.gemm.TF32 = driver.F32, true // which has room for all bits of halves
			defer func() { k.gemm.Elem, k.gemm.TF32 = elem, tf32 }()
		}
	}
	for from := 0; from < p.n; from += p.images {
		count := min(p.images, p.n-from)
		y, x := dy[from*p.m*p.outPlane*k.size:], dx[from*p.c*p.inPlane*k.size:]
		var err error
		if room != nil {
			if y, err = k.widened(y[:count*p.m*p.outPlane*k.size], room); err != nil {
				return err
			}
		}
		switch {
		case p.way == convPoint:
			if err = k.multiplyBack(p, count, w, y, x); err == nil && bias != nil {
				err = k.addBias(x, bias, count, p.c, p.inPlane)
			}
		case p.whole():
			if err = k.multiplyBack(p, count, w, y, columns); err == nil {
				err = k.addBack(p, columns, bias, x, count, p.c, p.c*p.taps*p.outPlane)
			}
		default:
			err = k.spreadBlocks(p, w, y, bias, columns, x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spreadBytes returns the workspace of the transpose by own kernels: the columns and what cuBLAS is lent.
func (k *convolver) spreadBytes(p *convPlan) int {
	p.backward(k.size)
	return p.backwardBytes() + executor.RoundUp(k.d.libraryWorkspace())
}

// widened writes halves as float32 to room.
func (k *convolver) widened(x, room []byte) ([]byte, error) {
	n := len(x) / k.size
	a := k.widen.begin()
	a.In(x)
	a.Out(room[:4*n])
	a.Int(n)
	a.Float32(0)
	a.Float32(0)
	return room[:4*n], k.widen.line(n, 4)
}

// addBias adds a bias per channel to y, in place.
func (k *convolver) addBias(y, bias []byte, count, channels, plane int) error {
	n := count * channels * plane
	a := k.finish.begin()
	a.In(y[:n*k.size])
	a.In(bias)
	a.In(nil)
	a.Out(y[:n*k.size])
	a.Int(n)
	a.Int(channels * plane)
	a.Int(plane)
	a.Divider(plane)
	a.Divider(channels)
	a.Int32(0)
	a.Float32(0)
	a.Float32(0)
	return k.finish.line(n, 4)
}

// multiplyBack makes the columns of count images: images are the library's batch, or groups where they are more.
func (k *convolver) multiplyBack(p *convPlan, count int, w, dy, columns []byte) error {
	g := &k.gemm
	g.TransA, g.M, g.N, g.K, g.LDA, g.LDB, g.LDC = true, p.depth, p.outPlane, p.mg, p.depth, p.outPlane, p.outPlane
	defer func() { g.TransA = false }()
	imageY, imageC, groupW, groupY, groupC := p.m*p.outPlane, p.c*p.taps*p.outPlane, p.mg*p.depth, p.mg*p.outPlane, p.depth*p.outPlane
	if p.group > count {
		g.Batch, g.StrideA, g.StrideB, g.StrideC = p.group, groupW, groupY, groupC
		for i := range count {
			if err := k.call(w, 0, dy, i*imageY, columns, i*imageC); err != nil {
				return err
			}
		}
		return nil
	}
	g.Batch, g.StrideA, g.StrideB, g.StrideC = count, 0, imageY, imageC
	for i := range p.group {
		if err := k.call(w, i*groupW, dy, i*groupY, columns, i*groupC); err != nil {
			return err
		}
	}
	return nil
}

// spreadBlocks does one image, some channels of a group at a time.
func (k *convolver) spreadBlocks(p *convPlan, w, dy, bias, columns, dx []byte) error {
	g := &k.gemm
	defer func() { g.TransA = false }()
	for group := range p.group {
		for first := 0; first < p.cg; first += p.channels {
			count := min(p.channels, p.cg-first)
			g.TransA, g.M, g.N, g.K, g.LDA, g.LDB, g.LDC = true, count*p.taps, p.outPlane, p.mg, p.depth, p.outPlane, p.outPlane
			g.Batch, g.StrideA, g.StrideB, g.StrideC = 1, 0, 0, 0
			if err := k.call(w, group*p.mg*p.depth+first*p.taps, dy, group*p.mg*p.outPlane, columns, 0); err != nil {
				return err
			}
			channel := group*p.cg + first
			some := bias
			if bias != nil {
				some = bias[channel*k.size:][:count*k.size]
			}
			if err := k.addBack(p, columns, some, dx[channel*p.inPlane*k.size:], 1, count, count*p.taps*p.outPlane); err != nil {
				return err
			}
		}
	}
	return nil
}

// addBack adds up the columns, which are float32, of some channels of count images.
func (k *convolver) addBack(p *convPlan, columns, bias, dx []byte, count, channels, imageStride int) error {
	n := count * channels * p.inPlane
	a := k.back.begin()
	a.In(columns[:min(len(columns), count*channels*p.taps*p.outPlane*4)])
	a.In(bias)
	a.Out(dx[:n*k.size])
	a.Int(n)
	a.Int(imageStride)
	a.Int(p.outPlane)
	a.Int(channels * p.inPlane)
	a.Divider(max(p.inPlane, 1))
	a.Divider(max(channels, 1))
	if columns == nil {
		none := *p
		none.Kernel = [3]int{}
		none.pack(a)
	} else {
		p.pack(a)
	}
	return k.back.line(n, 1)
}

// spreadDepth does groups of one channel each.
func (k *convolver) spreadDepth(p *convPlan, dy, w, bias, dx []byte) error {
	n := p.n * p.c * p.inPlane
	a := k.depthBack.begin()
	for _, b := range [...][]byte{dy, w, bias, nil} {
		a.In(b)
	}
	a.Out(dx)
	a.Int(n)
	a.Divider(p.inPlane)
	a.Divider(p.m)
	a.Divider(p.mg)
	a.Int32(0)
	a.Float32(0)
	a.Float32(0)
	p.pack(a)
	return k.depthBack.line(n, 1)
}

// convTransposeKernel is ConvTranspose: the transpose of a convolution from the channels of Y to those of X.
type convTransposeKernel struct {
	*convolver
	plan  convPlan
	shape []int
}

// newConvTranspose makes the kernel of ConvTranspose.
func newConvTranspose(d *Device, p *executor.Prep) (executor.Kernel, error) {
	g, err := cpu.NewConvTransposeGeometry(p)
	k, err := newConvolver(d, p, g, err)
	if err != nil {
		return nil, err
	}
	return &convTransposeKernel{convolver: k}, nil
}

// Workspace returns what cuDNN takes, or the columns and cuBLAS.
func (k *convTransposeKernel) Workspace(in, _ [][]int) int {
	p, err := newConvPlan(k.geometry, in[0], in[1], k.size)
	if err != nil {
		return 0
	}
	if c := k.choice(&p, driver.ConvData); c.library() {
		return c.bytes()
	}
	return k.spreadBytes(&p)
}

// LibraryWork says who convolves.
func (k *convTransposeKernel) LibraryWork(in, _ [][]int) []executor.LibraryWork {
	p, err := newConvPlan(k.geometry, in[0], in[1], k.size)
	if err != nil {
		return nil
	}
	return []executor.LibraryWork{k.work(&p, driver.ConvData, "transposed convolution", k.spreadBytes(&p))}
}

// Run checks the shapes and computes.
func (k *convTransposeKernel) Run(c *executor.Ctx) error {
	x, w := c.In(0), c.In(1)
	var err error
	if k.plan, err = newConvPlan(k.geometry, x.Shape, w.Shape, k.size); err != nil {
		return err
	}
	p := &k.plan
	p.backward(k.size)
	var bias []byte
	if b := c.In(2); b != nil {
		if b.Rank() != 1 || b.Shape[0] != p.c {
			return c.Errorf("input 2 (bias) has shape %v, wanted [%d]", b.Shape, p.c)
		}
		bias = b.Data
	}
	k.shape = append(append(k.shape[:0], p.n, p.c), p.In[3-p.Rank:]...)
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	var lent []byte
	if choice := k.choice(p, driver.ConvData); choice.library() {
		lent = c.Scratch(choice.algo.Workspace)
	} else {
		k.lend(c)
	}
	return k.spread(c, p, x.Data, w.Data, bias, y.Data, lent)
}

// convGradKernel is com.microsoft's ConvGrad: from dY, X and W the gradients of X, W and the bias.
type convGradKernel struct {
	*convolver
	plan convPlan
	want []int
}

// newConvGrad makes the kernel of ConvGrad.
func newConvGrad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	g, err := cpu.NewConvGeometry(p)
	k, err := newConvolver(d, p, g, err)
	if err != nil {
		return nil, err
	}
	return &convGradKernel{convolver: k}, nil
}

// Workspace returns what the libraries and the columns take.
func (k *convGradKernel) Workspace(in, out [][]int) int {
	p, err := newConvPlan(k.geometry, in[1], in[2], k.size)
	if err != nil {
		return 0
	}
	room := k.rooms(&p, wanted(out, 0), wanted(out, 1))
	return executor.RoundUp(room.dnn) + executor.RoundUp(room.blas) + room.own
}

func wanted(out [][]int, i int) bool { return i < len(out) && out[i] != nil }

// gradRooms are the parts of a workspace: cuDNN computes one gradient after the other in the same one.
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
		list = append(list, k.work(&p, driver.ConvFilter, "gradient of filters", p.weightBytes()+executor.RoundUp(k.d.libraryWorkspace())))
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
	a := k.biasGrad.begin()
	a.In(dy.Data)
	a.Out(db.Data)
	a.Int(p.m)
	a.Int(p.n * p.outPlane)
	a.Divider(max(p.outPlane, 1))
	return k.biasGrad.rows(p.m, 256, 0)
}

// weights computes dW: dY times the transposed columns, some images or some places of one at a time.
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
	g.Elem, g.TF32 = driver.F32, true // which has room for all bits of halves
	err := k.addWeights(dy, x, sums, columns, right, room)
	g.Elem, g.TF32 = elem, tf32
	if err != nil {
		return err
	}
	a := k.narrow.begin()
	a.In(sums)
	a.Out(dw)
	a.Int(p.m * p.depth)
	a.Float32(0)
	a.Float32(0)
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
	a := swap.begin()
	a.In(dy[:n*p.size])
	a.Out(right[:n*p.size])
	a.Int(n)
	a.Int(p.m * p.outPlane)
	a.Int(p.outPlane)
	a.Divider(p.outPlane)
	a.Divider(count)
	return swap.line(n, 2)
}

// weightsDepth computes dW of groups of one channel each.
func (k *convGradKernel) weightsDepth(dy, x, dw []byte) error {
	p := &k.plan
	a := k.depthWeights.begin()
	a.In(dy)
	a.In(x)
	a.Out(dw)
	a.Int(p.m * p.taps)
	a.Int(p.n)
	a.Int(p.n * p.outPlane)
	a.Uint32(uint32(p.m))
	a.Uint32(uint32(p.c))
	a.Divider(p.taps)
	a.Divider(p.mg)
	a.Divider(p.outPlane)
	p.pack(a)
	return k.depthWeights.rows(p.m*p.taps, 256, 0)
}
