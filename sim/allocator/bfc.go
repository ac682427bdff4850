package allocator

import (
	"cmp"
	"fmt"
	"slices"
)

// Numbers of both runtimes' arenas (BFCAllocator in TensorFlow's tsl/framework/bfc_allocator.cc, which XLA has too, and
// BFCArena in ONNX Runtime's framework/bfc_arena.cc).
const (
	chunkAlign     = 256       // kMinAllocationSize
	mostDeadBytes  = 128 << 20 // DEFAULT_MAX_DEAD_BYTES_PER_CHUNK: a chunk with so much to spare is split
	chunkSplitFrom = 2         // a chunk this many times the size asked for is split (SplitFreeChunkFromBin)
	noChunk        = -1        // kInvalidChunkHandle
	backpedal      = 0.9       // kBackpedalFactor: a region that the device has no memory for is tried smaller
)

// Growth says how an arena takes regions of the device.
type Growth struct {
	First   int64 // bytes of the first region; each further one is twice as large
	Largest int64 // doubling ends there; 0: it has no end
	capped  bool  // a region is at most the memory that is left, from the start
	words   string
}

// The growth of the runtimes' arenas by default.
var (
	// OnnxRuntime is that of arena_extend_strategy kNextPowerOfTwo.
	OnnxRuntime = Growth{1 << 20, 1 << 30, false, "Failed to allocate memory for requested buffer of size %d"}
	// TensorFlow is that of allow_growth; JAX has it with XLA_PYTHON_CLIENT_PREALLOCATE=false.
	TensorFlow = Growth{2 << 20, 0, true, "RESOURCE_EXHAUSTED: Out of memory while trying to allocate %d bytes."}
)

// BFC is an arena of TensorFlow or ONNX Runtime (best fit with coalescing): it hands out the smallest free chunk that
// is large enough, splits it only if it is at least twice as large, and counts the whole chunk as in use. Regions grow
// by doubling.
type BFC struct {
	growth Growth
	memory Memory
	chunks []chunk
	free   []int32 // free chunks by size, then by place
	next   int64   // bytes of the next region
	place  int64
	usage  Usage
	most   int64
	held   []heldChunk // by number, of Take
}

// heldChunk is a chunk with the bytes that were asked for.
type heldChunk struct {
	chunk int32
	asked int64
}

// NewBFC returns an arena without regions.
func NewBFC(g Growth, m Memory) *BFC { return &BFC{growth: g, memory: m, next: g.First} }

// Most is the most bytes that were in use at one time.
func (a *BFC) Most() int64 { return a.most }

// Usage is the memory at this moment.
func (a *BFC) Usage() Usage { return a.usage }

// Reserve takes bytes of the device that lie in no region, as ONNX Runtime does for weights.
func (a *BFC) Reserve(bytes int64) *OutOfMemoryError {
	size := roundUp(bytes, chunkAlign)
	if size > a.memory.free(a.usage.Reserved) {
		return a.fail(bytes)
	}
	a.usage.Asked += bytes
	a.usage.Allocated += size
	a.usage.Reserved += size
	return nil
}

func (a *BFC) fail(bytes int64) *OutOfMemoryError {
	return &OutOfMemoryError{Words: fmt.Sprintf(a.growth.words, bytes), Asked: bytes, Usage: a.usage}
}

// Take implements [Allocator].
func (a *BFC) Take(block int32, bytes int64) error {
	c := a.Alloc(bytes)
	if c == noChunk {
		return a.fail(bytes)
	}
	for int(block) >= len(a.held) {
		a.held = append(a.held, heldChunk{})
	}
	a.held[block] = heldChunk{c, bytes}
	a.usage.Asked += bytes
	return nil
}

// Give implements [Allocator].
func (a *BFC) Give(block int32) {
	a.usage.Asked -= a.held[block].asked
	a.Release(a.held[block].chunk)
}

// chunk is a part of a region.
type chunk struct {
	size, at   int64
	prev, next int32 // neighbours in the region, or noChunk
}

func (a *BFC) order(x, y int32) int {
	return cmp.Or(cmp.Compare(a.chunks[x].size, a.chunks[y].size), cmp.Compare(a.chunks[x].at, a.chunks[y].at))
}

// Alloc takes a chunk for some bytes, a number of the arena's; -1 where the device has no memory for it.
func (a *BFC) Alloc(bytes int64) int32 {
	need := roundUp(bytes, chunkAlign)
	i, _ := slices.BinarySearchFunc(a.free, need, func(c int32, n int64) int {
		if a.chunks[c].size < n {
			return -1
		}
		return 1
	})
	if i == len(a.free) {
		if !a.extend(need) {
			return noChunk
		}
		return a.Alloc(bytes)
	}
	c := a.free[i]
	a.free = slices.Delete(a.free, i, i+1)
	if size := a.chunks[c].size; size >= chunkSplitFrom*need || size-need >= mostDeadBytes {
		a.split(c, need)
	}
	a.usage.Allocated += a.chunks[c].size
	a.most = max(a.most, a.usage.Allocated)
	return c
}

// extend adds a region, and reports whether the device had memory for it.
func (a *BFC) extend(need int64) bool {
	room := a.memory.free(a.usage.Reserved) / chunkAlign * chunkAlign
	if need > room {
		return false
	}
	grown := false
	for ; a.next < need; grown = true {
		a.next *= 2
	}
	size := a.next
	if a.growth.capped {
		size = min(size, room)
	}
	for size > room {
		if size = roundUp(int64(float64(size)*backpedal), chunkAlign); size < need {
			return false
		}
	}
	a.chunks = append(a.chunks, chunk{size: size, at: a.place, prev: noChunk, next: noChunk})
	a.place += size + chunkAlign // regions do not touch
	a.usage.Reserved += size
	a.put(int32(len(a.chunks) - 1))
	if !grown && (a.growth.Largest == 0 || a.next < a.growth.Largest) {
		a.next *= 2
	}
	return true
}

func (a *BFC) put(c int32) {
	i, _ := slices.BinarySearchFunc(a.free, c, a.order)
	a.free = slices.Insert(a.free, i, c)
}

func (a *BFC) split(c int32, need int64) {
	rest := int32(len(a.chunks))
	old := a.chunks[c]
	a.chunks = append(a.chunks, chunk{size: old.size - need, at: old.at + need, prev: c, next: old.next})
	if old.next != noChunk {
		a.chunks[old.next].prev = rest
	}
	a.chunks[c].size, a.chunks[c].next = need, rest
	a.put(rest)
}

// Release gives a chunk back and joins it with free neighbours.
func (a *BFC) Release(c int32) {
	a.usage.Allocated -= a.chunks[c].size
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
func (a *BFC) byPlace(x, y int32) (first, second int32) {
	if a.chunks[x].at < a.chunks[y].at {
		return x, y
	}
	return y, x
}
