package cpu_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
	"memopt/internal/test/kerneltest"
)

// filled is a tensor with one number everywhere; nil if its type cannot hold the number.
func filled(t *executor.Tensor, x float64) *executor.Tensor {
	c := &executor.Tensor{DType: t.DType, Shape: t.Shape, Data: bytes.Clone(t.Data)}
	whole := x == math.Trunc(x) && !math.IsInf(x, 0)
	for i := range c.Len() {
		switch {
		case t.DType == graph.Float32:
			executor.Of[float32](c)[i] = float32(x)
		case t.DType == graph.Float64:
			executor.Of[float64](c)[i] = x
		case t.DType == graph.Float16:
			executor.Of[half.Float16](c)[i] = half.Float16From(float32(x))
		case t.DType == graph.BFloat16:
			executor.Of[half.BFloat16](c)[i] = half.BFloat16From(float32(x))
		case !whole:
			return nil
		case t.DType == graph.Int64:
			executor.Of[int64](c)[i] = int64(x)
		case t.DType == graph.Int32:
			executor.Of[int32](c)[i] = int32(x)
		case t.DType == graph.Bool:
			c.Data[i] = byte(int(x)) & 1
		default:
			c.Data[i*t.DType.Bits()/8] = byte(int(x))
		}
	}
	return c
}

// TestChecks holds the operator table's checks to the kernels: every conformance case that succeeds is
// run with other elements in one input at a time. What a kernel refuses then, the table must list, and
// what it lists some kernel must refuse.
func TestChecks(t *testing.T) {
	refused := map[graph.Kind]map[int]bool{}
	for _, c := range kerneltest.All() {
		if c.Fails != "" {
			continue
		}
		for slot, in := range c.In {
			if in == nil || in.Len() == 0 {
				continue
			}
			for _, x := range []float64{0, 1, -1, 23, -23, 2.5, math.NaN(), math.Inf(1)} {
				other := filled(in, x)
				if other == nil {
					continue
				}
				m := c
				m.In = slices.Clone(c.In)
				m.In[slot] = other
				if _, err := kerneltest.Run(cpu.Device{}, &m, kerneltest.Setup{}); err != nil {
					at := fmt.Sprint(op.Of(c.Kind).Name, " ", slot)
					if refused[c.Kind] == nil {
						refused[c.Kind] = map[int]bool{}
					}
					refused[c.Kind][slot] = true
					i := slices.IndexFunc(op.Checks(c.Kind), func(k op.Check) bool { return k.In == slot })
					if i < 0 || in.DType.IsFloat() && !op.Checks(c.Kind)[i].Floats {
						t.Errorf("graph/op/checks.go has no check for input %s of %v, and with %v everywhere: %v",
							at, in.DType, x, err)
					}
				}
			}
		}
	}
	var idle []string
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		for _, check := range op.Checks(k) {
			if !refused[k][check.In] {
				idle = append(idle, fmt.Sprint(op.Of(k).Name, " ", check.In))
			}
		}
	}
	require.Empty(t, strings.Join(idle, ", "), "no kernel refuses elements there")
}
