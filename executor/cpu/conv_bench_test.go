package cpu_test

import (
	"fmt"
	"testing"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
)

// benchMemory gives a node's outputs and workspace memory that is kept from run to run.
type benchMemory struct {
	out     map[int][]byte
	scratch [][]byte
	used    int
}

func (m *benchMemory) Output(slot, n int) ([]byte, error) {
	if len(m.out[slot]) != n {
		m.out[slot] = executor.Memory(make([]float64, (n+7)/8))[:n]
	}
	return m.out[slot], nil
}

func (m *benchMemory) Scratch(n int) ([]byte, error) {
	if m.used == len(m.scratch) {
		m.scratch = append(m.scratch, nil)
	}
	s := &m.scratch[m.used]
	m.used++
	if len(*s) < n {
		*s = executor.Memory(make([]float64, (n+7)/8))
	}
	return (*s)[:n], nil
}

// benchNode measures a node with two threads. flops, if not 0, are per run.
func benchNode(
	b *testing.B, kind graph.Kind, attrs []graph.Attr, in []*executor.Tensor, out []graph.DType, flops float64,
) {
	info := op.Of(kind)
	n := &graph.Node{Name: "n", Op: info.Name, Domain: info.Domain, Kind: kind, Attrs: attrs}
	p := &executor.Prep{Node: n, Label: "n", Info: info, Threads: 2, Out: out, Version: info.SinceVersion(1 << 30)}
	in = append([]*executor.Tensor(nil), in...)
	for i, t := range in {
		p.In = append(p.In, t.DType)
		if t.DType == graph.Undefined {
			in[i] = nil
		}
	}
	k, err := cpu.Device{}.Kernel(p)
	if err != nil {
		b.Fatal(err)
	}
	pool := executor.NewPool(2)
	defer pool.Close()
	m := &benchMemory{out: map[int][]byte{}}
	var outs []*executor.Tensor
	for _, d := range out {
		outs = append(outs, &executor.Tensor{DType: d})
	}
	c := executor.NewCtx(p, pool, m, in, outs)
	bytes := 0
	for b.Loop() {
		m.used = 0
		if err := executor.Invoke(k, c); err != nil {
			b.Fatal(err)
		}
	}
	for _, t := range append(outs, in...) {
		if t != nil {
			bytes += len(t.Data)
		}
	}
	b.SetBytes(int64(bytes))
	if flops > 0 {
		b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()*1e-9, "GFLOP/s")
	}
}

// noise returns a float32 tensor with numbers from -1 to 1.
func noise(shape ...int) *executor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data, s := make([]float32, n), uint32(12345)
	for i := range data {
		s = s*1664525 + 1013904223
		data[i] = float32(int32(s)) / (1 << 31)
	}
	return executor.NewTensor(graph.Float32, shape, data...)
}

// benchConvs are the distinct convolutions of ResNet-18.
var benchConvs = []struct{ c, m, k, stride, size int }{
	{3, 64, 7, 2, 224}, {64, 64, 3, 1, 56}, {64, 128, 3, 2, 56}, {64, 128, 1, 2, 56}, {128, 128, 3, 1, 28},
	{128, 256, 3, 2, 28}, {128, 256, 1, 2, 28}, {256, 256, 3, 1, 14}, {256, 512, 3, 2, 14}, {256, 512, 1, 2, 14},
	{512, 512, 3, 1, 7},
}

func convBenchAttrs(k, stride int) []graph.Attr {
	pad, s := int64(k/2), int64(stride)
	return []graph.Attr{{Name: "pads", Value: []int64{pad, pad, pad, pad}}, {Name: "strides", Value: []int64{s, s}}}
}

func BenchmarkConv(b *testing.B) {
	for _, l := range benchConvs {
		b.Run(fmt.Sprintf("c=%d,m=%d,k=%d,s=%d,hw=%d", l.c, l.m, l.k, l.stride, l.size), func(b *testing.B) {
			out := l.size / l.stride
			flops := 2 * 4 * float64(l.m*out*out*l.c*l.k*l.k)
			benchNode(b, op.Conv, convBenchAttrs(l.k, l.stride),
				[]*executor.Tensor{noise(4, l.c, l.size, l.size), noise(l.m, l.c, l.k, l.k)},
				[]graph.DType{graph.Float32}, flops)
		})
	}
	for _, stride := range []int{1, 2} {
		b.Run(fmt.Sprintf("depthwise,s=%d", stride), func(b *testing.B) {
			attrs := append(convBenchAttrs(3, stride), graph.Attr{Name: "group", Value: int64(96)})
			out := 112 / stride
			benchNode(b, op.Conv, attrs, []*executor.Tensor{noise(4, 96, 112, 112), noise(96, 1, 3, 3)},
				[]graph.DType{graph.Float32}, 2*4*9*96*float64(out*out))
		})
	}
}

func BenchmarkConvGrad(b *testing.B) {
	for _, l := range benchConvs {
		b.Run(fmt.Sprintf("c=%d,m=%d,k=%d,s=%d,hw=%d", l.c, l.m, l.k, l.stride, l.size), func(b *testing.B) {
			out := l.size / l.stride
			flops := 4 * 4 * float64(l.m*out*out*l.c*l.k*l.k)
			benchNode(b, op.ConvGrad, convBenchAttrs(l.k, l.stride),
				[]*executor.Tensor{noise(4, l.m, out, out), noise(4, l.c, l.size, l.size), noise(l.m, l.c, l.k, l.k)},
				[]graph.DType{graph.Float32, graph.Float32}, flops)
		})
	}
}

func BenchmarkPool(b *testing.B) {
	window := append(convBenchAttrs(3, 2), graph.Attr{Name: "kernel_shape", Value: []int64{3, 3}})
	f := []graph.DType{graph.Float32}
	x := []*executor.Tensor{noise(4, 64, 112, 112)}
	b.Run("max", func(b *testing.B) { benchNode(b, op.MaxPool, window, x, f, 0) })
	b.Run("max with indices", func(b *testing.B) {
		benchNode(b, op.MaxPool, window, x, []graph.DType{graph.Float32, graph.Int64}, 0)
	})
	b.Run("average", func(b *testing.B) { benchNode(b, op.AveragePool, window, x, f, 0) })
	b.Run("global average", func(b *testing.B) {
		benchNode(b, op.GlobalAveragePool, nil, []*executor.Tensor{noise(32, 512, 7, 7)}, f, 0)
	})
}

func BenchmarkResize(b *testing.B) {
	scales := executor.NewTensor[float32](graph.Float32, []int{4}, 1, 1, 2, 2)
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		b.Run(mode, func(b *testing.B) {
			benchNode(b, op.Resize, []graph.Attr{{Name: "mode", Value: mode}},
				[]*executor.Tensor{noise(4, 64, 56, 56), {}, scales}, []graph.DType{graph.Float32}, 0)
		})
	}
}
