package cpu

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// newVariadic makes the kernels of Max, Mean, Min and Sum: operands folded from the first to the
// last, element by element. 16-bit floating-point numbers are folded in float32 and rounded once.
// https://onnx.ai/onnx/operators/onnx__Sum.html and so on.
func newVariadic(p *executor.Prep) (executor.Kernel, error) {
	if len(p.In) == 0 {
		return nil, p.Errorf("has no inputs, wanted one or more")
	}
	if err := elemSameTypes(p); err != nil {
		return nil, err
	}
	kind := p.Node.Kind
	if kind == op.Mean {
		kind = op.Sum
	}
	as := elemWide(p.DType(0))
	fold := foldLoop(kind, as)
	k, err := elemNode(p, fold, as, as)
	if err != nil || len(k.in) == 2 && p.Node.Kind != op.Mean {
		return k, err
	}
	f := &foldKernel{elemKernel: *k}
	if p.Node.Kind == op.Mean {
		f.last = meanLoop(as, len(p.In))
	}
	return f, nil
}

func foldLoop(kind graph.Kind, d graph.DType) elemLoop {
	switch d {
	case graph.Float32:
		return float32Loop(kind)
	case graph.Float64:
		return numberLoop2[float64](kind)
	case graph.Int8:
		return numberLoop2[int8](kind)
	case graph.Int16:
		return numberLoop2[int16](kind)
	case graph.Int32:
		return numberLoop2[int32](kind)
	case graph.Int64:
		return numberLoop2[int64](kind)
	case graph.Uint8:
		return numberLoop2[uint8](kind)
	case graph.Uint16:
		return numberLoop2[uint16](kind)
	case graph.Uint32:
		return numberLoop2[uint32](kind)
	case graph.Uint64:
		return numberLoop2[uint64](kind)
	}
	return nil
}

// meanLoop divides sums by the number of operands.
func meanLoop(d graph.DType, n int) elemLoop {
	switch d {
	case graph.Float32:
		return divideBy(float32(n))
	case graph.Float64:
		return divideBy(float64(n))
	case graph.Int8:
		return meanOf[int8](n)
	case graph.Int16:
		return meanOf[int16](n)
	case graph.Int32:
		return meanOf[int32](n)
	case graph.Int64:
		return meanOf[int64](n)
	case graph.Uint8:
		return meanOf[uint8](n)
	case graph.Uint16:
		return meanOf[uint16](n)
	case graph.Uint32:
		return meanOf[uint32](n)
	}
	return meanOf[uint64](n)
}

func divideBy[T elemFloat](n T) elemLoop {
	return loop1(func(dst, a []T) {
		a = a[:len(dst)]
		for i, v := range a {
			dst[i] = v / n
		}
	})
}

// meanOf divides integers, whose sums may have wrapped around. The divisor may be larger than the
// type's numbers: it is applied in 64 bits.
func meanOf[T elemInteger](n int) elemLoop {
	return loop1(func(dst, a []T) {
		a = a[:len(dst)]
		for i, v := range a {
			if v < 0 {
				dst[i] = T(int64(v) / int64(n))
			} else {
				dst[i] = T(uint64(v) / uint64(n))
			}
		}
	})
}

// foldKernel folds any number of operands.
type foldKernel struct {
	elemKernel
	last elemLoop // applied to the result; nil for no function
}

// Run computes the output.
func (k *foldKernel) Run(c *executor.Ctx) error { return k.run(c, k) }

// Range folds block by block. The output, which may lie in an operand's memory, is written when all
// operands of the block have been read.
func (k *foldKernel) Range(lo, hi int) {
	m := takeBuffers()
	size, wide := k.out.size, k.out.wide
	for lo < hi {
		n := k.step(lo, hi)
		sum := m.b[0].bytes(n * wide)
		copy(sum, k.fetch(0, lo, n, &m.b[1], &m.b[2]))
		for i := range k.in[1:] {
			k.loop(sum, sum, k.fetch(i+1, lo, n, &m.b[1], &m.b[2]), nil)
		}
		if k.last != nil {
			k.last(sum, sum, nil, nil)
		}
		dst := k.out.data[lo*size : (lo+n)*size]
		if k.out.store != nil {
			k.out.store(dst, sum)
		} else {
			copy(dst, sum)
		}
		lo += n
	}
	m.giveBack()
}
