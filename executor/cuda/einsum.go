package cuda

import (
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/einsum"
	"memopt/executor/operand"
)

// einsumKernel runs the steps of a plan: products by the library, or by kernels/einsum.cu where
// they are small or of integers; copies as boxes; sums by kernels/einsum.cu. Intermediate results
// have the operands' type.
type einsumKernel struct {
	d                    *Device
	size                 int
	plan, space          *einsum.Plan // space is Workspace's
	products             *product     // nil for integers
	small, sum, teams    *launch
	copies, kept, summed boxCopy
	axes                 []batchAxis
	shapes               [][]int
	buffers              [][]byte // inputs, output, workspace
}

// newEinsum makes the kernel of Einsum.
func newEinsum(d *Device, p *executor.Prep) (executor.Kernel, error) {
	eq, err := cpu.EinsumEquation(p)
	if err != nil {
		return nil, err
	}
	t := p.DType(0)
	k := &einsumKernel{d: d, size: operand.ElementBytes(t), plan: einsum.New(eq), space: einsum.New(eq)}
	name := floatSuffix(t)
	if name != "" {
		if k.products, err = d.productOf(p, t); err != nil {
			return nil, err
		}
	} else if name = sizeName(k.size); !t.IsInteger() {
		return nil, noTypes(p)
	}
	if k.copies, err = newBoxCopy(d, p, k.size); err != nil {
		return nil, err
	}
	for _, l := range []struct {
		to   **launch
		name string
	}{{&k.small, "einsumproduct_"}, {&k.sum, "einsumsum_"}, {&k.teams, "einsumteam_"}} {
		if *l.to, err = d.launch("einsum", l.name+name); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Workspace holds intermediate results, and the library's loan.
func (k *einsumKernel) Workspace(in, _ [][]int) int {
	if !k.space.Fits(in) && k.space.Build(in) != nil {
		return 0
	}
	n := 0
	for _, size := range k.space.Scratch {
		n += executor.RoundUp(k.size * size)
	}
	if k.products != nil {
		n += k.d.libraryWorkspace()
	}
	return n
}

// Run computes the result.
func (k *einsumKernel) Run(c *executor.Ctx) error {
	k.shapes, k.buffers = k.shapes[:0], k.buffers[:0]
	for i := range c.Inputs() {
		k.shapes = append(k.shapes, c.In(i).Shape)
		k.buffers = append(k.buffers, c.In(i).Data)
	}
	if !k.plan.Fits(k.shapes) {
		if err := k.plan.Build(k.shapes); err != nil {
			return err
		}
	}
	y := c.Out(0, k.plan.Shape...)
	if y == nil {
		return nil
	}
	k.buffers = append(k.buffers, y.Data)
	for _, n := range k.plan.Scratch {
		k.buffers = append(k.buffers, c.Scratch(k.size*n))
	}
	if k.products != nil {
		k.products.gemm.Workspace = c.Scratch(k.d.libraryWorkspace())
	}
	for i := range k.plan.Steps {
		if err := k.step(c, &k.plan.Steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// Below einsumSmall, the size of a product of matrices, a call of the library does not pay, as in
// executor/cpu.
const einsumSmall = 64

func (k *einsumKernel) step(c *executor.Ctx, s *einsum.Step) error {
	switch {
	case s.Product && s.K == 0 || !s.Product && s.Terms == 0:
		return k.d.Memory().Fill(k.buffers[s.C.Buffer], 0)
	case !s.Product && s.Terms == 1:
		return k.copy(c, s)
	case !s.Product:
		return k.fold(c, s)
	case k.products == nil || s.M*s.N*s.K < einsumSmall:
		return k.multiply(c, s)
	}
	k.batch(s)
	k.products.spread(longestLast(k.axes))
	g := &k.products.gemm
	g.M, g.N, g.K, g.TransA, g.TransB = s.M, s.N, s.K, s.A.Trans, s.B.Trans
	g.LDA, g.LDB, g.LDC = s.A.LD, s.B.LD, s.C.LD
	return k.products.run(k.buffers[s.A.Buffer], k.buffers[s.B.Buffer], k.buffers[s.C.Buffer])
}

// batch lists the axes of a product's batch.
func (k *einsumKernel) batch(s *einsum.Step) {
	k.axes = k.axes[:0]
	for _, x := range s.Batch {
		k.axes = append(k.axes, batchAxis{x.N, x.A, x.B, x.C})
	}
	k.axes = mergeBatch(k.axes)
}

// longestLast swaps the longest axis and the last one, so that the library's batch is as large as
// possible.
func longestLast(axes []batchAxis) []batchAxis {
	last := len(axes) - 1
	for i := range axes {
		if axes[i].n > axes[last].n {
			axes[i], axes[last] = axes[last], axes[i]
		}
	}
	return axes
}

// copy runs a gather of single elements.
func (k *einsumKernel) copy(c *executor.Ctx, s *einsum.Step) error {
	k.copies.Begin()
	addKept(&k.copies, s)
	return k.copies.Copy(c, k.buffers[s.C.Buffer], 0, k.buffers[s.A.Buffer], 0)
}

// addKept lists the axes of a gather's result.
func addKept(b *boxCopy, s *einsum.Step) {
	to := elements(s.Dims)
	for i, n := range s.Dims {
		to /= n
		b.Add(n, to, s.Strides[i])
	}
}

// From einsumTerms terms on, several threads add up a result.
const einsumTerms = 256

// fold runs a gather that sums.
func (k *einsumKernel) fold(c *executor.Ctx, s *einsum.Step) error {
	k.kept.Begin()
	k.summed.Begin()
	addKept(&k.kept, s)
	for i, n := range s.SumDims {
		k.summed.Add(n, 0, s.SumStrides[i])
	}
	for _, axes := range [2][]boxAxis{k.kept.axes, k.summed.axes} {
		if err := fits(c, axes); err != nil {
			return err
		}
	}
	n, l := elements(s.Dims), k.teams
	last := len(k.kept.axes) - 1
	apart := last >= 0 && k.kept.axes[last].from == 1 // neighbouring results are of neighbouring elements
	if s.Terms < 4 || apart && s.Terms < einsumTerms {
		l = k.sum
	}
	a := l.begin().In(k.buffers[s.A.Buffer]).Out(k.buffers[s.C.Buffer]).Int(n).Int(s.Terms)
	for _, axes := range [2][]boxAxis{k.kept.axes, k.summed.axes} {
		packSteps(a, axes)
	}
	if l == k.sum {
		return l.line(n, 1)
	}
	return l.folding(n, s.Terms)
}

// multiply runs a product with a thread for each element of the result.
func (k *einsumKernel) multiply(c *executor.Ctx, s *einsum.Step) error {
	k.batch(s)
	aRow, aCol := s.A.Steps()
	bRow, bCol := s.B.Steps()
	k.axes = mergeBatch(append(k.axes, batchAxis{s.M, aRow, 0, s.C.LD}, batchAxis{s.N, 0, bCol, 1}))
	n, m := 1, len(k.axes)
	if m > moveDims {
		return c.Errorf("a product of %d axes that lie apart in memory; the CUDA kernels have no more than %d",
			m, moveDims)
	}
	for _, x := range k.axes {
		if n *= x.n; x.n >= 1<<31 {
			return c.Errorf("has an axis of length %d; the CUDA kernels take lengths below 2^31", x.n)
		}
	}
	a := k.small.begin().In(k.buffers[s.A.Buffer]).In(k.buffers[s.B.Buffer]).Out(k.buffers[s.C.Buffer]).
		Int(n).Int(s.K).Int(aCol).Int(bRow)
	packAxes(a, m, func(i int) int { return k.axes[m-1-i].n })
	packInts(a, m, func(i int) int { return k.axes[m-1-i].a })
	packInts(a, m, func(i int) int { return k.axes[m-1-i].b })
	packInts(a, m, func(i int) int { return k.axes[m-1-i].c })
	return k.small.line(n, 1)
}
