package cuda_test

import (
	"fmt"
	"slices"
	"testing"

	"memopt/executor"
	"memopt/executor/cuda"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
)

// leftOutKinds take operands from the device that they never look into on the host.
var leftOutKinds = []graph.Kind{op.AdamOptimizer, op.Clip, op.DivGrad, op.FusedMatMulAdd, op.GridSample, op.GRU,
	op.InPlaceAccumulator, op.LSTM, op.MatMulAdd, op.QuantizeLinear, op.RNN, op.Scale, op.ScaledSum}

// TestLeftOutOperands: a kernel for a node without one of its operands is refused or does without
// it; it never reads what is not there.
func TestLeftOutOperands(t *testing.T) {
	d, _ := opened(t, double.Options{})
	tried := map[graph.Kind]int{}
	for _, c := range cases() {
		if !slices.Contains(leftOutKinds, c.Kind) || c.Fails != "" || tried[c.Kind] >= 3 {
			continue
		}
		tried[c.Kind]++
		for i := range c.In {
			t.Run(fmt.Sprintf("%s without %d", c.Label(), i), func(t *testing.T) {
				less := c
				less.In = slices.Clone(c.In)
				less.In[i] = nil
				defer func() {
					if r := recover(); r != nil {
						t.Fatalf("panic: %v", r)
					}
				}()
				if _, err := kerneltest.Run(onlyDevice{d}, &less, kerneltest.Setup{Threads: 1}); err != nil {
					t.Log(err)
				}
			})
		}
	}
	if len(tried) != len(leftOutKinds) {
		t.Errorf("%d of %d operators have cases", len(tried), len(leftOutKinds))
	}
}

// onlyDevice makes the device's kernels without asking the host's first.
type onlyDevice struct{ *cuda.Device }

// Assign returns the device's kernel or its error.
func (d onlyDevice) Assign(p *executor.Prep) (executor.Assigned, error) {
	k, err := d.Kernel(p)
	return executor.Assigned{Kernel: k, HostInputs: cuda.Of(p.Node.Kind).HostInputs}, err
}
