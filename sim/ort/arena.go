package ort

import (
	"cmp"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
)

// Numbers of ONNX Runtime's default arena (BFCArena in framework/bfc_arena.h and bfc_arena.cc).
const (
	chunkAlign     = 256       // kMinAllocationSize
	firstRegion    = 1 << 20   // DEFAULT_INITIAL_CHUNK_SIZE_BYTES; each further region is twice as large
	largestRegion  = 1 << 30   // DEFAULT_MAX_POWER_OF_TWO_EXTEND_BYTES: doubling ends there
	mostDeadBytes  = 128 << 20 // DEFAULT_MAX_DEAD_BYTES_PER_CHUNK: a chunk with so much to spare is split
	chunkSplitFrom = 2         // a chunk this many times the size asked for is split (SplitFreeChunkFromBin)
	noChunk        = -1        // kInvalidChunkHandle
)

// chunkArena simulates the bytes in use of ONNX Runtime's arena (its bfc_arena.cc, after
// TensorFlow's): it hands out the smallest free chunk that is large enough, splits it only if it is
// at least twice as large, and counts the whole chunk as in use. Regions grow by doubling.
type chunkArena struct {
	chunks []chunk
	free   []int32 // free chunks by size, then by place
	next   int64   // bytes of the next region
	place  int64
	inUse  int64
	most   int64
}

// chunk is a part of a region.
type chunk struct {
	size, at   int64
	prev, next int32 // neighbours in the region, or noChunk
}

func (a *chunkArena) order(x, y int32) int {
	return cmp.Or(cmp.Compare(a.chunks[x].size, a.chunks[y].size), cmp.Compare(a.chunks[x].at, a.chunks[y].at))
}

// alloc takes a chunk for some bytes.
func (a *chunkArena) alloc(bytes int64) int32 {
	need := (bytes + chunkAlign - 1) / chunkAlign * chunkAlign
	i, _ := slices.BinarySearchFunc(a.free, need, func(c int32, n int64) int {
		if a.chunks[c].size < n {
			return -1
		}
		return 1
	})
	if i == len(a.free) {
		a.extend(need)
		return a.alloc(bytes)
	}
	c := a.free[i]
	a.free = slices.Delete(a.free, i, i+1)
	if size := a.chunks[c].size; size >= chunkSplitFrom*need || size-need >= mostDeadBytes {
		a.split(c, need)
	}
	a.inUse += a.chunks[c].size
	a.most = max(a.most, a.inUse)
	return c
}

// extend adds a region.
func (a *chunkArena) extend(need int64) {
	grown := false
	for a.next = max(a.next, firstRegion); a.next < need; grown = true {
		a.next *= 2
	}
	a.chunks = append(a.chunks, chunk{size: a.next, at: a.place, prev: noChunk, next: noChunk})
	a.place += a.next + chunkAlign // regions do not touch
	a.put(int32(len(a.chunks) - 1))
	if !grown && a.next < largestRegion {
		a.next *= 2
	}
}

func (a *chunkArena) put(c int32) {
	i, _ := slices.BinarySearchFunc(a.free, c, a.order)
	a.free = slices.Insert(a.free, i, c)
}

func (a *chunkArena) split(c int32, need int64) {
	rest := int32(len(a.chunks))
	old := a.chunks[c]
	a.chunks = append(a.chunks, chunk{size: old.size - need, at: old.at + need, prev: c, next: old.next})
	if old.next != noChunk {
		a.chunks[old.next].prev = rest
	}
	a.chunks[c].size, a.chunks[c].next = need, rest
	a.put(rest)
}

// release gives a chunk back and joins it with free neighbours.
func (a *chunkArena) release(c int32) {
	a.inUse -= a.chunks[c].size
	for _, n := range []int32{a.chunks[c].next, a.chunks[c].prev} {
		if n == noChunk {
			continue
		}
		i, free := slices.BinarySearchFunc(a.free, n, a.order)
		if !free {
			continue
		}
		a.free = slices.Delete(a.free, i, i+1)
		first, second := a.byPlace(c, n)
		a.chunks[first].size += a.chunks[second].size
		after := a.chunks[second].next
		a.chunks[first].next = after
		if after != noChunk {
			a.chunks[after].prev = first
		}
		a.chunks[second].size = 0 // it is no longer in use
		c = first
	}
	a.put(c)
}

// byPlace orders two neighbours by place.
func (a *chunkArena) byPlace(x, y int32) (first, second int32) {
	if a.chunks[x].at < a.chunks[y].at {
		return x, y
	}
	return y, x
}

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
	var arena chunkArena
	held := make([]int32, len(a.root))
	var blocks []int32
	for at, i := range order {
		for _, v := range begins[at] {
			held[v] = arena.alloc(p.Bytes[v])
		}
		blocks = blocks[:0]
		if s := &p.Steps[i]; s.Inner > 0 {
			blocks = append(blocks, arena.alloc(s.Inner))
		}
		for _, bytes := range a.workspace(&p.Steps[i], at, space) {
			blocks = append(blocks, arena.alloc(bytes))
		}
		for _, c := range blocks {
			arena.release(c)
		}
		for _, v := range ends[at] {
			arena.release(held[v])
		}
	}
	return arena.most
}
