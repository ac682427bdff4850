package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// implementations are the ways to run a loop that this processor has.
func implementations() []implementation {
	ways := []implementation{{"go", inGo}}
	if useAVX2 {
		ways = append(ways, implementation{"avx2", func(f func()) { with(true, false, f) }})
	}
	if useAVX512 {
		ways = append(ways, implementation{"avx512", func(f func()) { with(true, true, f) }})
	}
	return ways
}

// inGo runs f without assembly.
func inGo(f func()) { with(false, false, f) }

func with(avx2, avx512 bool, f func()) {
	defer func(old2, old512 bool) { useAVX2, useAVX512 = old2, old512 }(useAVX2, useAVX512)
	useAVX2, useAVX512 = avx2, avx512
	f()
}

func needAssembly(t testing.TB) {
	if !useAVX2 {
		t.Skip("this processor has no AVX2: there is no assembly to compare with; " +
			"any x86-64 processor since 2013 has it")
	}
}

// sameBits fails unless the slices agree in every bit, except for NaN.
func sameBits(t *testing.T, what string, want, got []float32, args ...[]float32) {
	t.Helper()
	for i, w := range want {
		if math.Float32bits(w) == math.Float32bits(got[i]) || w != w && got[i] != got[i] {
			continue
		}
		msg := fmt.Sprintf("%s, element %d of %d: Go gives %g (%#x), not %g (%#x), of", what, i, len(want),
			w, math.Float32bits(w), got[i], math.Float32bits(got[i]))
		for _, a := range args {
			msg += fmt.Sprintf(" %g (%#x)", a[i], math.Float32bits(a[i]))
		}
		t.Fatal(msg)
	}
}

// TestFunctionBits compares assembly and Go on a sample of all float32s.
func TestFunctionBits(t *testing.T) {
	needAssembly(t)
	for _, fn := range append(functions, function{name: "Relu", f: Relu}) {
		got, want := make([]float32, 4096), make([]float32, 4096)
		samples(5003, func(a []float32) {
			inGo(func() { fn.f(want[:len(a)], a) })
			each(t, func(impl string) {
				fn.f(got[:len(a)], a)
				sameBits(t, fn.name+" in "+impl, want[:len(a)], got, a)
			})
		})
	}
}

// numbers returns n numbers of a mixture of magnitudes, with zeros, infinities and, if
// nan, NaN among them.
func numbers(r *rand.Rand, n int, nan bool) []float32 {
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0x1p-149, -0x1p-130, math.MaxFloat32,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	if !nan {
		special = special[:6]
	}
	a := make([]float32, n)
	for i := range a {
		switch r.IntN(8) {
		case 0:
			a[i] = special[r.IntN(len(special))]
		case 1:
			a[i] = math.Float32frombits(r.Uint32()&^(1<<30) | r.Uint32()&1<<31)
		default:
			a[i] = float32(r.NormFloat64() * 3)
		}
	}
	return a
}

// elementwise are the functions with a dst and any number of sources.
var elementwise = map[string]func(dst, a, b, c []float32){
	"Add":        func(dst, a, b, _ []float32) { Add(dst, a, b) },
	"Sub":        func(dst, a, b, _ []float32) { Sub(dst, a, b) },
	"Mul":        func(dst, a, b, _ []float32) { Mul(dst, a, b) },
	"Div":        func(dst, a, b, _ []float32) { Div(dst, a, b) },
	"MaxOf":      func(dst, a, b, _ []float32) { MaxOf(dst, a, b) },
	"MinOf":      func(dst, a, b, _ []float32) { MinOf(dst, a, b) },
	"AddScalar":  func(dst, a, _, _ []float32) { AddScalar(dst, a, 1.1) },
	"MulScalar":  func(dst, a, _, _ []float32) { MulScalar(dst, a, -1.1) },
	"ScaleShift": func(dst, a, _, _ []float32) { ScaleShift(dst, a, 1.1, 0.3) },
	"MulAdd":     func(dst, a, b, c []float32) { MulAdd(dst, a, b, c) },
	"Axpy":       func(dst, a, _, _ []float32) { Axpy(dst, a, 1.1) },
	"Relu":       func(dst, a, _, _ []float32) { Relu(dst, a) },
	"Sqrt":       func(dst, a, _, _ []float32) { Sqrt(dst, a) },
	"Exp":        func(dst, a, _, _ []float32) { Exp(dst, a) },
	"Log":        func(dst, a, _, _ []float32) { Log(dst, a) },
	"Tanh":       func(dst, a, _, _ []float32) { Tanh(dst, a) },
	"Erf":        func(dst, a, _, _ []float32) { Erf(dst, a) },
	"Sigmoid":    func(dst, a, _, _ []float32) { Sigmoid(dst, a) },
	"Gelu":       func(dst, a, _, _ []float32) { Gelu(dst, a) },
	"GeluTanh":   func(dst, a, _, _ []float32) { GeluTanh(dst, a) },
	"ExpSum":     func(dst, a, _, _ []float32) { ExpSum(dst, a, 0.3) },
}

// TestLengths compares every length up to 100, and checks that nothing else is written.
func TestLengths(t *testing.T) {
	needAssembly(t)
	r := rand.New(rand.NewPCG(1, 2))
	for name, f := range elementwise {
		for n := range 101 {
			all := [][]float32{numbers(r, n+20, true), numbers(r, n+20, true), numbers(r, n+20, true)}
			start := numbers(r, n+20, true)
			want := append([]float32(nil), start...)
			a, b, c := all[0][3:3+n], all[1][7:7+n], all[2][:n]
			inGo(func() { f(want[5:5+n], a, b, c) })
			each(t, func(impl string) {
				got := append([]float32(nil), start...)
				f(got[5:5+n], a, b, c)
				sameBits(t, name+" in "+impl, want, got)
			})
		}
	}
}

// TestInPlace lets dst be each of the sources.
func TestInPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for name, f := range elementwise {
		if name == "Axpy" { // its dst is a source
			continue
		}
		each(t, func(impl string) {
			for place := range 3 {
				src := [][]float32{numbers(r, 77, true), numbers(r, 77, true), numbers(r, 77, true)}
				want := make([]float32, 77)
				f(want, src[0], src[1], src[2])
				f(src[place], src[0], src[1], src[2])
				sameBits(t, name+" in place in "+impl, want, src[place])
			}
		})
	}
}

// reductions have one result.
var reductions = map[string]func(a, b []float32) float32{
	"Sum":        func(a, _ []float32) float32 { return Sum(a) },
	"SumAbs":     func(a, _ []float32) float32 { return SumAbs(a) },
	"Dot":        Dot,
	"SumSquares": func(a, _ []float32) float32 { return SumSquares(a, 0.3) },
	"Max": func(a, _ []float32) float32 {
		if len(a) == 0 {
			return 0
		}
		return Max(a)
	},
	"ExpSum": func(a, _ []float32) float32 { return ExpSum(make([]float32, len(a)), a, 0.7) },
}

// TestReductionBits compares reductions of every length up to 100 and of some more.
func TestReductionBits(t *testing.T) {
	needAssembly(t)
	r := rand.New(rand.NewPCG(1, 4))
	for name, f := range reductions {
		for n := range 400 {
			if n > 100 {
				n *= 7
			}
			for try := range 6 {
				a, b := numbers(r, n+9, try == 0)[try:try+n], numbers(r, n+3, try == 0)[3:]
				if try == 5 { // zeros of both signs
					for i := range a {
						a[i] = float32(math.Copysign(0, float64(r.IntN(40))-1))
					}
				}
				var want float32
				inGo(func() { want = f(a, b) })
				each(t, func(impl string) {
					sameBits(t, fmt.Sprintf("%s of %d in %s", name, n, impl), []float32{want}, []float32{f(a, b)})
				})
			}
		}
	}
}

// TestShortSource panics before anything is written.
func TestShortSource(t *testing.T) {
	needAssembly(t)
	dst := make([]float32, 10)
	require.Panics(t, func() { Add(dst, make([]float32, 10), make([]float32, 9, 20)) })
	require.Panics(t, func() { Exp(dst, nil) })
	require.Panics(t, func() { Dot(dst, dst[:3]) })
	Exp(nil, nil)
	require.Zero(t, Sum(nil))
}

// TestNoAllocation checks that buffers on the stack stay there.
func TestNoAllocation(t *testing.T) {
	var sink float32
	require.Zero(t, testing.AllocsPerRun(10, func() {
		var a, b [1024]float32
		Exp(a[:], b[:])
		MulAdd(b[:], a[:], a[:], b[:])
		sink += ExpSum(a[:], b[:], 1) + Dot(a[:], b[:]) + Max(a[:])
	}))
}
