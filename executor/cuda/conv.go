package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda/driver"
)

// convolver has the kernels that convolutions are made of, for one element type.
type convolver struct {
	*product
	geometry *cpu.ConvGeometry
	size     int
	conv     driver.Conv
	search   convSearch
	lent     []byte // to cuBLAS

	columns, swap, finish, back, depth, depthBack, deep, depthWeights, biasGrad *launch

	// For halves, else nil: conversions, and movement of and to float32.
	widen, narrow, columnsWide, swapWide *launch
}

// convOf returns the maker of a kernel that is a convolver: it first reads the geometry.
func convOf(
	geometry func(*executor.Prep) (*cpu.ConvGeometry, error), kernel func(*convolver) executor.Kernel,
) func(*Device, *executor.Prep) (executor.Kernel, error) {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		g, err := geometry(p)
		if err != nil {
			return nil, err
		}
		k, err := newConvolver(d, p, g)
		if err != nil {
			return nil, err
		}
		return kernel(k), nil
	}
}

// newConvolver loads the kernels.
func newConvolver(d *Device, p *executor.Prep, g *cpu.ConvGeometry) (*convolver, error) {
	t := p.DType(0)
	if !isFloat(t) {
		return nil, noTypes(p)
	}
	product, err := d.product(p)
	if err != nil {
		return nil, err
	}
	k := &convolver{
		product: product, geometry: g, size: t.Bits() / 8, search: convSearch{d.opts.ConvSearch, d.opts.ConvClamp},
	}
	s, size := suffix(t), string(rune('0'+k.size))
	own := "conv_" + s
	list := []convLaunch{
		{&k.columns, "conv_columns", "columns_" + size}, {&k.swap, "conv_columns", "swap_" + size},
		{&k.finish, own, "finish_" + s},
		{&k.back, own, "back_" + s}, {&k.depth, own, "depthwise_" + s}, {&k.depthBack, own, "depthback_" + s},
		{&k.deep, own, "deep_" + s},
		{&k.depthWeights, own, "depthweights_" + s}, {&k.biasGrad, own, "biasgrad_" + s},
	}
	if k.size < 4 {
		list = append(list, convLaunch{&k.widen, "cast", "cast_" + s + "_f32"},
			convLaunch{&k.narrow, "cast", "cast_f32_" + s},
			convLaunch{&k.columnsWide, own, "columnsf32_" + s}, convLaunch{&k.swapWide, "conv_columns", "swap_4"})
	}
	for _, l := range list {
		if *l.to, err = d.launch(l.module, l.name); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// convLaunch is a kernel of a module.
type convLaunch struct {
	to           **launch
	module, name string
}

// lend takes the workspace of cuBLAS for a run.
func (k *convolver) lend(c *executor.Ctx) {
	k.lent = c.Scratch(k.d.libraryWorkspace())
	g := &k.gemm
	*g = driver.Gemm{Elem: g.Elem, TF32: g.TF32, Alpha: 1, Batch: 1, Workspace: k.lent}
}

// call runs the product as it is set, of operands that begin at elements of a, b and y.
func (k *convolver) call(a []byte, atA int, b []byte, atB int, y []byte, atY int) error {
	g := &k.gemm
	size := g.Elem.Size()
	g.A, g.B, g.C = a[atA*size:], b[atB*size:], y[atY*size:]
	return k.d.driver.Gemm(k.d.stream, g)
}

// convKernel is Conv and, with a second summand and an activation, FusedConv.
type convKernel struct {
	*convolver
	plan                convPlan
	shape               []int
	x, w, bias, z, y    []byte
	columnRoom, rowRoom []byte
}

// newConv makes the kernel of Conv and FusedConv.
var newConv = convOf(cpu.NewConvGeometry, func(k *convolver) executor.Kernel { return &convKernel{convolver: k} })

// Workspace returns the workspace of cuDNN, or that of the columns and cuBLAS.
func (k *convKernel) Workspace(in, _ [][]int) int {
	return k.workspace(in, driver.ConvForward, k.forwardBytes)
}

// LibraryWork says who convolves.
func (k *convKernel) LibraryWork(in, _ [][]int) []executor.LibraryWork {
	return k.libraryWork(in, driver.ConvForward, "convolution", k.forwardBytes)
}

// forwardBytes returns the workspace of a convolution by own kernels: the columns and cuBLAS's
// loan.
func (k *convolver) forwardBytes(p *convPlan) int {
	p.forward()
	return p.forwardBytes() + executor.RoundUp(k.d.libraryWorkspace())
}

// Run checks the shapes and computes.
func (k *convKernel) Run(c *executor.Ctx) error {
	x, w := c.In(0), c.In(1)
	var err error
	if k.plan, err = newConvPlan(k.geometry, x.Shape, w.Shape, k.size); err != nil {
		return err
	}
	p := &k.plan
	p.forward()
	k.x, k.w, k.bias, k.z = x.Data, w.Data, nil, nil
	if b := c.In(2); b != nil {
		if b.Rank() != 1 || b.Shape[0] != p.m {
			return c.Errorf("input 2 (bias) has shape %v, wanted [%d]", b.Shape, p.m)
		}
		k.bias = b.Data
	}
	k.shape = append(append(k.shape[:0], p.n, p.m), p.Out[3-p.Rank:]...)
	if z := c.In(3); z != nil {
		if !slices.Equal(z.Shape, k.shape) {
			return c.Errorf("input 3 has shape %v, wanted that of the output, %v", z.Shape, k.shape)
		}
		k.z = z.Data
	}
	y := c.Out(0, k.shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	k.y = y.Data
	switch {
	case p.depth == 0:
		if err := k.d.Memory().Fill(y.Data, 0); err != nil {
			return err
		}
		return k.finishSums(0, p.n, k.y, p.m*p.outPlane, p.outPlane)
	}
	choice := k.choice(p, driver.ConvForward)
	switch {
	case choice.err != nil:
		return choice.err
	case choice.library():
		if err := k.convolve(p, driver.ConvForward, &choice, k.x, k.w, k.y,
			c.Scratch(choice.algo.Workspace)); err != nil {
			return err
		}
		return k.finishAll(0, p.n, k.y)
	case p.way == convDepth:
		return k.runDepth()
	case p.way == convDeep:
		return k.runDeep()
	}
	k.lend(c)
	columns, rows := p.columnBytes()
	k.columnRoom, k.rowRoom = c.Scratch(columns), c.Scratch(rows)
	for from := 0; from < p.n; from += p.images {
		if err := k.some(from, min(p.images, p.n-from)); err != nil {
			return err
		}
	}
	return nil
}

// some computes count images from number from on.
func (k *convKernel) some(from, count int) error {
	p := &k.plan
	x, y := k.x[from*p.c*p.inPlane*k.size:], k.y[from*p.m*p.outPlane*k.size:]
	switch p.way {
	case convPoint:
		if err := k.multiplyAll(count, p.outPlane, x, y); err != nil {
			return err
		}
	case convWide:
		wide := count * p.outPlane
		if err := k.makeColumns(p, x, k.columnRoom, count, 0, p.outPlane, p.outPlane, wide); err != nil {
			return err
		}
		g := &k.gemm
		g.M, g.N, g.K, g.LDA, g.LDB, g.LDC = p.mg, wide, p.depth, p.depth, wide, wide
		g.Batch, g.StrideA, g.StrideB, g.StrideC = p.group, p.mg*p.depth, p.depth*wide, p.mg*wide
		if err := k.call(k.w, 0, k.columnRoom, 0, k.rowRoom, 0); err != nil {
			return err
		}
		return k.finishSums(from, count, k.rowRoom, p.outPlane, wide)
	default:
		for place := 0; place < p.outPlane; place += p.places {
			n := min(p.places, p.outPlane-place)
			if err := k.makeColumns(p, x, k.columnRoom, count, place, n, p.c*p.taps*n, n); err != nil {
				return err
			}
			if err := k.multiplyAll(count, n, k.columnRoom, y[place*k.size:]); err != nil {
				return err
			}
		}
	}
	return k.finishAll(from, count, y)
}

// finishAll finishes sums that lie where the output is to be, where there is something to do.
func (k *convKernel) finishAll(from, count int, y []byte) error {
	p := &k.plan
	if k.bias == nil && k.z == nil && p.act == 0 {
		return nil
	}
	return k.finishSums(from, count, y, p.m*p.outPlane, p.outPlane)
}

// multiplyAll multiplies the weights with n columns of each of count images: images are the
// library's batch, or groups where they are more.
func (k *convKernel) multiplyAll(count, n int, columns, y []byte) error {
	p, g := &k.plan, &k.gemm
	g.M, g.N, g.K, g.LDA, g.LDB, g.LDC = p.mg, n, p.depth, p.depth, n, p.outPlane
	imageB, imageY, groupW, groupB, groupY := p.c*p.taps*n, p.m*p.outPlane, p.mg*p.depth, p.depth*n, p.mg*p.outPlane
	if p.group > count {
		g.Batch, g.StrideA, g.StrideB, g.StrideC = p.group, groupW, groupB, groupY
		for i := range count {
			if err := k.call(k.w, 0, columns, i*imageB, y, i*imageY); err != nil {
				return err
			}
		}
		return nil
	}
	g.Batch, g.StrideA, g.StrideB, g.StrideC = count, 0, imageB, imageY
	for i := range p.group {
		if err := k.call(k.w, i*groupW, columns, i*groupB, y, i*groupY); err != nil {
			return err
		}
	}
	return nil
}

// makeColumns makes the columns first, first+1… of count images, of n places each.
func (k *convolver) makeColumns(p *convPlan, x, columns []byte, count, first, n, imageStride, rowStride int) error {
	rows := p.c * p.taps
	l := k.columns
	if p.size != k.size {
		l = k.columnsWide
	}
	a := l.begin().In(x[:count*p.c*p.inPlane*k.size]).Out(columns[:count*rows*n*p.size]).
		Int(count * rows * n).Int(p.c * p.inPlane).Int(imageStride).Int(rowStride).Int(first).Divider(n).
		Divider(rows).Divider(p.taps)
	p.pack(a)
	return l.line(count*rows*n, 2)
}

// finishSums adds bias and second summand to sums of count images and applies the activation.
func (k *convKernel) finishSums(from, count int, sums []byte, imageStride, rowStride int) error {
	p := &k.plan
	n := count * p.m * p.outPlane
	at, end := from*p.m*p.outPlane*k.size, (from*p.m*p.outPlane+n)*k.size
	z := k.z
	if z != nil {
		z = z[at:end]
	}
	a := k.finish.begin().In(sums[:n*k.size]).In(k.bias).In(z).Out(k.y[at:end]).Int(n).Int(imageStride).
		Int(rowStride).Divider(p.outPlane).Divider(p.m)
	k.activation(a)
	return k.finish.line(n, 4)
}

// activation packs FusedConv's activation, numbered as in kernels/conv.h.
func (k *convolver) activation(a *driver.Args) {
	a.Int32(int32(k.geometry.Activation)).Float32(float32(k.geometry.Alpha)).
		Float32(float32(k.geometry.Beta))
}

// runDepth computes groups of one channel each.
func (k *convKernel) runDepth() error {
	p := &k.plan
	a := k.depth.begin()
	for _, b := range [...][]byte{k.x, k.w, k.bias, k.z} {
		a.In(b)
	}
	a.Out(k.y).Int(p.n * p.m * p.outPlane).Divider(p.outPlane).Divider(p.m).Divider(p.mg)
	k.activation(a)
	p.pack(a)
	return k.depth.line(p.n*p.m*p.outPlane, 1)
}

// runDeep computes one element of the output per block.
func (k *convKernel) runDeep() error {
	p := &k.plan
	a := k.deep.begin()
	for _, b := range [...][]byte{k.x, k.w, k.bias, k.z} {
		a.In(b)
	}
	a.Out(k.y).Int(p.n * p.m * p.outPlane).Int(p.depth).Int(p.cg).Divider(p.outPlane).Divider(p.m).
		Divider(p.mg).Divider(p.taps)
	k.activation(a)
	p.pack(a)
	return k.deep.rows(p.n*p.m*p.outPlane, 256, 0)
}
