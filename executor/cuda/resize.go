package cuda

import (
	"math"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph/op"
)

// resizeKernel is Resize, Upsample and ResizeGrad: each element of the output is a sum of weighted
// elements of the input, by tables that the host makes of each resized axis.
type resizeKernel struct {
	*launch
	geometry *cpu.ResizeGeometry
	back     bool // ResizeGrad: the same sums transposed
	fill     uint64
	dims     []resizedDim // innermost first
	table    []int32      // of all axes; weights as bits
	counts   []int32
}

// resizedDim is a dim of the output, as kernels/resize.h has it.
type resizedDim struct {
	n, stride            int
	same                 bool
	start, index, weight int
}

// newResize makes the kernels of Resize, Upsample and ResizeGrad.
func newResize(d *Device, p *executor.Prep) (executor.Kernel, error) {
	g, err := cpu.NewResizeGeometry(p)
	if err != nil {
		return nil, err
	}
	k := &resizeKernel{geometry: g, back: p.Node.Kind == op.ResizeGrad}
	t := p.DType(0)
	module, name := "resize_"+suffix(t), "filter_"+suffix(t)
	switch {
	case g.Nearest() && !k.back:
		switch t.Bits() {
		case 8, 16, 32, 64:
			module, name = "resize", "nearest_"+string(rune('0'+t.Bits()/8))
		default:
			return nil, noTypes(p)
		}
		k.fill = g.Fill(t)
	case g.Antialias():
		return nil, p.Unsupported("no CUDA kernel has filters that widen (antialias)")
	case !isFloat(t) || k.back && p.DType(1) != t:
		return nil, noTypes(p)
	case !k.back:
		k.fill = uint64(math.Float32bits(g.Extrapolation()))
	}
	k.launch, err = d.launch(module, name)
	return k, err
}

// resizeTaps is the most taps of an axis without antialias: those of cubic filters.
const resizeTaps = 4

// resizedDims is RESIZED_DIMS of kernels/resize.h.
const resizedDims = 6

// Workspace returns the largest size of the tables.
func (k *resizeKernel) Workspace(in, out [][]int) int {
	var small, large []int
	switch {
	case k.back:
		small, large = in[1], in[0]
	case len(out) == 0 || out[0] == nil:
		return 0
	default:
		small, large = out[0], out[0]
	}
	n := 0
	for _, d := range small {
		n += d + 1
	}
	for _, d := range large {
		n += 2 * resizeTaps * d
	}
	return executor.RoundUp(4 * n)
}

// Run makes the tables and computes.
func (k *resizeKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	shape, err := []int(nil), error(nil)
	if k.back {
		if to := c.In(1); x.Rank() != to.Rank() {
			return c.Errorf("input 0 (dY) has rank %d, input 1 (X) %d", x.Rank(), to.Rank())
		}
		shape = c.In(1).Shape
		_, err = k.geometry.Plan(c, shape, x.Shape)
	} else {
		shape, err = k.geometry.Plan(c, x.Shape, nil)
	}
	if err != nil {
		return err
	}
	y := c.Out(0, shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	if x.Len() == 0 {
		return k.d.Memory().Fill(y.Data, 0)
	}
	k.tables(shape, x.Shape)
	if len(k.dims) > resizedDims {
		return c.Errorf("shape %v needs %d dims; the CUDA kernels have %d", x.Shape, len(k.dims), resizedDims)
	}
	var table []byte
	if len(k.table) > 0 {
		table = c.Scratch(4 * len(k.table))
		if err := k.d.Memory().CopyIn(table, executor.Memory(k.table)); err != nil {
			return err
		}
	}
	a := k.begin().In(x.Data).In(table).Out(y.Data).Int(y.Len()).Uint64(k.fill).Int32(int32(len(k.dims)))
	for i := range resizedDims {
		d := resizedDim{n: 1, same: true}
		if i < len(k.dims) {
			d = k.dims[i]
		}
		a.Int(d.stride).Divider(d.n)
		same := int32(0)
		if d.same {
			same = 1
		}
		for _, v := range [...]int32{same, int32(d.start), int32(d.index), int32(d.weight)} {
			a.Int32(v)
		}
	}
	return k.line(y.Len(), 1)
}

// tables lists the dims of the output, where neighbours that are not resized are one, and the
// tables of the others.
func (k *resizeKernel) tables(to, from []int) {
	k.dims, k.table = k.dims[:0], k.table[:0]
	stride := 1
	for i := len(to) - 1; i >= 0; i-- {
		axis := k.geometry.Axis(i)
		if last := len(k.dims) - 1; axis.Same && last >= 0 && k.dims[last].same {
			k.dims[last].n *= to[i]
		} else {
			d := resizedDim{n: to[i], stride: stride, same: axis.Same}
			if !axis.Same {
				k.resized(&d, &axis)
			}
			k.dims = append(k.dims, d)
		}
		stride *= from[i]
	}
}

// resized appends the tables of an axis: starts, indices and weights.
func (k *resizeKernel) resized(d *resizedDim, axis *cpu.ResizeAxis) {
	d.start = len(k.table)
	if k.back {
		k.transposed(d, axis)
		return
	}
	entries := int32(0)
	for o := range axis.Out {
		k.table = append(k.table, entries)
		if !axis.Outside[o] {
			entries += int32(axis.Taps)
		}
	}
	k.table = append(k.table, entries)
	d.index = len(k.table)
	for o := range axis.Out {
		for t := range axis.Taps {
			if !axis.Outside[o] {
				k.table = append(k.table, int32(axis.Index[o*axis.Taps+t]))
			}
		}
	}
	d.weight = len(k.table)
	if len(axis.Weight) == 0 {
		return
	}
	for o := range axis.Out {
		for t := range axis.Taps {
			if !axis.Outside[o] {
				k.table = append(k.table, int32(math.Float32bits(float32(axis.Weight[o*axis.Taps+t]))))
			}
		}
	}
}

// transposed appends the tables of an axis the other way round: for each element of the input,
// those of the output that it is a part of, in their order.
func (k *resizeKernel) transposed(d *resizedDim, axis *cpu.ResizeAxis) {
	k.counts = append(k.counts[:0], make([]int32, axis.In+1)...)
	for o := range axis.Out {
		for _, i := range axis.Index[o*axis.Taps:][:axis.Taps] {
			if !axis.Outside[o] {
				k.counts[i+1]++
			}
		}
	}
	for i := range axis.In {
		k.counts[i+1] += k.counts[i]
	}
	k.table = append(k.table, k.counts...)
	entries := int(k.counts[axis.In])
	d.index, d.weight = len(k.table), len(k.table)+entries
	for range 2 * entries {
		k.table = append(k.table, 0)
	}
	for o := range axis.Out {
		for t, i := range axis.Index[o*axis.Taps:][:axis.Taps] {
			if axis.Outside[o] {
				continue
			}
			w := float32(1)
			if len(axis.Weight) > 0 {
				w = float32(axis.Weight[o*axis.Taps+t])
			}
			at := int(k.counts[i])
			k.counts[i]++
			k.table[d.index+at], k.table[d.weight+at] = int32(o), int32(math.Float32bits(w))
		}
	}
}
