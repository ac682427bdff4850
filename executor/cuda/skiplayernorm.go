package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// sumNorm is the kernel of kernels/sumnorm.h: the norm of a sum of up to three rows.
type sumNorm struct {
	*launch
	epsilon float32
	simple  bool
	shape   []int
}

func newSumNorm(d *Device, p *executor.Prep, t graph.DType, simple bool) (sumNorm, error) {
	l, err := d.launch("sumnorm_"+suffix(t), "sumnorm_"+suffix(t))
	return sumNorm{launch: l, epsilon: p.Node.Float("epsilon", 1e-12), simple: simple}, err
}

// sumAddend is one of the rows that are added up: row r of the sum gets row r%period of data, or
// row places[r%period].
type sumAddend struct {
	data, places []byte
	period       int
}

// sumOutputs are the outputs of a norm of a sum; nil for those that nobody wants.
type sumOutputs struct{ y, mean, inv, sum *executor.Tensor }

// normalise runs the kernel on rows of n elements of type t.
func (k *sumNorm) normalise(t graph.DType, rows, n int, in [3]sumAddend, scale, shift []byte, out sumOutputs) error {
	a := k.begin()
	for i := range in {
		a.In(in[i].data)
	}
	for i := range in {
		a.In(in[i].places)
	}
	a.In(scale)
	a.In(shift)
	a.Out(dataOf(out.y))
	a.Out(dataOf(out.mean))
	a.Out(dataOf(out.inv))
	a.Out(dataOf(out.sum))
	a.Int(rows)
	a.Int(n)
	for i := range in {
		a.Int(max(in[i].period, 1))
	}
	a.Float32(k.epsilon)
	a.Uint32(flag(k.simple))
	a.Uint32(typeOf(out.mean))
	a.Uint32(typeOf(out.inv))
	a.Uint32(wide(t, n))
	return k.teams(rows, n)
}

// skipNorm is ONNX Runtime's SkipLayerNormalization, or its simplified form: the norm of input +
// skip + bias.
type skipNorm struct {
	sumNorm
	biasAt int // input slot of the bias
}

// newSkipNorm makes either.
func newSkipNorm(simple bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		t, k := p.DType(0), &skipNorm{biasAt: 4}
		if simple {
			k.biasAt = 3
		}
		if !isFloat(t) || sameTypes(p) != nil {
			return nil, noTypes(p)
		}
		for i, o := range p.Out {
			if o != graph.Undefined && (!isFloat(o) || (i == 0 || i == 3) && o != t) {
				return nil, p.Unsupported("no CUDA kernel for types %v and %v", p.In, p.Out)
			}
		}
		var err error
		k.sumNorm, err = newSumNorm(d, p, t, simple)
		return k, err
	}
}

// Run adds and normalises.
func (k *skipNorm) Run(c *executor.Ctx) error {
	x, skip := c.In(0), c.In(1)
	if x.Rank() < 1 {
		return c.Errorf("input 0 is %v, wanted rank 2 or 3", x)
	}
	last := x.Rank() - 1
	n, rows := x.Shape[last], elements(x.Shape[:last])
	tail := skip.Shape
	for len(tail) > 0 && tail[0] == 1 {
		tail = tail[1:]
	}
	if len(tail) > x.Rank() || !operand.Joined(x.Shape[x.Rank()-len(tail):], tail, nil) || skip.Len()%max(n, 1) != 0 {
		return c.Errorf("input 1, the skip, has shape %v, which cannot be stretched to %v", skip.Shape, x.Shape)
	}
	for i, what := range [...]string{2: "scale", 3: "shift", 4: "bias"} {
		if i < 2 || i > k.biasAt {
			continue
		}
		if err := channelVector(c, i, what, n); err != nil {
			return err
		}
	}
	k.shape = append(append(k.shape[:0], x.Shape[:last]...), 1)
	out := sumOutputs{c.Out(0, x.Shape...), c.Out(1, k.shape...), c.Out(2, k.shape...), c.Out(3, x.Shape...)}
	if out.y == nil {
		return nil
	}
	var shift []byte
	if !k.simple {
		shift = dataOf(c.In(3))
	}
	in := [3]sumAddend{{data: x.Data, period: rows}, {data: skip.Data, period: skip.Len() / max(n, 1)},
		{data: dataOf(c.In(k.biasAt))}}
	return k.normalise(x.DType, rows, n, in, c.In(2).Data, shift, out)
}
