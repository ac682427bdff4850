package cuda

import (
	"fmt"
	"math"
	"slices"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/internal/half"
)

// SelfTest runs kernels/selftest.cu and products by kernels/gemm.h on the device: the parts that
// all other kernels are built from must give known integers. The error says which do not.
func (d *Device) SelfTest() error {
	const threads, blocks = 96, 4
	x := make([]int32, threads*blocks)
	for i := range x {
		x[i] = int32(i*i%211) - 50
	}
	sums, most, moved, reversed := make([]int32, blocks), make([]int32, len(x)), make([]int32, len(x)),
		make([]int32, len(x))
	total := []int32{0, 0}
	for i, v := range x {
		lane, warp := i%32, i/32*32
		sums[i/threads] += v
		most[i] = slices.Max(x[warp : warp+32])
		moved[i] = v + 1000*x[warp+min(lane+1, 31)] + 100000*x[i]
		if lane >= 2 {
			moved[i] = v + 1000*x[warp+min(lane+1, 31)] + 100000*x[i-2]
		}
		reversed[i] = x[i/threads*threads+threads-1-i%threads]
		total[0], total[1] = total[0]+v, max(total[1], v)
	}
	floats, halves := selftestHalves()
	for _, c := range []struct {
		name    string
		x, want []int32
		shared  int
	}{
		{"block_sum", x, sums, 0}, {"warp_max", x, most, 0}, {"shuffles", x, moved, 0},
		{"reverse", x, reversed, 4 * threads},
		{"atomics", x, total, 0}, {"halves", floats, halves, 0},
	} {
		got, err := d.runSelftest("selftest_"+c.name, c.x, len(c.want), blocks, threads, c.shared)
		if err != nil {
			return fmt.Errorf("self-test %s: %w", c.name, err)
		}
		for i, want := range c.want {
			if got[i] != want {
				return fmt.Errorf("self-test %s: result %d is %#x, wanted %#x", c.name, i, got[i], want)
			}
		}
	}
	return d.selftestProducts()
}

// selftestHalves returns the bits of floats, and of the float16 and bfloat16 nearest to them.
func selftestHalves() (x, want []int32) {
	for _, v := range []float32{0, 1, -1.5, 65519, 65520, 1e-8, 6.1e-5, 3.14159265, 1.00390625, 1.01171875, -1e30,
		float32(math.Inf(1))} {
		x = append(x, int32(math.Float32bits(v)))
		want = append(want, int32(uint32(half.Float16From(v))<<16|uint32(half.BFloat16From(v))))
	}
	return x, want
}

// runSelftest runs a kernel of selftest_args.
func (d *Device) runSelftest(name string, x []int32, outputs, blocks, threads, shared int) ([]int32, error) {
	l, err := d.launch("selftest", name)
	if err != nil {
		return nil, err
	}
	m, y := d.Memory(), make([]int32, outputs)
	in, err := m.Alloc(4 * len(x))
	if err != nil {
		return nil, err
	}
	defer m.Free(in)
	out, err := m.Alloc(4 * outputs)
	if err != nil {
		return nil, err
	}
	defer m.Free(out)
	if err := m.CopyIn(in, executor.Memory(x)); err != nil {
		return nil, err
	}
	if err := m.Fill(out, 0); err != nil {
		return nil, err
	}
	packSelftest(l.begin(), in, out, len(x))
	if err := l.rows(blocks, threads, shared); err != nil {
		return nil, err
	}
	return y, m.CopyOut(executor.Memory(y), out)
}

func packSelftest(a *driver.Args, x, y []byte, n int) {
	a.In(x).Out(y).Int(n)
}
