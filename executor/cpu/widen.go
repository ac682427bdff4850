package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/simd"
	"memopt/graph"
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

// widened lets a maker of float32 kernels serve 16-bit types too: their operands are
// converted in workspace, at 4 bytes per element, and outputs rounded once at the end.
// Kernels that can convert as they go should do so and need no such copies.
func widened(make func(*executor.Prep) (executor.Kernel, error)) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		inner := *p
		inner.In, inner.Out = wideTypes(p.In), wideTypes(p.Out)
		k, err := make(&inner)
		if err != nil || !hasHalf(p.In) && !hasHalf(p.Out) {
			return k, err
		}
		w := &widenKernel{p: p, inner: k, innerPrep: &inner, in: wideTensors(inner.In), out: wideTensors(inner.Out)}
		w.args = append(w.args, w.in...)
		return w, nil
	}
}

func hasHalf(ds []graph.DType) bool {
	for _, d := range ds {
		if isHalf(d) {
			return true
		}
	}
	return false
}

func wideTypes(ds []graph.DType) []graph.DType {
	out := append([]graph.DType(nil), ds...)
	for i, d := range out {
		if isHalf(d) {
			out[i] = graph.Float32
		}
	}
	return out
}

func wideTensors(ds []graph.DType) []*executor.Tensor {
	ts := make([]*executor.Tensor, len(ds))
	for i, d := range ds {
		if d != graph.Undefined {
			ts[i] = &executor.Tensor{DType: d}
		}
	}
	return ts
}

// widenKernel runs a float32 kernel on converted copies.
type widenKernel struct {
	p, innerPrep *executor.Prep
	inner        executor.Kernel
	in, out      []*executor.Tensor // of the inner kernel, where a conversion is needed
	args         []*executor.Tensor // what the inner kernel reads
	c            *executor.Ctx      // of the current run
	ctx          *executor.Ctx      // of the inner kernel

	half graph.DType // current conversion
	wide []float32
	data []byte
}

// Workspace counts the copies and what the inner kernel takes.
func (k *widenKernel) Workspace(in, out [][]int) int {
	n := 0
	for i, s := range in {
		if s != nil && isHalf(k.p.DType(i)) {
			n += executor.RoundUp(4 * product(s))
		}
	}
	for i, s := range out {
		if s != nil && isHalf(k.p.Out[i]) {
			n += executor.RoundUp(4 * product(s))
		}
	}
	if w, ok := k.inner.(executor.Workspacer); ok {
		n += w.Workspace(in, out)
	}
	return n
}

// Run converts the inputs, runs the inner kernel and rounds its outputs.
func (k *widenKernel) Run(c *executor.Ctx) error {
	k.c = c
	for i := range k.args {
		x := c.In(i)
		if k.args[i] = x; x == nil || !isHalf(x.DType) {
			continue
		}
		t := k.in[i]
		t.Shape = append(t.Shape[:0], x.Shape...)
		t.Data = c.Scratch(4 * x.Len())
		k.convert(x.DType, executor.Of[float32](t), x.Data, (*widenInput)(k))
		k.args[i] = t
	}
	if k.ctx == nil {
		k.ctx = executor.Nested(c, k.innerPrep, (*widenMemory)(k), k.args, k.out)
	}
	k.ctx.Step = c.Step
	if err := k.inner.Run(k.ctx); err != nil {
		return err
	}
	for i, t := range k.out {
		if t == nil || !isHalf(k.p.Out[i]) {
			continue
		}
		y := c.Out(i, t.Shape...)
		k.convert(y.DType, executor.Of[float32](t), y.Data, (*widenOutput)(k))
	}
	return nil
}

func (k *widenKernel) convert(d graph.DType, wide []float32, data []byte, t executor.Task) {
	k.half, k.wide, k.data = d, wide, data
	k.c.Parallel(len(wide), 1<<13, t)
}

type widenInput widenKernel

// Range converts elements to float32.
func (k *widenInput) Range(lo, hi int) { widen(k.wide[lo:hi], k.half, k.data[2*lo:2*hi]) }

type widenOutput widenKernel

// Range rounds elements to 16 bits.
func (k *widenOutput) Range(lo, hi int) { narrow(k.half, k.data[2*lo:2*hi], k.wide[lo:hi]) }

// widenMemory gives the inner kernel workspace for outputs that will be rounded, and its
// true memory for the others.
type widenMemory widenKernel

// Output returns memory for an output of the inner kernel.
func (m *widenMemory) Output(slot, n int) ([]byte, error) {
	if isHalf(m.p.Out[slot]) {
		return m.c.Scratch(n), nil
	}
	return m.c.Out(slot, m.out[slot].Shape...).Data, nil
}

// Scratch returns workspace.
func (m *widenMemory) Scratch(n int) ([]byte, error) { return m.c.Scratch(n), nil }
