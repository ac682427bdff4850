package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// padAxis is an axis of a Pad: its length in the result, the pad before it, which places of the
// input are kept, from first on, and how far apart they are.
type padAxis struct{ n, before, kept, first, from int }

// padder adds elements before and after each axis, or takes some away where the number is negative.
type padder struct {
	*launch
	operand.Padding
	size  int
	value uint64    // the attribute
	axes  []padAxis // the outermost first
}

// newPad makes the kernel of Pad. The value is read on the host.
func newPad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size := operand.ElementBytes(p.DType(0))
	if size == 0 {
		return nil, noTypes(p)
	}
	k := &padder{size: size}
	var err error
	if k.Padding, err = operand.NewPadding(p); err != nil {
		return nil, err
	}
	if k.Attrs {
		k.value, _ = bitsOf(p.DType(0), float64(p.Node.Float("value", 0)))
	}
	name := "pad_"
	if k.Mode != operand.PadConstant {
		name = "border_"
	}
	k.launch, err = d.launch("movefill", name+sizeName(size))
	return k, err
}

// Run fills the output.
func (k *padder) Run(c *executor.Ctx) error {
	x := c.In(0)
	given, err := k.Read(c)
	if err != nil {
		return err
	}
	value := k.value
	if given != nil {
		value = elementBits(given)
	}
	y := c.Out(0, k.Shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	k.merge(x)
	if err := k.fits(c); err != nil {
		return err
	}
	k.pack(x, y, value)
	return k.line(y.Len(), 1)
}

// merge sets axes; neighbours that are neither padded nor cut are merged.
func (k *padder) merge(x *executor.Tensor) {
	k.axes = k.axes[:0]
	from := x.Len()
	for i, d := range x.Shape {
		from /= max(d, 1)
		a, b := k.Before[i], k.After[i]
		last := len(k.axes) - 1
		if a == 0 && b == 0 && last >= 0 && k.axes[last].n == k.axes[last].kept && k.axes[last].before == 0 &&
			k.axes[last].first == 0 &&
			k.axes[last].from == d*from {
			k.axes[last].n *= d
			k.axes[last].kept *= d
			k.axes[last].from = from
			continue
		}
		first := max(-a, 0)
		k.axes = append(k.axes, padAxis{k.Shape[i], max(a, 0), d - first - max(-b, 0), first, from})
	}
}

// fits rejects operands that the kernel cannot handle.
func (k *padder) fits(c *executor.Ctx) error {
	if len(k.axes) > moveDims {
		return c.Errorf("pads of %d axes that lie apart in memory; the CUDA kernels have no more than %d",
			len(k.axes), moveDims)
	}
	for _, x := range k.axes {
		if x.n >= 1<<30 || x.kept >= 1<<30 {
			return c.Errorf("has an axis of length %d; the CUDA kernel of Pad takes lengths below 2^30",
				max(x.n, x.kept))
		}
	}
	return nil
}

func (k *padder) pack(x, y *executor.Tensor, value uint64) {
	at, n := 0, len(k.axes)
	for _, p := range k.axes {
		at += p.first * p.from
	}
	a := k.begin().In(x.Data).Out(y.Data).Int(y.Len()).Int(at).Uint64(value)
	a.Int32(int32(k.Mode)) // counted alike in kernels/movefill.cu
	packAxes(a, n, func(i int) int { return k.axes[n-1-i].n })
	packInts(a, n, func(i int) int { return k.axes[n-1-i].before })
	packInts(a, n, func(i int) int { return k.axes[n-1-i].kept })
	packInts(a, n, func(i int) int { return k.axes[n-1-i].from })
}
