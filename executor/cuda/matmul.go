package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/graph"
)

// elemOf returns the library's name of an element type.
func elemOf(t graph.DType) (driver.Elem, bool) {
	switch t {
	case graph.Float32:
		return driver.F32, true
	case graph.Float64:
		return driver.F64, true
	case graph.Float16:
		return driver.F16, true
	case graph.BFloat16:
		return driver.BF16, true
	}
	return 0, false
}

// product is a product of matrices, with a batch of more axes than its one.
type product struct {
	d    *Device
	gemm driver.Gemm
	axes []batchAxis // all but the innermost
}

// batchAxis is an axis of a batch with the strides of the operands along it, in elements.
type batchAxis struct{ n, a, b, c int }

// product makes a product of operands of one type, inputs 0 and 1 and any others.
func (d *Device) product(p *executor.Prep) (*product, error) {
	if !p.Has(0) || !p.Has(1) {
		return nil, noTypes(p)
	}
	if err := sameTypes(p); err != nil {
		return nil, err
	}
	return d.productOf(p, p.DType(0))
}

// productOf makes a product of matrices of a type.
func (d *Device) productOf(p *executor.Prep, t graph.DType) (*product, error) {
	e, ok := elemOf(t)
	if !ok {
		return nil, noTypes(p)
	}
	// An empty product opens the library, or loads memopt's own kernels.
	if err := d.driver.Gemm(d.stream, &driver.Gemm{Elem: e, LDA: 1, LDB: 1, LDC: 1}); err != nil {
		return nil, err
	}
	return &product{d: d, gemm: driver.Gemm{Elem: e, Alpha: 1, Batch: 1, TF32: d.opts.TF32}}, nil
}

// Workspace returns the bytes that the library is lent.
func (k *product) Workspace(_, _ [][]int) int { return k.d.libraryWorkspace() }

// multiply runs the product over all axes of the batch.
func (k *product) multiply(c *executor.Ctx, a, b, y []byte) error {
	g := &k.gemm
	if len(y) == 0 {
		return nil
	}
	if g.K == 0 && g.Beta == 0 {
		return k.d.Memory().Fill(y, 0)
	}
	g.Workspace = c.Scratch(k.d.libraryWorkspace())
	return k.run(a, b, y)
}

// run calls the library for every index of the axes. Its workspace is set, and no matrix is empty.
func (k *product) run(a, b, y []byte) error {
	g := &k.gemm
	size := g.Elem.Size()
	total := 1
	for _, x := range k.axes {
		total *= x.n
	}
	for i := range total {
		var at batchAxis
		for rest, j := i, len(k.axes)-1; j >= 0; j-- {
			x := k.axes[j]
			step := rest % x.n
			rest /= x.n
			at.a, at.b, at.c = at.a+step*x.a, at.b+step*x.b, at.c+step*x.c
		}
		g.A, g.B, g.C = a[at.a*size:], b[at.b*size:], y[at.c*size:]
		if err := k.d.driver.Gemm(k.d.stream, g); err != nil {
			return err
		}
	}
	return nil
}

// spread makes the innermost of the axes the library's batch; run goes through the others.
func (k *product) spread(axes []batchAxis) {
	g := &k.gemm
	g.Batch, g.StrideA, g.StrideB, g.StrideC = 1, 0, 0, 0
	if last := len(axes) - 1; last >= 0 {
		x := axes[last]
		g.Batch, g.StrideA, g.StrideB, g.StrideC = x.n, x.a, x.b, x.c
		axes = axes[:last]
	}
	k.axes = axes
}

// mergeBatch joins neighbouring axes that all operands step through as through one, in place.
func mergeBatch(all []batchAxis) []batchAxis {
	axes := all[:0]
	for _, x := range all {
		if x.n == 1 {
			continue
		}
		if last := len(axes) - 1; last >= 0 && axes[last].a == x.a*x.n && axes[last].b == x.b*x.n &&
			axes[last].c == x.c*x.n {
			x.n *= axes[last].n
			axes[last] = x
			continue
		}
		axes = append(axes, x)
	}
	return axes
}

// matMulKernel computes alpha*A'*B' with batches broadcast as numpy.matmul does. With adds, it adds
// that to input 2, which has its shape.
type matMulKernel struct {
	*product
	adds  bool
	shape []int
	all   []batchAxis
}

// newMatMul makes the kernel of MatMul.
func newMatMul(d *Device, p *executor.Prep) (executor.Kernel, error) { return matMul(d, p) }

// newMatMulAdd makes the kernel of memopt's own MatMulAdd.
func newMatMulAdd(d *Device, p *executor.Prep) (executor.Kernel, error) { return adding(matMul, d, p) }

// newFusedMatMul makes the kernel of com.microsoft's FusedMatMul.
func newFusedMatMul(d *Device, p *executor.Prep) (executor.Kernel, error) { return fusedMatMul(d, p) }

// newFusedMatMulAdd makes the kernel of memopt's own FusedMatMulAdd.
func newFusedMatMulAdd(d *Device, p *executor.Prep) (executor.Kernel, error) {
	return adding(fusedMatMul, d, p)
}

// adding lets a product add to input 2, which has its type.
func adding(product func(*Device, *executor.Prep) (*matMulKernel, error), d *Device,
	p *executor.Prep) (executor.Kernel, error) {
	if !p.Has(2) {
		return nil, noTypes(p)
	}
	k, err := product(d, p) // refuses operands of different types
	if err != nil {
		return nil, err
	}
	k.adds, k.gemm.Beta = true, 1
	return k, nil
}

func matMul(d *Device, p *executor.Prep) (*matMulKernel, error) {
	k, err := d.product(p)
	if err != nil {
		return nil, err
	}
	return &matMulKernel{product: k}, nil
}

func fusedMatMul(d *Device, p *executor.Prep) (*matMulKernel, error) {
	if p.Node.Int("transBatchA", 0) != 0 || p.Node.Int("transBatchB", 0) != 0 {
		return nil, p.Unsupported("no CUDA kernel has transBatchA or transBatchB")
	}
	k, err := d.product(p)
	if err != nil {
		return nil, err
	}
	k.gemm.TransA, k.gemm.TransB = p.Node.Int("transA", 0) != 0, p.Node.Int("transB", 0) != 0
	k.gemm.Alpha = float64(p.Node.Float("alpha", 1))
	return &matMulKernel{product: k}, nil
}

// Run multiplies.
func (k *matMulKernel) Run(c *executor.Ctx) error {
	a, b := c.In(0), c.In(1)
	transA, transB := k.gemm.TransA, k.gemm.TransB
	defer func() { k.gemm.TransA, k.gemm.TransB = transA, transB }()
	if err := k.geometry(c, a.Shape, b.Shape); err != nil {
		return err
	}
	if k.adds && !slices.Equal(c.In(2).Shape, k.shape) {
		return c.Errorf("input 2 has shape %v, wanted the product's, %v", c.In(2).Shape, k.shape)
	}
	y := c.Out(0, k.shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	if sum := c.In(2); k.adds && &sum.Data[0] != &y.Data[0] {
		if err := k.d.driver.Copy(k.d.stream, y.Data, sum.Data); err != nil {
			return err
		}
	}
	return k.multiply(c, a.Data, b.Data, y.Data)
}

// geometry finds the sizes of the matrices and the axes of the batch.
func (k *matMulKernel) geometry(c *executor.Ctx, a, b []int) error {
	g := &k.gemm
	if len(a) == 0 || len(b) == 0 {
		return c.Errorf("shapes %v and %v cannot be multiplied: scalars have no rows or columns", a, b)
	}
	rowsA, colsA, rowsB, colsB := 1, a[len(a)-1], b[0], 1
	if len(a) == 1 {
		g.TransA = false
	} else {
		rowsA = a[len(a)-2]
	}
	if len(b) == 1 {
		g.TransB = false
	} else {
		rowsB, colsB = b[len(b)-2], b[len(b)-1]
	}
	g.LDA, g.LDB = max(colsA, 1), max(colsB, 1)
	g.M, g.K, g.N = rowsA, colsA, colsB
	if g.TransA {
		g.M, g.K = g.K, g.M
	}
	inner := rowsB
	if g.TransB {
		g.N, inner = rowsB, colsB
	}
	if g.K != inner {
		return c.Errorf("shapes %v and %v cannot be multiplied: %d columns meet %d rows", a, b, g.K, inner)
	}
	g.LDC = max(g.N, 1)
	if err := k.batch(c, a, b); err != nil {
		return err
	}
	if len(a) > 1 {
		k.shape = append(k.shape, g.M)
	}
	if len(b) > 1 {
		k.shape = append(k.shape, g.N)
	}
	k.fold()
	return nil
}

// batch broadcasts the axes before the last two.
func (k *matMulKernel) batch(c *executor.Ctx, a, b []int) error {
	leadA, leadB := a[:max(len(a)-2, 0)], b[:max(len(b)-2, 0)]
	rank := max(len(leadA), len(leadB))
	k.shape, k.all = k.shape[:0], k.all[:0]
	dim := func(lead []int, i int) int {
		if i -= rank - len(lead); i >= 0 {
			return lead[i]
		}
		return 1
	}
	for i := range rank {
		x, y := dim(leadA, i), dim(leadB, i)
		n := max(x, y)
		if x == 0 || y == 0 {
			n = 0
		}
		if x != n && x != 1 || y != n && y != 1 {
			return c.Errorf("shapes %v and %v cannot be multiplied: dims %d and %d before the last two", a, b, x, y)
		}
		k.shape = append(k.shape, n)
		k.all = append(k.all, batchAxis{n: n})
	}
	// Strides, from the last axis on; those of a dim that is repeated are 0.
	sa, sb, sc := k.gemm.M*k.gemm.K, k.gemm.K*k.gemm.N, k.gemm.M*k.gemm.N
	for i := rank - 1; i >= 0; i-- {
		x := &k.all[i]
		if dim(leadA, i) > 1 {
			x.a = sa
		}
		if dim(leadB, i) > 1 {
			x.b = sb
		}
		x.c = sc
		sa, sb, sc = sa*dim(leadA, i), sb*dim(leadB, i), sc*x.n
	}
	return nil
}

// fold merges neighbouring axes of the batch, and makes rows of the innermost one where B is the
// same for all of it. The remaining innermost axis is the library's batch.
func (k *matMulKernel) fold() {
	g, axes := &k.gemm, mergeBatch(k.all)
	if last := len(axes) - 1; last >= 0 && !g.TransA && axes[last].b == 0 && axes[last].a == g.M*g.K {
		g.M *= axes[last].n
		axes = axes[:last]
	}
	k.spread(axes)
}
