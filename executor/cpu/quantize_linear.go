package cpu

import (
	"memopt/executor"
	"memopt/executor/small"
	"memopt/graph"
)

type quantizeKernel struct {
	quantScales
	version int

	from, to graph.DType
	floats   *small.Encoder // to floating-point numbers of 8 bits or less; nil for integers
	x, y     []byte
}

func newQuantizeLinear(p *executor.Prep) (executor.Kernel, error) {
	k := &quantizeKernel{version: p.Version, from: p.DType(0), to: p.Out[0]}
	if small.IsFloat(k.to) {
		e := small.NewEncoder(k.to, p.Node.Int("saturate", 1) != 0, small.Up)
		k.floats = &e
	}
	if !isQuantized(k.to) {
		return nil, p.Unsupported("no kernel for output type %v", k.to)
	}
	if d := k.from; d != graph.Float32 && d != graph.Int32 && !isHalf(d) {
		return nil, unsupportedTypes(p)
	}
	if p.Has(2) && p.DType(2) != k.to {
		return nil, p.Errorf("the zero point has type %v, the output %v", p.DType(2), k.to)
	}
	var err error
	k.quantScales, err = newQuantScales(p)
	return k, err
}

// Run checks the operands and quantizes.
func (k *quantizeKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.set(c, x.Shape, k.version); err != nil {
		return err
	}
	k.x, k.y = x.Data, c.Out(0, x.Shape...).Data
	c.Parallel((k.n+wholeBytes-1)/wholeBytes, 1<<14/wholeBytes, k)
	return nil
}

// Range quantizes elements, wholeBytes at a time.
func (k *quantizeKernel) Range(lo, hi int) {
	lo, hi = lo*wholeBytes, min(hi*wholeBytes, k.n)
	var xb [chunkLen]float32
	var q [chunkLen]int32
	for at := lo; at < hi; {
		p := k.part(at, hi)
		at = p.hi
		x, r := k.load(xb[:], q[:], p), q[:p.hi-p.lo]
		if k.floats != nil {
			k.store(x, p)
			continue
		}
		if p.one {
			var zero int32
			if p.zeros != nil {
				zero = p.zeros[0]
			}
			quantizeRow(k.to, k.y, p.lo, x, p.scales[0], zero)
			continue
		}
		for i, s := range p.scales {
			r[i] = roundEven(x[i] / s)
		}
		addZeros(r, p, 1)
		storeSaturated(k.to, k.y, p.lo, r)
	}
}

// store rounds the elements of a part to a floating-point type of 8 bits or less.
func (k *quantizeKernel) store(x []float32, p quantPart) {
	for i, v := range x {
		s := p.scales[0]
		if !p.one {
			s = p.scales[i]
		}
		small.SetCode(k.to, k.y, p.lo+i, k.floats.Code(float64(v/s)))
	}
}

// load returns the elements of a part.
func (k *quantizeKernel) load(buf []float32, ints []int32, p quantPart) []float32 {
	if k.from != graph.Int32 {
		return chunkIn(k.from, k.x, p.lo, p.hi, buf)
	}
	ints = ints[:p.hi-p.lo]
	loadInts(ints, k.from, k.x, p.lo)
	for i, v := range ints {
		buf[i] = float32(v)
	}
	return buf[:len(ints)]
}

// addZeros adds the zero points, times sign.
func addZeros(r []int32, p quantPart, sign int32) {
	switch {
	case p.zeros == nil:
	case p.one:
		z := sign * p.zeros[0]
		for i := range r {
			r[i] += z
		}
	default:
		for i, z := range p.zeros {
			r[i] += sign * z
		}
	}
}

type dequantizeKernel struct {
	quantScales
	version int

	from, to graph.DType
	x, y     []byte
}

func newDequantizeLinear(p *executor.Prep) (executor.Kernel, error) {
	k := &dequantizeKernel{version: p.Version, from: p.DType(0), to: p.Out[0]}
	if !isQuantized(k.from) && k.from != graph.Int32 {
		return nil, unsupportedTypes(p)
	}
	if k.to != graph.Float32 && !isHalf(k.to) {
		return nil, p.Unsupported("no kernel for output type %v", k.to)
	}
	if p.Has(2) && p.DType(2) != k.from {
		return nil, p.Errorf("the zero point has type %v, the data %v", p.DType(2), k.from)
	}
	var err error
	k.quantScales, err = newQuantScales(p)
	return k, err
}

// Run checks the operands and dequantizes.
func (k *dequantizeKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.set(c, x.Shape, k.version); err != nil {
		return err
	}
	k.x, k.y = x.Data, c.Out(0, x.Shape...).Data
	c.Parallel((k.n+wholeBytes-1)/wholeBytes, 1<<14/wholeBytes, k)
	return nil
}

// Range dequantizes elements, wholeBytes at a time.
func (k *dequantizeKernel) Range(lo, hi int) {
	lo, hi = lo*wholeBytes, min(hi*wholeBytes, k.n)
	var yb, xb [chunkLen]float32
	var q [chunkLen]int32
	for at := lo; at < hi; {
		p := k.part(at, hi)
		at = p.hi
		x := k.load(xb[:p.hi-p.lo], q[:p.hi-p.lo], p)
		y := chunkOut(k.to, k.y, p.lo, p.hi, yb[:])
		if p.one {
			s := p.scales[0]
			for i, v := range x {
				y[i] = v * s
			}
		} else {
			for i, s := range p.scales {
				y[i] = x[i] * s
			}
		}
		chunkStore(k.to, k.y, p.lo, y)
	}
}

// load returns the elements of a part less their zero points.
func (k *dequantizeKernel) load(x []float32, q []int32, p quantPart) []float32 {
	if small.IsFloat(k.from) {
		loadSmall(x, k.from, k.x, p.lo)
		return x
	}
	loadInts(q, k.from, k.x, p.lo)
	addZeros(q, p, -1)
	for i, v := range q {
		x[i] = float32(v)
	}
	return x
}
