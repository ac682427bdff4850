package double

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"memopt/executor/cuda/driver"
)

// The double's library of convolutions has made-up algorithms that differ in what they ask for, and not in what they compute:
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

// ConvAlgos lists made-up algorithms.
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

// convFits refuses what a library refuses: sizes that do not follow from each other.
func convFits(c *driver.ConvCase) error {
	for i := 3 - c.Axes; i < 3; i++ {
		if c.Pad[i] < 0 || c.Out[i] != c.Places(i) {
			return fmt.Errorf("double: a convolution whose Y has %d places on axis %d; %d follow from %+v", c.Out[i], i, c.Places(i), *c)
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

// convolveNow convolves what lies at the operands' device addresses.
func (d *Double) convolveNow(c driver.Conv) (err error) {
	c.Workspace = c.Workspace[:c.Algo.Workspace]
	for _, m := range [...]*[]byte{&c.X, &c.W, &c.Y, &c.Workspace} {
		if *m, err = d.find(*m); err != nil {
			return err
		}
	}
	fill(c.Workspace, poison) // all that was asked for may be used
	v := &d.conv
	v.Conv = c
	result := c.Y
	switch c.Kind {
	case driver.ConvData:
		result = c.X
	case driver.ConvFilter:
		result = c.W
	}
	n := len(result) / c.Elem.Size()
	v.sums = slices.Grow(v.sums[:0], n)[:n]
	clear(v.sums)
	v.run()
	for i, sum := range v.sums {
		setElement(c.Elem, unsafe.Pointer(&result[i*c.Elem.Size()]), sum)
	}
	return nil
}

// convolution adds up products in the order of the loops.
type convolution struct {
	driver.Conv
	sums []float64 // kept from run to run
}

// run goes through all pairs of a channel and a filter of its group, in every image.
func (v *convolution) run() {
	cg, mg := v.C/v.Groups, v.M/v.Groups
	for n := range v.N {
		for m := range v.M {
			for k := range cg {
				v.planes(n*v.C+m/mg*cg+k, m*cg+k, n*v.M+m)
			}
		}
	}
}

// planes goes through all places and taps of a plane of X, one of W and one of Y.
func (v *convolution) planes(x, w, y int) {
	places, taps := v.Out[0]*v.Out[1]*v.Out[2], v.Kernel[0]*v.Kernel[1]*v.Kernel[2]
	for place := range places {
		for tap := range taps {
			if at, ok := v.tap(x, place, tap); ok {
				v.add(at, w*taps+tap, y*places+place)
			}
		}
	}
}

// tap returns the element of X that a tap of the window at a place meets, false for padding.
func (v *convolution) tap(plane, place, tap int) (int, bool) {
	var at [3]int
	for i := 2; i >= 0; i-- {
		at[i] = place%v.Out[i]*v.Stride[i] - v.Pad[i] + tap%v.Kernel[i]*v.Dilation[i]
		if at[i] < 0 || at[i] >= v.In[i] {
			return 0, false
		}
		place, tap = place/v.Out[i], tap/v.Kernel[i]
	}
	return ((plane*v.In[0]+at[0])*v.In[1]+at[1])*v.In[2] + at[2], true
}

// add adds one product to the sum that is wanted of it.
func (v *convolution) add(x, w, y int) {
	size := v.Elem.Size()
	at := func(b []byte, i int) float64 { return element(v.Elem, unsafe.Pointer(&b[i*size])) }
	switch v.Kind {
	case driver.ConvForward:
		v.sums[y] += at(v.X, x) * at(v.W, w)
	case driver.ConvData:
		v.sums[x] += at(v.Y, y) * at(v.W, w)
	case driver.ConvFilter:
		v.sums[w] += at(v.Y, y) * at(v.X, x)
	}
}
