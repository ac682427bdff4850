package double_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/internal/half"
	"memopt/internal/test/double"
)

// selftest runs a kernel of selftest.cu twice, threads forwards and backwards, and returns what it
// made of x both times.
func selftest(t *testing.T, name string, x []int32, outputs int, shape driver.Shape) [][]int32 {
	t.Helper()
	got, err := trySelftest(t, name, x, outputs, shape)
	require.NoError(t, err)
	return got
}

func trySelftest(t *testing.T, name string, x []int32, outputs int, shape driver.Shape) ([][]int32, error) {
	if _, err := double.Compiler(); err != nil {
		t.Skip("the driver double compiles the kernels: " + err.Error())
	}
	d := double.New(double.Options{})
	defer d.Close()
	m, err := d.Load("selftest", nil)
	require.NoError(t, err)
	f, err := d.Function(m, "selftest_"+name)
	require.NoError(t, err)
	in, err := d.Alloc(4 * len(x))
	require.NoError(t, err)
	require.NoError(t, d.CopyIn(0, in, executor.Memory(x)))
	out, err := d.Alloc(4 * outputs)
	require.NoError(t, err)
	var all [][]int32
	for range 2 {
		require.NoError(t, d.Fill(0, out, 0))
		a := new(driver.Args).Reset()
		a.In(in)
		a.Out(out)
		a.Int(len(x))
		if err := d.Launch(f, shape, 0, a); err != nil {
			return nil, err
		}
		y := make([]int32, outputs)
		require.NoError(t, d.CopyOut(0, executor.Memory(y), out))
		all = append(all, y)
	}
	return all, nil
}

func numbers(n int) []int32 {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]int32, n)
	for i := range x {
		x[i] = rng.Int32N(200) - 50
	}
	return x
}

// TestSelftest: barriers, shuffles, shared memory and atomics do on the double what CUDA says they
// do.
func TestSelftest(t *testing.T) {
	x := numbers(4 * 96)
	for run, sums := range selftest(t, "block_sum", x, 4, driver.Line(4, 96)) {
		for b, got := range sums {
			var want int32
			for _, v := range x[b*96 : (b+1)*96] {
				want += v
			}
			require.Equal(t, want, got, "run %d, block %d", run, b)
		}
	}
	for _, most := range selftest(t, "warp_max", x, len(x), driver.Line(4, 96)) {
		for i, got := range most {
			want := x[i/32*32]
			for _, v := range x[i/32*32 : i/32*32+32] {
				want = max(want, v)
			}
			require.Equal(t, want, got)
		}
	}
	for _, y := range selftest(t, "shuffles", x, len(x), driver.Line(4, 96)) {
		for i, got := range y {
			down, up := i+1, i-2
			if i%32 == 31 {
				down = i
			}
			if i%32 < 2 {
				up = i
			}
			require.Equal(t, x[i]+1000*x[down]+100000*x[up], got, "%d", i)
		}
	}
	shape := driver.Line(4, 96)
	shape.Shared = 96 * 4
	for _, y := range selftest(t, "reverse", x, len(x), shape) {
		for i, got := range y {
			require.Equal(t, x[i/96*96+95-i%96], got)
		}
	}
	for _, y := range selftest(t, "atomics", x, 2, driver.Line(2, 64)) {
		var sum, most int32
		for _, v := range x {
			sum, most = sum+v, max(most, v)
		}
		require.Equal(t, []int32{sum, most}, y)
	}
}

// TestHalves compares the conversions with package half's: every float16, and floats all over.
func TestHalves(t *testing.T) {
	all := make([]int32, 1<<16)
	for i := range all {
		all[i] = int32(i)
	}
	for i, got := range selftest(t, "widen", all, len(all), driver.Line(1, 256))[0] {
		want, have := half.Float16(i).Float32(), math.Float32frombits(uint32(got))
		require.True(t, want == have || want != want && have != have, "%#x is %v, wanted %v", i, have, want)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var x []int32
	for range 40000 {
		x = append(x, int32(rng.Uint32()), int32(math.Float32bits(float32(rng.NormFloat64()))),
			int32(math.Float32bits(rng.Float32()*1e-5)))
	}
	x = append(x, 0x477fefff, 0x477ff000, 0x477fe000, 0x387fffff, 0x33000000, 0x33000001, 0x7f7fffff, 0x7f800000)
	for i, got := range selftest(t, "halves", x, len(x), driver.Line(1, 256))[0] {
		v := math.Float32frombits(uint32(x[i]))
		h, b := half.Float16(uint32(got)>>16), half.BFloat16(uint32(got))
		if v != v {
			require.True(t, h.Float32() != h.Float32() && b.Float32() != b.Float32())
			continue
		}
		require.Equal(t, half.Float16From(v), h, "%v", v)
		require.Equal(t, half.BFloat16From(v), b, "%v", v)
	}
}

// TestFindsFaults: what a GPU would punish, or let pass with wrong numbers, is found.
func TestFindsFaults(t *testing.T) {
	x := numbers(32)
	for name, want := range map[string]string{
		"skips_barrier": "16 of 32 threads have ended, the others wait at a barrier",
		"writes_beyond": "byte 128 of an operand of 128 bytes has been written to",
		"writes_input":  "an input of 128 bytes has been written to",
	} {
		_, err := trySelftest(t, name, x, 32, driver.Line(1, 32))
		require.ErrorContains(t, err, "kernel selftest_"+name)
		require.ErrorContains(t, err, want)
	}
	y := selftest(t, "races", x, 32, driver.Line(1, 32))
	require.NotEqual(t, y[0], y[1])
	for _, y := range selftest(t, "reads_nothing", x, 32, driver.Line(1, 32)) {
		require.Equal(t, int32(-1), y[7])
	}
}
