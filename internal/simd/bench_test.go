package simd

import (
	"fmt"
	"testing"
)

var sink float32

// implementation runs a function with one implementation of the loops.
type implementation struct {
	name string
	do   func(f func())
}

// loops are what the benchmarks measure.
var loops = []struct {
	name string
	f    func(dst, a, b []float32)
}{
	{"Exp", func(dst, a, _ []float32) { Exp(dst, a) }},
	{"ExpSum", func(dst, a, _ []float32) { sink = ExpSum(dst, a, 1) }},
	{"Log", func(dst, a, _ []float32) { Log(dst, a) }},
	{"Tanh", func(dst, a, _ []float32) { Tanh(dst, a) }},
	{"Erf", func(dst, a, _ []float32) { Erf(dst, a) }},
	{"Sigmoid", func(dst, a, _ []float32) { Sigmoid(dst, a) }},
	{"Gelu", func(dst, a, _ []float32) { Gelu(dst, a) }},
	{"GeluTanh", func(dst, a, _ []float32) { GeluTanh(dst, a) }},
	{"Add", Add},
	{"Div", Div},
	{"MaxOf", MaxOf},
	{"MulAdd", func(dst, a, b []float32) { MulAdd(dst, a, b, a) }},
	{"Axpy", func(dst, a, _ []float32) { Axpy(dst, a, 0.5) }},
	{"Relu", func(dst, a, _ []float32) { Relu(dst, a) }},
	{"Sqrt", func(dst, a, _ []float32) { Sqrt(dst, a) }},
	{"Sum", func(_, a, _ []float32) { sink = Sum(a) }},
	{"Dot", func(_, a, b []float32) { sink = Dot(a, b) }},
	{"SumSquares", func(_, a, _ []float32) { sink = SumSquares(a, 0.5) }},
	{"Max", func(_, a, _ []float32) { sink = Max(a) }},
}

// BenchmarkLoops measures every loop in assembly and in Go: elements per nanosecond.
func BenchmarkLoops(b *testing.B) {
	for _, l := range loops {
		for _, impl := range implementations() {
			for _, n := range []int{64, 4096} {
				b.Run(fmt.Sprintf("%s/impl=%s/n=%d", l.name, impl.name, n), func(b *testing.B) {
					dst, x, y := make([]float32, n), make([]float32, n), make([]float32, n)
					for i := range n {
						x[i] = float32(i%257)/32 - 4
						y[i] = 1.5
					}
					impl.do(func() {
						for b.Loop() {
							l.f(dst, x, y)
						}
					})
					b.ReportMetric(float64(n)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "elem/ns")
				})
			}
		}
	}
}
