package double_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/executor/cuda/kernels"
	"memopt/internal/test/double"
)

// opened returns a double; the test fails where memory is not given back.
func opened(t *testing.T, o double.Options) *double.Double {
	if _, err := double.Compiler(); err != nil {
		t.Skip("the driver double compiles the kernels: " + err.Error())
	}
	d := double.New(o)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// device copies floats to a block of their own.
func device(t *testing.T, d driver.Driver, x []float32) []byte {
	b, err := d.Alloc(len(x) * 4)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Free(b)) })
	require.NoError(t, d.CopyIn(0, b, executor.Memory(x)))
	return b
}

func kernel(t *testing.T, d driver.Driver, module, name string) driver.Function {
	m, err := d.Load(module, nil)
	require.NoError(t, err)
	f, err := d.Function(m, name)
	require.NoError(t, err)
	return f
}

// unary packs unary_args of elementwise.h.
func unary(x, y []byte, n int) *driver.Args {
	a := new(driver.Args).Reset()
	a.In(x)
	a.Out(y)
	a.Int(n)
	a.Float32(1)
	a.Float32(0)
	return a
}

// apply runs a kernel of one operand.
func apply(t *testing.T, d driver.Driver, name string, x []float32) []float32 {
	in, out := device(t, d, x), device(t, d, make([]float32, len(x)))
	require.NoError(t, d.Launch(kernel(t, d, "unary_f32", name), driver.Line(3, 64), 0, unary(in, out, len(x))))
	y := make([]float32, len(x))
	require.NoError(t, d.CopyOut(0, executor.Memory(y), out))
	return y
}

// TestFunctionsUlps compares functions.h with Go's float64 functions: over all magnitudes, in units
// in the last place of the float32 result.
func TestFunctionsUlps(t *testing.T) {
	d := opened(t, double.Options{})
	for _, f := range []struct {
		name   string
		want   func(float64) float64
		ulps   float64
		lo, hi float64 // 0, 0: every magnitude
	}{
		{"exp_f32", math.Exp, 2, -110, 90},
		{"log_f32", math.Log, 2, 0, 0},
		{"tanh_f32", math.Tanh, 4, -12, 12},
		{"erf_f32", math.Erf, 4, -5, 5},
		{"sin_f32", math.Sin, 2, 0, 0},
		{"cos_f32", math.Cos, 2, 0, 0},
		{"sin_f32", math.Sin, 2, -1e6, 1e6},
		{"tan_f32", math.Tan, 4, 0, 0},
		{"atan_f32", math.Atan, 1, 0, 0},
		{"asin_f32", math.Asin, 1, -1, 1},
		{"acos_f32", math.Acos, 1, -1, 1},
		{"sinh_f32", math.Sinh, 1, -80, 80},
		{"cosh_f32", math.Cosh, 1, -80, 80},
		{"asinh_f32", math.Asinh, 1, 0, 0},
		{"acosh_f32", math.Acosh, 1, 1, 1e6},
		{"atanh_f32", math.Atanh, 1, -1, 1},
		{"sigmoid_f32", func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 4, -80, 80},
		{"softplus_f32", func(x float64) float64 { return math.Log1p(math.Exp(x)) }, 4, -80, 80},
		{"sqrt_f32", math.Sqrt, 0.5, 0, 0},
	} {
		x := samples(f.lo, f.hi)
		y := apply(t, d, f.name, x)
		worst, at := 0.0, float32(0)
		for i := range x {
			if e := ulps(y[i], f.want(float64(x[i]))); e > worst {
				worst, at = e, x[i]
			}
		}
		t.Logf("%-14s %.2f ulps at %v", f.name, worst, at)
		if !(worst <= f.ulps) {
			t.Errorf("%s: %v ulps at %v, wanted at most %v", f.name, worst, at, f.ulps)
		}
	}
}

// samples returns floats: evenly over lo..hi, or of every exponent and sign.
func samples(lo, hi float64) []float32 {
	var x []float32
	if lo == hi {
		for e := uint32(1); e < 255; e++ {
			for i := range uint32(16) {
				bits := e<<23 | (i*0x7ffff+i*i*2654435)&0x7fffff
				x = append(x, math.Float32frombits(bits), math.Float32frombits(bits|1<<31))
			}
		}
		return append(x, 0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)),
			float32(math.NaN()))
	}
	const n = 8191
	for i := range n + 1 {
		x = append(x, float32(lo+(hi-lo)*float64(i)/n))
	}
	return x
}

// ulps returns how far got is from want, in units in the last place of a float32.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	if w == got || w != w && got != got {
		if math.IsInf(want, 0) || w != w || math.IsInf(float64(w), 0) {
			return 0
		}
	}
	if math.IsInf(float64(got), 0) || math.IsInf(float64(w), 0) || got != got || w != w {
		// The largest float rounds to infinity half a unit above.
		if math.Abs(float64(got)) == math.MaxFloat32 || math.Abs(float64(w)) == math.MaxFloat32 {
			return 1
		}
		return math.Inf(1)
	}
	_, e := math.Frexp(want)
	unit := math.Ldexp(1, max(e-24, -149))
	return math.Abs(float64(got)-want) / unit
}

// TestRules: what a device forbids is found and named.
func TestRules(t *testing.T) {
	d := opened(t, double.Options{Memory: 4096})
	x, y := device(t, d, []float32{1, 2, 3, 4}), device(t, d, make([]float32, 4))
	f := kernel(t, d, "unary_f32", "neg_f32")
	try := func(a *driver.Args) error {
		e := double.New(double.Options{}) // the first error is for good
		defer e.Close()
		return e.Launch(kernel(t, e, "unary_f32", "neg_f32"), driver.Line(1, 32), 0, a)
	}
	require.ErrorContains(t, try(unary(x, y, 4)), "no device memory")
	require.NoError(t, d.Launch(f, driver.Line(1, 32), 0, unary(x, y, 4)))

	_, err := d.Alloc(8192)
	require.ErrorIs(t, err, executor.ErrOutOfMemory)

	gone, err := d.Alloc(64)
	require.NoError(t, err)
	require.NoError(t, d.Free(gone))
	require.ErrorContains(t, d.Free(gone), "twice")
	require.ErrorContains(t, d.CopyIn(0, gone, make([]byte, 64)), "after it was freed")
	require.ErrorContains(t, d.CopyOut(0, make([]byte, 32), driver.Memory(driver.Address(x), 32)), "beyond the end")

	for _, c := range []struct {
		want string
		args func(x, y []byte) *driver.Args
	}{
		{"of an operand of 8 bytes has been written to", func(x, y []byte) *driver.Args { return unary(x, y[:8], 4) }},
		{"arguments", func(x, y []byte) *driver.Args { a := unary(x, y, 4); a.Float32(1); a.Float32(2); return a }},
	} {
		e := double.New(double.Options{})
		x, err := e.Alloc(16)
		require.NoError(t, err)
		y, err := e.Alloc(16)
		require.NoError(t, err)
		require.ErrorContains(t,
			e.Launch(kernel(t, e, "unary_f32", "neg_f32"), driver.Line(1, 32), 0, c.args(x, y)), c.want)
		require.Error(t, e.Close(), "the launch has failed, and memory was not given back")
	}
}

// TestLazyGraph: work waits for a wait, in order; a captured graph does it again.
func TestLazyGraph(t *testing.T) {
	d := opened(t, double.Options{Lazy: true})
	x, y := device(t, d, []float32{1, 2, 3, 4}), device(t, d, make([]float32, 4))
	f := kernel(t, d, "unary_f32", "neg_f32")
	got := make([]float32, 4)
	require.NoError(t, d.BeginCapture(0))
	require.NoError(t, d.Launch(f, driver.Line(1, 32), 0, unary(x, y, 4)))
	require.NoError(t, d.Launch(f, driver.Line(1, 32), 0, unary(y, x, 4)))
	require.Error(t, d.CopyOut(0, executor.Memory(got), x))
	require.NoError(t, d.Launch(f, driver.Line(1, 32), 0, unary(x, x, 4)))
	g, err := d.EndCapture(0)
	require.NoError(t, err)
	for _, want := range [][]float32{{1, 2, 3, 4}, {-1, -2, -3, -4}, {1, 2, 3, 4}} {
		require.NoError(t, d.CopyOut(0, executor.Memory(got), x))
		require.Equal(t, want, got)
		require.NoError(t, d.Replay(g, 0))
	}
	require.NoError(t, d.Sync(0))
}

// TestDivider divides as Go does.
func TestDivider(t *testing.T) {
	for _, d := range []int{1, 2, 3, 5, 7, 10, 641, 1 << 20, 1<<31 - 1, 1 << 30, 1<<30 + 1} {
		a := new(driver.Args).Reset()
		a.Divider(d)
		b := executor.Cast[uint32](a.Bytes())
		for _, n := range []uint32{0, 1, 2, 9, 1000, 1<<31 - 1, 1<<31 - 2, uint32(d), uint32(d - 1),
			uint32(min(2*d, 1<<31-1))} {
			q := (uint32(uint64(n)*uint64(b[1])>>32) + n) >> b[2]
			require.Equal(t, n/uint32(d), q, "%d / %d", n, d)
		}
	}
}

// TestShapes: what a device has no room for is refused: threads that may need too many registers,
// shared memory, empty grids.
func TestShapes(t *testing.T) {
	d := opened(t, double.Options{})
	x, y := device(t, d, []float32{1, 2, 3, 4}), device(t, d, make([]float32, 4))
	for _, c := range []struct {
		shape driver.Shape
		want  string
	}{
		{driver.Line(1, 288), "a block of 288 threads, where its PTX promises at most 256"},
		{driver.Line(0, 32), "a launch of grid [0 1 1]"},
		{driver.Shape{Grid: [3]uint32{1, 65536, 1}, Block: [3]uint32{32, 1, 1}}, "a launch of grid [1 65536 1]"},
		{driver.Shape{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Shared: 48<<10 + 1},
			"49153 bytes of shared memory"},
	} {
		e := double.New(double.Options{}) // the first error is for good
		defer e.Close()
		require.ErrorContains(t, e.Launch(kernel(t, e, "unary_f32", "neg_f32"), c.shape, 0, unary(x, y, 4)), c.want)
	}
	require.NoError(t, d.Launch(kernel(t, d, "unary_f32", "neg_f32"), driver.Line(1, 256), 0, unary(x, y, 4)))
}

// TestModules: every module compiles for the host.
func TestModules(t *testing.T) {
	d := opened(t, double.Options{})
	for _, m := range kernels.Modules() {
		_, err := d.Load(m, nil)
		require.NoError(t, err, "run go generate ./executor/cuda/kernels")
	}
}
