package cpu_test

import (
	"testing"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// moveBenchMemory gives each output slot and piece of workspace one array, which it keeps.
type moveBenchMemory struct {
	out     map[int][]byte
	scratch []byte
}

func (m *moveBenchMemory) Output(slot, n int) ([]byte, error) {
	if len(m.out[slot]) < n {
		m.out[slot] = make([]byte, n)
	}
	return m.out[slot][:n], nil
}

func (m *moveBenchMemory) Scratch(n int) ([]byte, error) {
	if len(m.scratch) < n {
		m.scratch = make([]byte, n)
	}
	return m.scratch[:n], nil
}

// benchMove runs a node; bytes is what it reads and writes.
func benchMove(b *testing.B, kind graph.Kind, bytes int, attrs []graph.Attr, outs int, in ...*executor.Tensor) {
	info := op.Of(kind)
	n := &graph.Node{Op: info.Name, Kind: kind, Attrs: attrs}
	p := &executor.Prep{Node: n, Label: info.Name, Info: info, Version: info.SinceVersion(1 << 30)}
	for _, t := range in {
		p.In = append(p.In, t.DType)
	}
	var out []*executor.Tensor
	for range outs {
		p.Out = append(p.Out, graph.Float32)
		out = append(out, &executor.Tensor{DType: graph.Float32})
	}
	k, err := cpu.Device{}.Kernel(p)
	if err != nil {
		b.Fatal(err)
	}
	pool := executor.NewPool(0)
	defer pool.Close()
	c := executor.NewCtx(p, pool, &moveBenchMemory{out: map[int][]byte{}}, in, out)
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		if err := executor.Invoke(k, c); err != nil {
			b.Fatal(err)
		}
	}
}

func benchFloats(shape ...int) *executor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return executor.NewTensor(graph.Float32, shape, make([]float32, n)...)
}

func benchIndices(n, below int) *executor.Tensor {
	at := make([]int64, n)
	for i := range at {
		at[i] = int64(i * 7919 % below)
	}
	return executor.NewTensor(graph.Int64, []int{n}, at...)
}

func BenchmarkMove(b *testing.B) {
	perm := func(p ...int64) []graph.Attr { return []graph.Attr{kerneltest.Attr("perm", p)} }
	axis := []graph.Attr{kerneltest.Attr("axis", int64(2))}
	b.Run("Transpose0213", func(b *testing.B) {
		benchMove(b, op.Transpose, 2*4*8*256*4*64, perm(0, 2, 1, 3), 1, benchFloats(8, 256, 4, 64))
	})
	b.Run("TransposeLast", func(b *testing.B) {
		benchMove(b, op.Transpose, 2*4*32*256*64, perm(0, 2, 1), 1, benchFloats(32, 256, 64))
	})
	b.Run("TransposeLarge", func(b *testing.B) {
		benchMove(b, op.Transpose, 2*4*1024*1024, perm(1, 0), 1, benchFloats(1024, 1024))
	})
	b.Run("Copy", func(b *testing.B) {
		benchMove(b, op.Concat, 2*4*8*256*256, []graph.Attr{kerneltest.Attr("axis", int64(0))}, 1,
			benchFloats(8, 256, 256))
	})
	b.Run("Concat", func(b *testing.B) {
		benchMove(b, op.Concat, 2*4*8*256*768, axis, 1, benchFloats(8, 256, 256), benchFloats(8, 256, 256),
			benchFloats(8, 256, 256))
	})
	b.Run("Split", func(b *testing.B) {
		benchMove(b, op.Split, 2*4*8*256*768, axis, 3, benchFloats(8, 256, 768))
	})
	b.Run("Gather", func(b *testing.B) {
		benchMove(b, op.Gather, 2*4*2048*256, nil, 1, benchFloats(8192, 256), benchIndices(2048, 8192))
	})
	b.Run("GatherGrad", func(b *testing.B) {
		shape := executor.NewTensor(graph.Int64, []int{2}, int64(8192), int64(256))
		benchMove(b, op.GatherGrad, 4*8192*256+3*4*2048*256, nil, 1, shape, benchIndices(2048, 8192),
			benchFloats(2048, 256))
	})
	b.Run("ScatterElements", func(b *testing.B) {
		benchMove(b, op.ScatterElements, 2*4*1024*1024, []graph.Attr{kerneltest.Attr("reduction", "add")}, 1,
			benchFloats(1024, 512), executor.NewTensor(graph.Int64, []int{1024, 512}, make([]int64, 1024*512)...),
			benchFloats(1024, 512))
	})
}
