package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// broadcastArgsKernel is ONNX Runtime's BroadcastGradientArgs: for two shapes that are broadcast
// against each other it finds the axes that broadcasting stretches in each. A gradient is summed
// over them. Axes go from the last to the first. For example, [2, 1] and [2, 3] give [1] and [].
type broadcastArgsKernel struct{ a, b []int64 }

func newBroadcastArgs(p *executor.Prep) (executor.Kernel, error) {
	if p.DType(0) != graph.Int64 || p.DType(1) != graph.Int64 {
		return nil, unsupportedTypes(p)
	}
	return &broadcastArgsKernel{}, nil
}

// Run compares the shapes.
func (k *broadcastArgsKernel) Run(c *executor.Ctx) error {
	for i := range 2 {
		if c.In(i).Rank() != 1 {
			return c.Errorf("input %d, a shape, is %v, wanted a vector", i, c.In(i))
		}
	}
	a, b := executor.Of[int64](c.In(0)), executor.Of[int64](c.In(1))
	k.a, k.b = k.a[:0], k.b[:0]
	rank := max(len(a), len(b))
	for axis := rank - 1; axis >= 0; axis-- {
		i, j := axis-(rank-len(a)), axis-(rank-len(b))
		switch {
		case i < 0:
			k.a = append(k.a, int64(axis))
		case j < 0:
			k.b = append(k.b, int64(axis))
		case a[i] == b[j]:
		case a[i] == 1:
			k.a = append(k.a, int64(axis))
		case b[j] == 1:
			k.b = append(k.b, int64(axis))
		default:
			return c.Errorf("shapes %v and %v cannot be broadcast: dims %d and %d differ", a, b, a[i], b[j])
		}
	}
	if y := c.Out(0, len(k.a)); y != nil {
		copy(executor.Of[int64](y), k.a)
	}
	if y := c.Out(1, len(k.b)); y != nil {
		copy(executor.Of[int64](y), k.b)
	}
	return nil
}
