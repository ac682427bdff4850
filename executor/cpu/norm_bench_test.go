package cpu_test

import (
	"testing"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
)

// normMemory keeps the memory of a kernel from run to run.
type normMemory struct {
	out, scratch [][]byte
	used         int
}

func (m *normMemory) Output(slot, n int) ([]byte, error) {
	for len(m.out) <= slot {
		m.out = append(m.out, nil)
	}
	if len(m.out[slot]) != n {
		m.out[slot] = make([]byte, n)
	}
	return m.out[slot], nil
}

func (m *normMemory) Scratch(n int) ([]byte, error) {
	if m.used == len(m.scratch) {
		m.scratch = append(m.scratch, make([]byte, n))
	}
	m.used++
	return m.scratch[m.used-1][:n], nil
}

// normInput makes a tensor with numbers between -1 and 1.
func normInput(d graph.DType, shape ...int) *executor.Tensor {
	n, _ := executor.Bytes(d, shape)
	t := &executor.Tensor{DType: d, Shape: shape, Data: make([]byte, n)}
	seed := uint32(1)
	for i := range t.Len() {
		seed = seed*1664525 + 1013904223
		switch d {
		case graph.Float32:
			executor.Of[float32](t)[i] = float32(int32(seed)) / (1 << 31)
		case graph.Float64:
			executor.Of[float64](t)[i] = float64(int32(seed)) / (1 << 31)
		case graph.Int64:
			executor.Of[int64](t)[i] = int64(seed >> 24)
		case graph.Int32:
			executor.Of[int32](t)[i] = int32(seed >> 30)
		case graph.Bool:
			t.Data[i] = uint8(seed >> 31)
		default:
			executor.Of[uint16](t)[i] = 0x3c00 ^ uint16(seed>>16)&0x81ff
		}
	}
	return t
}

// runNorm measures a kernel; bytes per second count inputs and outputs once.
func runNorm(b *testing.B, k graph.Kind, outs []graph.DType, attrs []graph.Attr, in ...*executor.Tensor) {
	info := op.Of(k)
	p := &executor.Prep{Node: &graph.Node{Op: info.Name, Kind: k, Attrs: attrs}, Label: info.Name, Info: info,
		Version: info.SinceVersion(1 << 30)}
	total := 0
	for _, t := range in {
		p.In = append(p.In, t.DType)
		total += len(t.Data)
	}
	p.Out = outs
	out := make([]*executor.Tensor, len(outs))
	for i, d := range outs {
		out[i] = &executor.Tensor{DType: d}
	}
	kernel, err := cpu.Device{}.Kernel(p)
	if err != nil {
		b.Fatal(err)
	}
	pool, mem := executor.NewPool(0), &normMemory{}
	defer pool.Close()
	ctx := executor.NewCtx(p, pool, mem, in, out)
	for b.Loop() {
		mem.used = 0
		if err := executor.Invoke(kernel, ctx); err != nil {
			b.Fatal(err)
		}
	}
	for _, t := range out {
		total += len(t.Data)
	}
	b.SetBytes(int64(total))
}

func intAttr(name string, v int64) []graph.Attr { return []graph.Attr{{Name: name, Value: v}} }

func axesInput(axes ...int64) *executor.Tensor {
	return executor.NewTensor(graph.Int64, []int{len(axes)}, axes...)
}

func BenchmarkNorms(b *testing.B) {
	f := func(shape ...int) *executor.Tensor { return normInput(graph.Float32, shape...) }
	float := graph.Float32
	one, two, three := []graph.DType{float}, []graph.DType{float, float}, []graph.DType{float, float, float}
	halves, places := []graph.DType{graph.Float16}, []graph.DType{graph.Int64}
	run := func(name string, k graph.Kind, outs []graph.DType, attrs []graph.Attr, in ...*executor.Tensor) {
		b.Run(name, func(b *testing.B) { runNorm(b, k, outs, attrs, in...) })
	}
	run("column sums", op.ReduceSum, one, nil, f(2048, 1024), axesInput(0))
	run("row sums", op.ReduceSum, one, nil, f(2048, 1024), axesInput(1))
	run("row means", op.ReduceMean, one, nil, f(32768, 64), axesInput(1))
	run("short row sums", op.ReduceSum, one, nil, f(262144, 8), axesInput(1))
	run("short column sums", op.ReduceSum, one, nil, f(262144, 8), axesInput(0))
	run("small planes", op.ReduceMean, one, nil, f(64, 512, 7, 7), axesInput(2, 3))
	run("middle sums", op.ReduceSum, one, nil, f(16, 128, 1024), axesInput(1))
	run("channel means", op.ReduceMean, one, nil, f(4, 64, 112, 112), axesInput(0, 2, 3))
	run("half column sums", op.ReduceSum, halves, nil, normInput(graph.Float16, 2048, 1024), axesInput(0))
	run("row maxima", op.ReduceMax, one, nil, f(2048, 1024), axesInput(1))
	run("ArgMax", op.ArgMax, places, intAttr("axis", 1), f(2048, 1024))
	run("TopK", op.TopK, append(one[:1:1], places...), nil, f(512, 4096),
		executor.NewTensor[int64](graph.Int64, []int{1}, 16))
	scores := f(8*4*256, 256)
	run("Softmax", op.Softmax, one, nil, scores)
	run("half Softmax", op.Softmax, halves, nil, normInput(graph.Float16, 8*4*256, 256))
	run("LogSoftmax", op.LogSoftmax, one, nil, scores)
	run("SoftmaxGrad", op.SoftmaxGrad13, one, nil, scores, f(8*4*256, 256))
	run("Softmax of columns", op.Softmax, one, intAttr("axis", 1), f(16, 128, 1024))
	x, vec, row := f(2048, 256), f(256), f(2048)
	run("LayerNorm", op.LayerNormalization, three, nil, x, vec, vec)
	run("LayerNormGrad", op.LayerNormalizationGrad, three, nil, x, f(2048, 256), vec, row, row)
	image, ch := f(4, 64, 112, 112), f(64)
	variance := executor.NewTensor(graph.Float32, []int{64}, make([]float32, 64)...)
	run("BatchNorm", op.BatchNormalization, one, nil, image, ch, ch, ch, variance)
	run("BatchNorm training", op.BatchNormalization, three, intAttr("training_mode", 1), image, ch, ch, ch, variance)
	run("BatchNormGrad", op.BatchNormalizationGrad, three, nil, image, f(4, 64, 112, 112), ch, ch, variance)
	run("GroupNorm", op.GroupNormalization, one, intAttr("num_groups", 8), image, ch, ch)
	wide, labels := f(2048, 8192), normInput(graph.Int64, 2048)
	run("wide row sums", op.ReduceSum, one, nil, wide, axesInput(1))
	run("wide Softmax", op.Softmax, one, nil, wide)
	run("loss", op.SoftmaxCrossEntropyLoss, one, nil, wide, labels)
	run("loss and log_prob", op.SoftmaxCrossEntropyLoss, two, nil, wide, labels)
	run("loss gradient", op.SoftmaxCrossEntropyLossInternalGrad, one, nil, f(), wide, labels)
	run("loss of places", op.SoftmaxCrossEntropyLoss, two, nil, f(8, 256, 64, 64), normInput(graph.Int64, 8, 64, 64))
}
