package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/executor/einsum"
	"memopt/graph"
)

// EinsumEquation reads and checks the equation of a node of Einsum.
func EinsumEquation(p *executor.Prep) (eq einsum.Equation, err error) {
	text := p.Node.Str("equation", "")
	if eq, err = einsum.Parse(text); err != nil {
		return eq, p.Errorf("equation %q: %w", text, err)
	}
	if len(eq.Terms) != len(p.In) {
		return eq, p.Errorf("equation %q has %d operands and the node %d inputs", text, len(eq.Terms), len(p.In))
	}
	for i := range p.In {
		if p.DType(i) != p.DType(0) {
			return eq, p.Errorf("input %d has type %v, wanted %v as input 0", i, p.DType(i), p.DType(0))
		}
	}
	return eq, nil
}

// newEinsum makes the kernel of https://onnx.ai/onnx/operators/onnx__Einsum.html
func newEinsum(p *executor.Prep) (executor.Kernel, error) {
	eq, err := EinsumEquation(p)
	if err != nil {
		return nil, err
	}
	switch p.DType(0) {
	case graph.Float32:
		k := makeEinsum[float32, float64](eq)
		k.multiply = newEinsumGemm(&k.buffers)
		return k, nil
	case graph.Float64:
		k := makeEinsum[float64, float64](eq)
		k.multiply = newEinsumGemm(&k.buffers)
		return k, nil
	case graph.Int8, graph.Uint8: // sums wrap around: the sign does not matter
		return makeEinsum[uint8, uint8](eq), nil
	case graph.Int16, graph.Uint16:
		return makeEinsum[uint16, uint16](eq), nil
	case graph.Int32, graph.Uint32:
		return makeEinsum[uint32, uint32](eq), nil
	case graph.Int64, graph.Uint64:
		return makeEinsum[uint64, uint64](eq), nil
	}
	return nil, unsupportedTypes(p)
}

// einsumElem lists the types of einsum's computation.
type einsumElem interface {
	float32 | float64 | uint8 | uint16 | uint32 | uint64
}

// einsumKernel runs the steps of a plan; S holds sums of T.
type einsumKernel[T, S einsumElem] struct {
	plan, space *einsum.Plan // space is Workspace's
	work        []einsumWork // of each step
	shapes      [][]int
	buffers     [][]T // inputs, output, workspace
	step        *einsum.Step
	at          *einsumWork // of step
	// multiply computes products by BLAS; nil for integers.
	multiply func(c *executor.Ctx, s *einsum.Step, w *einsumWork)
}

func makeEinsum[T, S einsumElem](eq einsum.Equation) *einsumKernel[T, S] {
	return &einsumKernel[T, S]{plan: einsum.New(eq), space: einsum.New(eq)}
}

// einsumWork is how a step is run.
type einsumWork struct {
	// The places of a product's matrices. Plain ones, which are too small for BLAS, are side
	// matrices at each place, sideStep apart in A, B and C.
	places   []blas.Place
	plain    bool
	side     int
	sideStep blas.Place
	// The result of a gather is rows of inner elements.
	rows, inner int
}

// einsumPlaces finds how a step is run; toBLAS says whether products may go to BLAS.
func einsumPlaces(s *einsum.Step, toBLAS bool) einsumWork {
	if !s.Product {
		last := len(s.Dims) - 1
		return einsumWork{rows: product(s.Dims[:last]), inner: s.Dims[last]}
	}
	w := einsumWork{places: []blas.Place{{}}, side: 1, plain: !toBLAS || s.M*s.N*s.K < 64}
	batch := s.Batch
	if last := len(batch) - 1; w.plain && last >= 0 {
		x := batch[last]
		w.side, w.sideStep, batch = x.N, blas.Place{A: x.A, B: x.B, C: x.C}, batch[:last]
	}
	for _, x := range batch {
		all := make([]blas.Place, 0, x.N*len(w.places))
		for _, at := range w.places {
			for i := range x.N {
				all = append(all, blas.Place{A: at.A + i*x.A, B: at.B + i*x.B, C: at.C + i*x.C})
			}
		}
		w.places = all
	}
	return w
}

// newEinsumGemm returns a function that computes a product step on buffers.
func newEinsumGemm[T blas.Float](buffers *[][]T) func(c *executor.Ctx, s *einsum.Step, w *einsumWork) {
	blas.Warm()
	g := new(blas.Gemm[T])
	return func(c *executor.Ctx, s *einsum.Step, w *einsumWork) {
		b := *buffers
		g.M, g.N, g.K, g.Alpha, g.Batch = s.M, s.N, s.K, 1, w.places
		g.A, g.TransA, g.LDA = b[s.A.Buffer], s.A.Trans, s.A.LD
		g.B, g.TransB, g.LDB = b[s.B.Buffer], s.B.Trans, s.B.LD
		g.C, g.LDC = b[s.C.Buffer], s.C.LD
		runGemm(c, g)
	}
}

// Workspace holds the operands of products in the order of their multiplication, and intermediate
// results.
func (k *einsumKernel[T, S]) Workspace(in, _ [][]int) int {
	if !k.space.Fits(in) && k.space.Build(in) != nil {
		return 0
	}
	var e [1]T
	n := 0
	for _, size := range k.space.Scratch {
		n += executor.RoundUp(size * len(executor.Memory(e[:])))
	}
	return n
}

// Run computes the result.
func (k *einsumKernel[T, S]) Run(c *executor.Ctx) error {
	k.shapes, k.buffers = k.shapes[:0], k.buffers[:0]
	for i := range c.Inputs() {
		k.shapes = append(k.shapes, c.In(i).Shape)
		k.buffers = append(k.buffers, executor.Of[T](c.In(i)))
	}
	if !k.plan.Fits(k.shapes) {
		if err := k.plan.Build(k.shapes); err != nil {
			return err
		}
		k.work = k.work[:0]
		for i := range k.plan.Steps {
			k.work = append(k.work, einsumPlaces(&k.plan.Steps[i], k.multiply != nil))
		}
	}
	k.buffers = append(k.buffers, executor.Of[T](c.Out(0, k.plan.Shape...)))
	for _, n := range k.plan.Scratch {
		k.buffers = append(k.buffers, executor.ScratchOf[T](c, n))
	}
	for i := range k.plan.Steps {
		s, w := &k.plan.Steps[i], &k.work[i]
		k.step, k.at = s, w
		switch {
		case !s.Product:
			c.Parallel(w.rows, 1+1<<13/max(1, w.inner*s.Terms), (*einsumGather[T, S])(k))
		case w.plain:
			c.Parallel(len(w.places)*s.M, 1+1<<13/max(1, s.N*s.K*w.side), (*einsumProduct[T, S])(k))
		default:
			k.multiply(c, s, w)
		}
	}
	return nil
}

type einsumGather[T, S einsumElem] einsumKernel[T, S]

// Range copies or sums rows of a gather step.
func (k *einsumGather[T, S]) Range(lo, hi int) {
	s := k.step
	src, dst := k.buffers[s.A.Buffer], k.buffers[s.C.Buffer]
	for r := lo; r < hi; r++ {
		at := einsumOffset(r, s.Dims[:len(s.Dims)-1], s.Strides)
		row := dst[r*k.at.inner:][:k.at.inner]
		stride := s.Strides[len(s.Dims)-1]
		if s.Terms == 1 {
			if stride == 1 {
				copy(row, src[at:])
				continue
			}
			for j := range row {
				row[j] = src[at+j*stride]
			}
			continue
		}
		for j := range row {
			row[j] = T(k.sum(src, at+j*stride))
		}
	}
}

// sum adds up the elements that a gather step takes for one element of its result.
func (k *einsumGather[T, S]) sum(src []T, at int) S {
	s := k.step
	last := len(s.SumDims) - 1
	n, stride := s.SumDims[last], s.SumStrides[last]
	var sum S
	for o := range s.Terms / max(n, 1) {
		from := at + einsumOffset(o, s.SumDims[:last], s.SumStrides)
		for i := range n {
			sum += S(src[from+i*stride])
		}
	}
	return sum
}

// einsumOffset returns where element i lies, counted over dims in row-major order.
func einsumOffset(i int, dims, strides []int) int {
	at := 0
	for a := len(dims) - 1; a >= 0; a-- {
		at += i % dims[a] * strides[a]
		i /= dims[a]
	}
	return at
}

type einsumProduct[T, S einsumElem] einsumKernel[T, S]

// Range computes rows of a product step, counted over all products.
func (k *einsumProduct[T, S]) Range(lo, hi int) {
	s := k.step
	a, b, c := k.buffers[s.A.Buffer], k.buffers[s.B.Buffer], k.buffers[s.C.Buffer]
	aRow, aCol := s.A.Steps()
	bRow, bCol := s.B.Steps()
	for r := lo; r < hi; r++ {
		at, i := k.at.places[r/s.M], r%s.M
		for j := range s.N {
			x, y, z := at.A+i*aRow, at.B+j*bCol, at.C+i*s.C.LD+j
			for range k.at.side {
				var sum S
				for l := range s.K {
					sum += S(a[x+l*aCol]) * S(b[y+l*bRow])
				}
				c[z] = T(sum)
				x, y, z = x+k.at.sideStep.A, y+k.at.sideStep.B, z+k.at.sideStep.C
			}
		}
	}
}
