package cpu

import (
	"fmt"
	"math"
	"testing"

	"memopt/executor"
	"memopt/graph"
)

// heapMemory allocates on Go's heap.
type heapMemory struct{}

func (heapMemory) Output(_, n int) ([]byte, error) { return make([]byte, n), nil }
func (heapMemory) Scratch(n int) ([]byte, error) {
	return executor.Memory(make([]float64, (n+7)/8))[:n], nil
}

// convolve computes a 3x3 convolution in a given way.
func convolve(t *testing.T, way func(*convPlan), threads int, x, w *executor.Tensor, pads []int) []float32 {
	t.Helper()
	attrs := windowAttrs{autoPad: "NOTSET", pads: pads}
	plan, err := newConvPlan(&attrs, 1, x.Shape, w.Shape, 4)
	if err != nil {
		t.Fatal(err)
	}
	way(&plan)
	pool := executor.NewPool(threads)
	defer pool.Close()
	c := executor.NewCtx(&executor.Prep{}, pool, heapMemory{}, nil, nil)
	k := &convCore[float32]{convPlan: plan, math: newConvMath[float32](), threads: threads}
	k.x, k.w, k.y = executor.Of[float32](x), executor.Of[float32](w), make([]float32, plan.n*plan.m*plan.outPlane)
	k.run(c)
	return k.y
}

func waySample(seed uint32, shape ...int) *executor.Tensor {
	v := make([]float32, product(shape))
	for i := range v {
		seed = seed*1664525 + 1013904223
		v[i] = float32(int32(seed)) / (1 << 31)
	}
	return executor.NewTensor(graph.Float32, shape, v...)
}

// TestConvWays compares Winograd's filtering, by blocks and step by step, with the plain products,
// and each method's results on one thread and on several.
func TestConvWays(t *testing.T) {
	for _, s := range []struct {
		n, c, m, h, w int
		pads          []int
		blocks        bool
	}{
		{4, 64, 64, 56, 56, []int{1, 1, 1, 1}, true},
		{2, 40, 33, 57, 43, []int{1, 0, 0, 2}, false},
		{40, 130, 32, 7, 9, []int{1, 1, 1, 1}, false},
	} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			x, w := waySample(1, s.n, s.c, s.h, s.w), waySample(2, s.m, s.c, 3, 3)
			plain := func(p *convPlan) {
				p.way, p.tile, p.perPlane, p.tiles = convTiled, p.outPlane, 1, p.n
				p.cutSplit()
			}
			fast := func(p *convPlan) {
				if p.way != convWinograd || (p.fast.blocks > 1) != s.blocks {
					t.Fatalf("way %d in %d blocks, wanted Winograd's, in blocks: %t", p.way, p.fast.blocks, s.blocks)
				}
			}
			want, got := convolve(t, plain, 1, x, w, s.pads), convolve(t, fast, 1, x, w, s.pads)
			for i, v := range want {
				if math.Abs(float64(v-got[i])) > 5e-6*math.Sqrt(float64(9*s.c)) {
					t.Fatalf("element %d is %g, wanted %g", i, got[i], v)
				}
			}
			for i, v := range convolve(t, fast, 3, x, w, s.pads) {
				if v != got[i] {
					t.Fatalf("element %d is %g on 3 threads, %g on one", i, v, got[i])
				}
			}
		})
	}
}
