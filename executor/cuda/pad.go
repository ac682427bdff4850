package cuda

import (
	enc "encoding/binary"

	"memopt/executor"
)

// padModes are the values of pad_args.mode by the attribute.
var padModes = map[string]int32{"constant": 0, "reflect": 1, "edge": 2, "wrap": 3}

// padAxis is an axis of a Pad: its length in the result, the pad before it, which places of the input are kept, from first
// on, and how far apart they are.
type padAxis struct{ n, before, kept, first, from int }

// padder adds elements before and after each axis, or takes some away where the number is negative.
type padder struct {
	*launch
	size  int
	mode  int32
	attrs bool // pads and value are attributes
	value uint64

	pads, named   []int
	before, after []int
	shape         []int
	axes          []padAxis // the outermost first
}

// newPad makes the kernel of Pad. The value is read on the host.
func newPad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size := elementBytes(p.DType(0))
	if size == 0 {
		return nil, noTypes(p)
	}
	k := &padder{size: size, attrs: p.Version < 11, mode: padModes[p.Node.Str("mode", "constant")]}
	if k.attrs {
		k.value, _ = bitsOf(p.DType(0), float64(p.Node.Float("value", 0)))
	}
	var err error
	name := "pad_"
	if k.mode != 0 {
		name = "border_"
	}
	k.launch, err = d.launch("movefill", name+sizeName(size))
	return k, err
}

// Run fills the output.
func (k *padder) Run(c *executor.Ctx) error {
	x := c.In(0)
	value, err := k.read(c, x.Rank())
	if err != nil {
		return err
	}
	if err := k.sizes(c, x); err != nil {
		return err
	}
	y := c.Out(0, k.shape...)
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

// read reads the pads, as before and after per axis, and the value outside.
func (k *padder) read(c *executor.Ctx, rank int) (value uint64, err error) {
	value, k.named, k.pads = k.value, k.named[:0], k.pads[:0]
	for i := range rank {
		k.named = append(k.named, i)
	}
	if k.attrs {
		k.pads = attrInts(k.pads, c.Prep().Node.IntList("pads", nil))
	} else {
		if k.pads, err = hostInts(c, 1, k.pads); err != nil {
			return 0, err
		}
		if v := c.In(2); v != nil && v.Len() == 1 {
			var e [8]byte
			copy(e[:], v.Data[:k.size])
			value = enc.LittleEndian.Uint64(e[:])
		} else if v != nil && v.Len() != 0 {
			return 0, c.Errorf("input 2 is %v, wanted one element", v)
		}
		if c.In(3) != nil {
			if k.named, err = hostInts(c, 3, k.named[:0]); err != nil {
				return 0, err
			}
		}
	}
	if err := frontAxes(c, k.named, rank); err != nil {
		return 0, err
	}
	if len(k.pads) != 2*len(k.named) {
		return 0, c.Errorf("has %d pads for %d axes, wanted two per axis", len(k.pads), len(k.named))
	}
	k.before, k.after = k.before[:0], k.after[:0]
	for range rank {
		k.before, k.after = append(k.before, 0), append(k.after, 0)
	}
	for i, axis := range k.named {
		k.before[axis], k.after[axis] = k.pads[i], k.pads[i+len(k.named)]
	}
	return value, nil
}

// sizes sets the shape of the result.
func (k *padder) sizes(c *executor.Ctx, x *executor.Tensor) error {
	const most = 1 << 48 // more than any memory, and sums stay in int
	k.shape = k.shape[:0]
	for i, d := range x.Shape {
		a, b := k.before[i], k.after[i]
		if a < -most || b < -most || a > most || b > most {
			return c.Errorf("axis %d has the pads %d and %d", i, a, b)
		}
		kept := d + min(a, 0) + min(b, 0)
		if kept < 0 || kept == 0 && k.mode != 0 && (a > 0 || b > 0) {
			return c.Errorf("axis %d of input 0, which has shape %v, has the pads %d and %d", i, x.Shape, a, b)
		}
		k.shape = append(k.shape, d+a+b)
	}
	return nil
}

// merge sets axes: neighbours that nothing is added to or taken from are one.
func (k *padder) merge(x *executor.Tensor) {
	k.axes = k.axes[:0]
	from := x.Len()
	for i, d := range x.Shape {
		from /= max(d, 1)
		a, b := k.before[i], k.after[i]
		last := len(k.axes) - 1
		if a == 0 && b == 0 && last >= 0 && k.axes[last].n == k.axes[last].kept && k.axes[last].before == 0 && k.axes[last].first == 0 &&
			k.axes[last].from == d*from {
			k.axes[last].n *= d
			k.axes[last].kept *= d
			k.axes[last].from = from
			continue
		}
		first := max(-a, 0)
		k.axes = append(k.axes, padAxis{k.shape[i], max(a, 0), d - first - max(-b, 0), first, from})
	}
}

// fits refuses what the kernel cannot walk.
func (k *padder) fits(c *executor.Ctx) error {
	if len(k.axes) > moveDims {
		return c.Errorf("pads of %d axes that lie apart in memory; the CUDA kernels have no more than %d", len(k.axes), moveDims)
	}
	for _, x := range k.axes {
		if x.n >= 1<<30 || x.kept >= 1<<30 {
			return c.Errorf("has an axis of length %d; the CUDA kernel of Pad takes lengths below 2^30", max(x.n, x.kept))
		}
	}
	return nil
}

func (k *padder) pack(x, y *executor.Tensor, value uint64) {
	at, n := 0, len(k.axes)
	for _, p := range k.axes {
		at += p.first * p.from
	}
	a := k.begin()
	a.In(x.Data)
	a.Out(y.Data)
	a.Int(y.Len())
	a.Int(at)
	a.Uint64(value)
	a.Int32(k.mode)
	packAxes(a, n, func(i int) int { return k.axes[n-1-i].n })
	packInts(a, n, func(i int) int { return k.axes[n-1-i].before })
	packInts(a, n, func(i int) int { return k.axes[n-1-i].kept })
	packInts(a, n, func(i int) int { return k.axes[n-1-i].from })
}
