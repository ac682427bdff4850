package cpu_test

import (
	"bytes"
	"fmt"
	"testing"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
)

// heap gives outputs memory on Go's heap, the same from run to run.
type heap struct {
	outs  [2][]byte
	calls int
}

func (h *heap) Output(slot, n int) ([]byte, error) {
	h.calls++
	if len(h.outs[slot]) != n {
		h.outs[slot] = make([]byte, n)
	}
	return h.outs[slot], nil
}

func (h *heap) Scratch(n int) ([]byte, error) { return make([]byte, n), nil }

// node is a kernel with its operands, ready to run.
type node struct {
	kernel executor.Kernel
	ctx    *executor.Ctx
	heap   *heap
}

func makeNode(t testing.TB, pool *executor.Pool, kind graph.Kind, out graph.DType, in ...*executor.Tensor) *node {
	t.Helper()
	info := op.Of(kind)
	p := &executor.Prep{Node: &graph.Node{Op: info.Name, Domain: info.Domain, Kind: kind}, Label: info.Name, Info: info,
		Version: info.SinceVersion(1 << 30), Out: []graph.DType{out}, Threads: pool.Threads()}
	for _, x := range in {
		p.In = append(p.In, x.DType)
	}
	k, err := cpu.Device{}.Kernel(p)
	if err != nil {
		t.Fatal(err)
	}
	h := &heap{}
	return &node{k, executor.NewCtx(p, pool, h, in, []*executor.Tensor{{DType: out}}), h}
}

// ramp makes a tensor of numbers between -3 and 3.
func ramp(shape ...int) *executor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i*7919%6007)/1001 - 3
	}
	return executor.NewTensor(graph.Float32, shape, v...)
}

// TestLoopers runs kernels block by block, which must give what Run gives, and makes sure that
// Begin refuses what is not a flat loop.
func TestLoopers(t *testing.T) {
	pool := executor.NewPool(1)
	defer pool.Close()
	x, y, s := ramp(3, 1001), ramp(3, 1001), ramp()
	cond := executor.NewTensor(graph.Bool, []int{3, 1001}, bytes.Repeat([]byte{1, 0, 0}, 1001)...)
	ints := executor.NewTensor[int32](graph.Int32, []int{2}, 6, 4)
	for _, c := range []struct {
		kind graph.Kind
		flat bool
		in   []*executor.Tensor
	}{
		{op.Tanh, true, []*executor.Tensor{x}}, {op.Add, true, []*executor.Tensor{x, y}},
		{op.Mul, true, []*executor.Tensor{x, s}},
		{op.Sub, true, []*executor.Tensor{s, x}}, {op.Where, true, []*executor.Tensor{cond, x, s}},
		{op.Sum, true, []*executor.Tensor{x, y, s}},
		{op.Clip, true, []*executor.Tensor{x, s, s}}, {op.GeluGrad, true, []*executor.Tensor{x, y}},
		{op.Pow, true, []*executor.Tensor{x, s}},
		{op.Add, false, []*executor.Tensor{x, ramp(1001)}}, {op.Add, false, []*executor.Tensor{ramp(3, 1), x}},
		{op.BiasGelu, false, []*executor.Tensor{x, ramp(1001)}}, {op.Div, false, []*executor.Tensor{ints, ints}},
	} {
		out := c.in[len(c.in)-1].DType
		whole := makeNode(t, pool, c.kind, out, c.in...)
		if err := executor.Invoke(whole.kernel, whole.ctx); err != nil {
			t.Fatal(err)
		}
		parts := makeNode(t, pool, c.kind, out, c.in...)
		looper := parts.kernel.(executor.Looper)
		n, err := looper.Begin(parts.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !c.flat {
			if n != -1 || parts.heap.calls != 0 {
				t.Errorf("%s: Begin returned %d and asked for %d outputs, wanted -1 and none",
					op.Of(c.kind).Name, n, parts.heap.calls)
			}
			continue
		}
		if n != 3003 {
			t.Fatalf("%s: Begin returned %d, wanted 3003", op.Of(c.kind).Name, n)
		}
		for lo := 0; lo < n; lo += 700 {
			looper.Range(lo, min(lo+700, n))
		}
		if !bytes.Equal(whole.heap.outs[0], parts.heap.outs[0]) {
			t.Errorf("%s: block by block is not the same as in one run", op.Of(c.kind).Name)
		}
	}
}

// TestPowBits compares an exponent for all elements with one for each: both must give the same
// bits.
func TestPowBits(t *testing.T) {
	pool := executor.NewPool(1)
	defer pool.Close()
	x := ramp(6007)
	for _, e := range []float32{2, 3, 0.5, 1.25} {
		each := ramp(6007)
		for i := range 6007 {
			executor.Of[float32](each)[i] = e
		}
		var got [2][]byte
		for i, y := range []*executor.Tensor{executor.NewTensor(graph.Float32, nil, e), each} {
			n := makeNode(t, pool, op.Pow, graph.Float32, x, y)
			if err := executor.Invoke(n.kernel, n.ctx); err != nil {
				t.Fatal(err)
			}
			got[i] = n.heap.outs[0]
		}
		if !bytes.Equal(got[0], got[1]) {
			t.Errorf("x^%v depends on how often the exponent is given", e)
		}
	}
}

// BenchmarkElementwise runs kernels on a million elements of float32.
func BenchmarkElementwise(b *testing.B) {
	const n = 1 << 20
	x, y, s := ramp(1024, 1024), ramp(1024, 1024), ramp(1)
	half := make([]uint16, n)
	for i := range half {
		half[i] = uint16(0x3c00 + i%1024)
	}
	h := executor.NewTensor(graph.Float16, []int{1024, 1024}, half...)
	cond := executor.NewTensor(graph.Bool, []int{1024, 1024}, make([]byte, n)...)
	for i := range n {
		cond.Data[i] = byte(i * 7919 >> 4 & 1)
	}
	for _, c := range []struct {
		name string
		kind graph.Kind
		out  graph.DType
		in   []*executor.Tensor
	}{
		{"Add", op.Add, graph.Float32, []*executor.Tensor{x, y}},
		{"AddScalar", op.Add, graph.Float32, []*executor.Tensor{x, s}},
		{"AddBias", op.Add, graph.Float32, []*executor.Tensor{x, ramp(1024)}},
		{"AddColumn", op.Add, graph.Float32, []*executor.Tensor{x, ramp(1024, 1)}},
		{"AddShortRows", op.Add, graph.Float32, []*executor.Tensor{ramp(n/4, 4), ramp(4)}},
		{"AddHalf", op.Add, graph.Float16, []*executor.Tensor{h, h}},
		{"Sum3", op.Sum, graph.Float32, []*executor.Tensor{x, y, x}},
		{"Relu", op.Relu, graph.Float32, []*executor.Tensor{x}},
		{"LeakyRelu", op.LeakyRelu, graph.Float32, []*executor.Tensor{x}},
		{"Abs", op.Abs, graph.Float32, []*executor.Tensor{x}},
		{"Max", op.Max, graph.Float32, []*executor.Tensor{x, y}},
		{"Less", op.Less, graph.Bool, []*executor.Tensor{x, y}},
		{"Where", op.Where, graph.Float32, []*executor.Tensor{cond, x, y}},
		{"Square", op.Pow, graph.Float32, []*executor.Tensor{x, executor.NewTensor[float32](graph.Float32, nil, 2)}},
		{"Tanh", op.Tanh, graph.Float32, []*executor.Tensor{x}},
		{"Gelu", op.GeluMS, graph.Float32, []*executor.Tensor{x}},
		{"BiasGelu", op.BiasGelu, graph.Float32, []*executor.Tensor{x, ramp(1024)}},
		{"GeluGrad", op.GeluGrad, graph.Float32, []*executor.Tensor{x, y}},
		{"ReluGrad", op.ReluGrad, graph.Float32, []*executor.Tensor{x, y}},
		{"Elu", op.Elu, graph.Float32, []*executor.Tensor{x}},
		{"Mish", op.Mish, graph.Float32, []*executor.Tensor{x}},
		{"Sin", op.Sin, graph.Float32, []*executor.Tensor{x}},
		{"DivGrad", op.DivGrad, graph.Float32, []*executor.Tensor{x, ramp(1024), y}},
	} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", c.name, threads), func(b *testing.B) {
				pool := executor.NewPool(threads)
				defer pool.Close()
				node := makeNode(b, pool, c.kind, c.out, c.in...)
				b.SetBytes(4 * n)
				for b.Loop() {
					if err := executor.Invoke(node.kernel, node.ctx); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
