package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/executor/operand"
	"memopt/graph"
	"memopt/graph/op"
)

// packStream packs the numbers that kernels/random.cu derives the stream of a node's draws in a
// step from. executor/cpu/philox.go defines key and counter.
func packStream(a *driver.Args, d operand.Draws, c *executor.Ctx) {
	step := c.Step
	if c.StepAt != nil {
		step = 0 // the kernel adds the number at StepAt
	}
	a.Uint64(operand.SplitMix64(d.Seed)).Uint64(step).In(c.StepAt).Int(d.First).Int(d.Run).Int(d.Stride)
}

// floatSuffix is suffix for the floats, f64 as well; "" for other types.
func floatSuffix(t graph.DType) string {
	if isFloat(t) || t == graph.Float64 {
		return suffix(t)
	}
	return ""
}

// uniform draws uniform numbers, or bools of Bernoulli.
type uniform struct {
	*launch
	draws      operand.Draws
	shape      []int // nil means the input's shape
	low, width float64
	size       int // bytes of Bernoulli's elements; 0 for other operators
	one        uint64
}

// newUniform makes the kernels of RandomUniform, RandomUniformLike and Bernoulli.
func newUniform(d *Device, p *executor.Prep) (executor.Kernel, error) {
	n := p.Node
	draws, err := operand.DrawsOf(p)
	if err != nil {
		return nil, err
	}
	k := &uniform{draws: draws, low: float64(n.Float("low", 0))}
	k.width = float64(n.Float("high", 1)) - k.low
	if n.Kind == op.RandomUniform {
		k.shape = operand.List([]int{}, n.IntList("shape", nil))
	}
	t, name := p.Out[0], "uniform_"
	if n.Kind == op.Bernoulli {
		name, k.size = "bernoulli_", operand.ElementBytes(t)
		one, ok := bitsOf(t, 1)
		if !ok || k.size == 0 {
			return nil, p.Unsupported("no CUDA kernel for output type %v", t)
		}
		k.one, t = one, p.DType(0)
	}
	s := floatSuffix(t)
	if s == "" {
		return nil, noTypes(p)
	}
	k.launch, err = d.launch("random", name+s)
	return k, err
}

// Run draws.
func (k *uniform) Run(c *executor.Ctx) error {
	shape, p := k.shape, []byte(nil)
	if shape == nil {
		shape = c.In(0).Shape
	}
	if k.size > 0 {
		p = c.In(0).Data
	}
	y := c.Out(0, shape...)
	if y == nil {
		return nil
	}
	a := k.begin().In(p).Out(y.Data).Int(y.Len())
	packStream(a, k.draws, c)
	a.Uint32(uint32(k.size)).Float64(k.low).Float64(k.width).Uint64(k.one)
	return k.line(y.Len(), 4)
}
