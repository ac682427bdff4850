package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"memopt/executor"
)

// deepNaive is a convolution of one group by its definition, in float64.
func deepNaive(x, w []float32, p *convPlan) []float64 {
	y := make([]float64, p.n*p.m*p.outPlane)
	win := &p.win
	for n := range p.n {
		for m := range p.m {
			for oh := range win.out[1] {
				for ow := range win.out[2] {
					sum := 0.0
					for c := range p.cg {
						for kh := range win.kernel[1] {
							for kw := range win.kernel[2] {
								ih := oh*win.stride[1] - win.begin[1] + kh*win.dilation[1]
								iw := ow*win.stride[2] - win.begin[2] + kw*win.dilation[2]
								if ih < 0 || iw < 0 || ih >= win.in[1] || iw >= win.in[2] {
									continue
								}
								sum += float64(x[((n*p.c+c)*win.in[1]+ih)*win.in[2]+iw]) * float64(
									w[((m*p.cg+c)*win.kernel[1]+kh)*win.kernel[2]+kw])
							}
						}
					}
					y[((n*p.m+m)*win.out[1]+oh)*win.out[2]+ow] = sum
				}
			}
		}
	}
	return y
}

// TestConvDeep compares large kernels over small outputs with the definition, and results on
// several threads with those on one.
func TestConvDeep(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for i := range 200 {
		dilation, stride, pad := 1+rng.IntN(2), 1+rng.IntN(2), rng.IntN(3)
		kernel := 4 + rng.IntN(20)
		size := (kernel-1)*dilation + 1 + rng.IntN(3*stride) - pad
		if size < 1 {
			continue
		}
		x := waySample(uint32(i), 1+rng.IntN(40), 1+rng.IntN(5), size, size)
		w := waySample(uint32(i+1), 1+rng.IntN(6), x.Shape[1], kernel, kernel)
		attrs := windowAttrs{autoPad: "NOTSET", pads: []int{pad, pad, pad, pad}, strides: []int{stride, stride},
			dilations: []int{dilation, dilation}}
		plan, err := newConvPlan(&attrs, 1, x.Shape, w.Shape, 4)
		if err != nil || plan.way != convDeep {
			continue
		}
		taken++
		run := func(threads int) []float32 {
			pool := executor.NewPool(threads)
			defer pool.Close()
			k := &convCore[float32]{convPlan: plan, math: newConvMath[float32](), threads: threads}
			k.x, k.w, k.y = executor.Of[float32](x), executor.Of[float32](w),
				make([]float32, plan.n*plan.m*plan.outPlane)
			k.run(executor.NewCtx(&executor.Prep{}, pool, heapMemory{}, nil, nil))
			return k.y
		}
		one, three := run(1), run(3)
		for j, want := range deepNaive(executor.Of[float32](x), executor.Of[float32](w), &plan) {
			if math.Abs(float64(one[j])-want) > 1e-4*(1+math.Abs(want)) || one[j] != three[j] {
				t.Fatalf("case %d: %v by %v: element %d is %v and %v, wanted %v", i, x, w, j, one[j], three[j], want)
			}
		}
	}
	if taken < 50 {
		t.Errorf("only %d cases were deep", taken)
	}
}
