package ort

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/sim/allocator"
)

// chunkScales are thresholds of size: a round leaves out the values up to one of them. How chunks
// split, and so how much of them is wasted, depends on small values and on workspaces that the
// model knows only roughly; the highest of several outcomes is the one to promise. The sizes are
// chosen here, they are not the runtime's.
var chunkScales = []int64{0, 64, 1 << 10, 8 << 10, 64 << 10}

// mostInChunks is the highest of several estimates of the bytes in use in ONNX Runtime's arena.
func (a *bufferPlan) mostInChunks(p *live.Program, order []int32, space [][]int64) int64 {
	var most int64
	for _, skip := range chunkScales {
		most = max(most, a.inChunks(p, order, space, skip))
	}
	return most
}

// inChunks is the peak of the bytes in use in ONNX Runtime's arena when the program of the plan
// runs, without values of skip bytes or fewer. space has the workspaces of kernels, by node.
func (a *bufferPlan) inChunks(p *live.Program, order []int32, space [][]int64, skip int64) int64 {
	begins, ends := make([][]graph.ValueID, len(order)), make([][]graph.ValueID, len(order))
	for v, root := range a.root {
		if root != graph.ValueID(v) || p.Bytes[v] <= skip {
			continue
		}
		begins[a.start[v]] = append(begins[a.start[v]], root)
		if end := a.end[v]; end >= 0 && !a.out[v] {
			ends[end] = append(ends[end], root)
		}
	}
	arena := allocator.NewBFC(allocator.OnnxRuntime, allocator.Memory{})
	held := make([]int32, len(a.root))
	var blocks []int32
	for at, i := range order {
		for _, v := range begins[at] {
			held[v] = arena.Alloc(p.Bytes[v])
		}
		blocks = blocks[:0]
		if s := &p.Steps[i]; s.Inner > 0 {
			blocks = append(blocks, arena.Alloc(s.Inner))
		}
		for _, bytes := range a.workspace(&p.Steps[i], at, space) {
			blocks = append(blocks, arena.Alloc(bytes))
		}
		for _, c := range blocks {
			arena.Release(c)
		}
		for _, v := range ends[at] {
			arena.Release(held[v])
		}
	}
	return arena.Most()
}
