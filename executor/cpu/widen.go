package cpu

import (
	"slices"

	"memopt/executor"
	"memopt/executor/small"
	"memopt/graph"
	"memopt/internal/simd"
)

// isHalf reports whether elements of a type are computed in float32.
func isHalf(d graph.DType) bool { return d == graph.Float16 || d == graph.BFloat16 }

// widen converts elements of a 16-bit floating-point type, given as memory, to float32.
func widen(dst []float32, d graph.DType, src []byte) {
	switch d {
	case graph.Float16:
		simd.Float16ToFloat32(dst, executor.Cast[uint16](src))
	case graph.BFloat16:
		simd.BFloat16ToFloat32(dst, executor.Cast[uint16](src))
	}
}

// narrow rounds float32 elements to a 16-bit floating-point type.
func narrow(d graph.DType, dst []byte, src []float32) {
	switch d {
	case graph.Float16:
		simd.Float32ToFloat16(executor.Cast[uint16](dst)[:len(src)], src)
	case graph.BFloat16:
		simd.Float32ToBFloat16(executor.Cast[uint16](dst)[:len(src)], src)
	}
}

// conversion is how operands are converted for a kernel that does not take their types.
type conversion struct {
	// of returns the kernel's type for an operand's; one that is its own is not converted.
	of func(graph.DType) graph.DType
	// in and out convert elements lo..hi-1 of an operand of type d into the kernel's, and back.
	in, out func(d graph.DType, inner, data []byte, lo, hi int)
}

// widening computes with 16-bit types in float32.
var widening = conversion{
	of: func(d graph.DType) graph.DType {
		if isHalf(d) {
			return graph.Float32
		}
		return d
	},
	in: func(d graph.DType, inner, data []byte, lo, hi int) {
		widen(executor.Cast[float32](inner)[lo:hi], d, data[2*lo:2*hi])
	},
	out: func(d graph.DType, inner, data []byte, lo, hi int) {
		narrow(d, data[2*lo:2*hi], executor.Cast[float32](inner)[lo:hi])
	},
}

// unpacking expands packed elements, several to a byte, to one per byte.
var unpacking = conversion{
	of:  small.Unpacked,
	in:  func(d graph.DType, inner, data []byte, lo, hi int) { small.Unpack(d, inner[lo:hi], data, lo) },
	out: func(d graph.DType, inner, data []byte, lo, hi int) { small.Pack(d, data, lo, inner[lo:hi]) },
}

// widened lets a maker of float32 kernels serve 16-bit types too: their operands are
// converted in workspace, at 4 bytes per element, and outputs rounded once at the end.
// Kernels that can convert as they go should do so and need no such copies.
func widened(make func(*executor.Prep) (executor.Kernel, error)) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) { return widening.kernel(p, make) }
}

// kernel makes a kernel for converted operands.
func (v *conversion) kernel(p *executor.Prep,
	make func(*executor.Prep) (executor.Kernel, error),
) (executor.Kernel, error) {
	inner := *p
	inner.In, inner.Out = v.types(p.In), v.types(p.Out)
	k, err := make(&inner)
	if err != nil || slices.Equal(inner.In, p.In) && slices.Equal(inner.Out, p.Out) {
		return k, err
	}
	w := &convertedKernel{conversion: v, p: p, inner: k, innerPrep: &inner, in: innerTensors(inner.In),
		out: innerTensors(inner.Out)}
	w.args = append(w.args, w.in...)
	return w, nil
}

func (v *conversion) types(ds []graph.DType) []graph.DType {
	out := append([]graph.DType(nil), ds...)
	for i, d := range out {
		out[i] = v.of(d)
	}
	return out
}

func innerTensors(ds []graph.DType) []*executor.Tensor {
	ts := make([]*executor.Tensor, len(ds))
	for i, d := range ds {
		if d != graph.Undefined {
			ts[i] = &executor.Tensor{DType: d}
		}
	}
	return ts
}

// convertedKernel runs a kernel on converted copies.
type convertedKernel struct {
	*conversion
	p, innerPrep *executor.Prep
	inner        executor.Kernel
	in, out      []*executor.Tensor // of the inner kernel, where a conversion is needed
	args         []*executor.Tensor // the inner kernel's operands
	c            *executor.Ctx      // of the current run
	ctx          *executor.Ctx      // of the inner kernel

	dtype      graph.DType // of the operand in the current conversion
	n          int         // elements
	wide, data []byte
	toward     func(d graph.DType, inner, data []byte, lo, hi int)
}

// converts reports whether operands of a type are converted.
func (k *convertedKernel) converts(d graph.DType) bool { return k.of(d) != d }

// bytes is the size of the converted copy of n elements.
func (k *convertedKernel) bytes(d graph.DType, n int) int { return n * k.of(d).Bits() / 8 }

// Workspace counts the copies and the inner kernel's workspace.
func (k *convertedKernel) Workspace(in, out [][]int) int {
	n := 0
	for i, s := range in {
		if s != nil && k.converts(k.p.DType(i)) {
			n += executor.RoundUp(k.bytes(k.p.DType(i), product(s)))
		}
	}
	for i, s := range out {
		if s != nil && k.converts(k.p.Out[i]) {
			n += executor.RoundUp(k.bytes(k.p.Out[i], product(s)))
		}
	}
	if w, ok := k.inner.(executor.Workspacer); ok {
		n += w.Workspace(in, out)
	}
	return n
}

// Run converts the inputs, runs the inner kernel and converts its outputs back.
func (k *convertedKernel) Run(c *executor.Ctx) error {
	k.c = c
	for i := range k.args {
		x := c.In(i)
		if k.args[i] = x; x == nil || !k.converts(x.DType) {
			continue
		}
		t := k.in[i]
		t.Shape = append(t.Shape[:0], x.Shape...)
		t.Data = c.Scratch(k.bytes(x.DType, x.Len()))
		k.convert(x, t, k.conversion.in)
		k.args[i] = t
	}
	if k.ctx == nil {
		k.ctx = executor.Nested(c, k.innerPrep, (*convertedMemory)(k), k.args, k.out)
	}
	k.ctx.Step = c.Step
	if err := k.inner.Run(k.ctx); err != nil {
		return err
	}
	for i, t := range k.out {
		if t != nil && k.converts(k.p.Out[i]) {
			k.convert(c.Out(i, t.Shape...), t, k.conversion.out)
		}
	}
	return nil
}

func (k *convertedKernel) convert(operand, inner *executor.Tensor,
	toward func(d graph.DType, inner, data []byte, lo, hi int),
) {
	k.dtype, k.n, k.wide, k.data, k.toward = operand.DType, operand.Len(), inner.Data, operand.Data, toward
	k.c.Parallel((k.n+wholeBytes-1)/wholeBytes, 1<<13/wholeBytes, k)
}

// wholeBytes is a number of elements of any type that fill whole bytes, so that two threads do not
// write to one.
const wholeBytes = 8

// Range converts elements, wholeBytes at a time.
func (k *convertedKernel) Range(lo, hi int) {
	k.toward(k.dtype, k.wide, k.data, lo*wholeBytes, min(hi*wholeBytes, k.n))
}

// convertedMemory gives the inner kernel workspace for outputs that will be converted, and its
// true memory for the others.
type convertedMemory convertedKernel

// Output returns memory for an output of the inner kernel.
func (m *convertedMemory) Output(slot, n int) ([]byte, error) {
	if (*convertedKernel)(m).converts(m.p.Out[slot]) {
		return m.c.Scratch(n), nil
	}
	return m.c.Out(slot, m.out[slot].Shape...).Data, nil
}

// Scratch returns workspace.
func (m *convertedMemory) Scratch(n int) ([]byte, error) { return m.c.Scratch(n), nil }
