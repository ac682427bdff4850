package double

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"memopt/executor/cuda/driver"
)

// The double's library of convolutions has invented algorithms that differ in their workspace, but not in their
// results:
//
//	0  adds up in any order, says the library; no workspace; the fastest. Forward it is deterministic and the slowest.
//	1  a workspace as large as Y
//	6  a workspace of four times all operands; the fastest of the deterministic ones
//	7  as large as X and Y; as fast as 1
const (
	convPlain = 0
	convUsual = 1
	convLarge = 6
	convEqual = 7
)

// convAlgos lists the algorithms as the heuristics order them.
func convAlgos(c *driver.ConvCase) []driver.ConvAlgo {
	x, w, y := c.Lens()
	size := c.Elem.Size()
	plain := driver.ConvAlgo{Number: convPlain, Deterministic: c.Kind == driver.ConvForward, Millis: 1}
	list := []driver.ConvAlgo{
		{Number: convLarge, Workspace: 4 * (x + w + y) * size, Deterministic: true, Millis: 2},
		{Number: convUsual, Workspace: y * size, Deterministic: true, Millis: 3},
		{Number: convEqual, Workspace: (x + y) * size, Deterministic: true, Millis: 3},
	}
	if plain.Deterministic {
		plain.Millis = 4
		return append(list, plain)
	}
	return append([]driver.ConvAlgo{plain}, list...)
}

// ConvAlgos lists the invented algorithms.
func (d *Double) ConvAlgos(s driver.Stream, c *driver.Conv, how driver.ConvSearch) ([]driver.ConvAlgo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.ConvSearches++
	if d.opts.NoConvolutions {
		return nil, &driver.Missing{Err: errors.New("the double has been told to have no library of convolutions")}
	}
	if err := convFits(&c.ConvCase); err != nil {
		return nil, err
	}
	if d.opts.ConvFault != nil {
		if err := d.opts.ConvFault(&c.ConvCase); err != nil {
			return nil, err
		}
	}
	all := convAlgos(&c.ConvCase)
	var list []driver.ConvAlgo
	for _, a := range all {
		switch how {
		case driver.SearchExhaustive:
			trial := *c
			trial.Algo = a
			if len(c.Workspace) < a.Workspace {
				continue
			}
			if err := d.convolve(s, &trial); err != nil {
				return nil, err
			}
		case driver.SearchHeuristic:
			a.Millis = 0
		case driver.SearchDefault:
			if a.Millis = 0; a.Number != convUsual {
				continue
			}
		}
		list = append(list, a)
	}
	return list, nil
}

// convFits rejects the cases that a library rejects: sizes that do not fit together.
func convFits(c *driver.ConvCase) error {
	for i := 3 - c.Axes; i < 3; i++ {
		if c.Pad[i] < 0 || c.Out[i] != c.Places(i) {
			return fmt.Errorf("double: a convolution whose Y has %d places on axis %d; %d follow from %+v",
				c.Out[i], i, c.Places(i), *c)
		}
	}
	if c.Axes < 2 || c.Axes > 3 || c.Groups < 1 || c.C%c.Groups != 0 || c.M%c.Groups != 0 {
		return fmt.Errorf("double: a convolution of %+v", *c)
	}
	return nil
}

// Convolve computes in the plainest way, with sums in float64.
func (d *Double) Convolve(s driver.Stream, c *driver.Conv) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.Convolutions++
	if d.opts.NoConvolutions {
		return errors.New("double: a convolution without a library")
	}
	return d.convolve(s, c)
}

func (d *Double) convolve(s driver.Stream, c *driver.Conv) error {
	if err := c.CheckRun(); err != nil {
		return fmt.Errorf("double: %w", err)
	}
	if d.now(s) {
		return d.convolveNow(*c)
	}
	kept := *c
	return d.later(s, func() error { return d.convolveNow(kept) })
}

// convolveNow convolves the contents of the operands' device addresses.
func (d *Double) convolveNow(c driver.Conv) (err error) {
	c.Workspace = c.Workspace[:c.Algo.Workspace]
	for _, m := range [...]*[]byte{&c.X, &c.W, &c.Y, &c.Workspace} {
		if *m, err = d.find(*m); err != nil {
			return err
		}
	}
	fill(c.Workspace, poison) // all that was asked for may be used
	d.conv.run(&c)
	return nil
}

// convolution has room for the numbers of a convolution, as float64. It is kept from run to run.
type convolution struct {
	x, w, y []float64
	// meets lists, tap by tap, which element of a plane of X the tap meets at each place; -1 for
	// padding.
	meets []int
}

// run adds up products in the order of its loops: all pairs of a channel and a filter of its group,
// in every image.
func (v *convolution) run(c *driver.Conv) {
	v.x, v.w, v.y = widened(v.x, c.Elem, c.X), widened(v.w, c.Elem, c.W), widened(v.y, c.Elem, c.Y)
	sums, result := v.y, c.Y
	switch c.Kind {
	case driver.ConvData:
		sums, result = v.x, c.X
	case driver.ConvFilter:
		sums, result = v.w, c.W
	}
	clear(sums)
	v.place(&c.ConvCase)
	cg, mg := c.C/c.Groups, c.M/c.Groups
	in, taps, out := c.In[0]*c.In[1]*c.In[2], c.Kernel[0]*c.Kernel[1]*c.Kernel[2], c.Out[0]*c.Out[1]*c.Out[2]
	for n := range c.N {
		for m := range c.M {
			for k := range cg {
				channel := n*c.C + m/mg*cg + k
				v.planes(c.Kind, v.x[channel*in:][:in], v.w[(m*cg+k)*taps:][:taps], v.y[(n*c.M+m)*out:][:out])
			}
		}
	}
	for i, sum := range sums {
		setElement(c.Elem, unsafe.Pointer(&result[i*c.Elem.Size()]), sum)
	}
}

// widened reads elements as float64, to room where it is large enough.
func widened(room []float64, e driver.Elem, b []byte) []float64 {
	n := len(b) / e.Size()
	room = slices.Grow(room[:0], n)[:n]
	for i := range room {
		room[i] = element(e, unsafe.Pointer(&b[i*e.Size()]))
	}
	return room
}

// place fills in meets.
func (v *convolution) place(c *driver.ConvCase) {
	v.meets = v.meets[:0]
	for tap := range c.Kernel[0] * c.Kernel[1] * c.Kernel[2] {
		for place := range c.Out[0] * c.Out[1] * c.Out[2] {
			v.meets = append(v.meets, meeting(c, place, tap))
		}
	}
}

// meeting returns the element of a plane of X that a tap of the window meets at a place, or -1.
func meeting(c *driver.ConvCase, place, tap int) int {
	var at [3]int
	for i := 2; i >= 0; i-- {
		at[i] = place%c.Out[i]*c.Stride[i] - c.Pad[i] + tap%c.Kernel[i]*c.Dilation[i]
		if at[i] < 0 || at[i] >= c.In[i] {
			return -1
		}
		place, tap = place/c.Out[i], tap/c.Kernel[i]
	}
	return (at[0]*c.In[1]+at[1])*c.In[2] + at[2]
}

// planes adds the products of a plane of each tensor.
func (v *convolution) planes(kind driver.ConvKind, x, w, y []float64) {
	for tap := range w {
		for place, at := range v.meets[tap*len(y):][:len(y)] {
			switch {
			case at < 0:
			case kind == driver.ConvForward:
				y[place] += x[at] * w[tap]
			case kind == driver.ConvData:
				x[at] += y[place] * w[tap]
			default:
				w[tap] += y[place] * x[at]
			}
		}
	}
}
