package executor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"memopt/internal/memlimit"
	"memopt/planner/arena"
)

// ExtendStrategy decides the growth of an arena when no free block is large enough. The names are
// ONNX Runtime's (arena_extend_strategy).
type ExtendStrategy uint8

const (
	// NextPowerOfTwo doubles the size of regions from one to the next, from firstRegion
	// on: few regions, up to half of them unused.
	NextPowerOfTwo ExtendStrategy = iota
	// SameAsRequested adds a region of the requested size: no unused memory at first, more regions
	// and more fragments later.
	SameAsRequested
)

// strategyNames are the names on the command line.
var strategyNames = [...]string{NextPowerOfTwo: "kNextPowerOfTwo", SameAsRequested: "kSameAsRequested"}

// String returns the strategy's name.
func (s ExtendStrategy) String() string { return strategyNames[s] }

// ParseExtendStrategy returns the strategy with the given name.
func ParseExtendStrategy(name string) (ExtendStrategy, error) {
	if i := slices.Index(strategyNames[:], name); i >= 0 {
		return ExtendStrategy(i), nil
	}
	return 0, fmt.Errorf("arena extend strategy %q: wanted %s or %s", name, NextPowerOfTwo, SameAsRequested)
}

// firstRegion is the size of an arena's first region under NextPowerOfTwo, as in ONNX Runtime.
const firstRegion = 1 << 20

// ErrOutOfMemory is wrapped by the error of an allocation beyond an arena's limit or beyond the
// available memory.
var ErrOutOfMemory = memlimit.ErrOutOfMemory

// Arena hands out blocks of memory that lies outside Go's heap, each at a multiple of
// arena.Alignment: best fit, free neighbours merged. Several sessions may share one; it is safe for
// concurrent use.
type Arena struct {
	strategy ExtendStrategy
	limit    int64
	source   DeviceMemory // where regions come from

	mu      sync.Mutex
	regions [][]byte
	next    int64   // size of the next region when sizes double; 0 means firstRegion
	blocks  []block // by number; numbers of blocks that are gone are in spare
	spare   []int32
	free    []int32         // free blocks by size, then by address
	used    map[*byte]int32 // blocks in use by their first byte
	stats   ArenaStats
}

// ArenaStats are the sizes of an arena, in bytes.
type ArenaStats struct {
	InUse    int64 // of blocks that are handed out
	Peak     int64 // the most that was in use
	Reserved int64 // taken from the operating system
	Regions  int
}

// block is a stretch of a region, in use or free, with its neighbours in the region.
type block struct {
	data       []byte
	prev, next int32 // -1 means no neighbour
	free       bool
}

// NewArena returns an empty arena. A limit above 0 bounds the bytes that it takes from the
// operating system.
func NewArena(s ExtendStrategy, limit int64) *Arena { return newArenaOn(hostMemory{}, s, limit) }

// NewArenaFor returns an empty arena in the memory that holds the values of a device's sessions.
func NewArenaFor(d Device, s ExtendStrategy, limit int64) *Arena {
	return newArenaOn(memoryOf(d), s, limit)
}

// memoryOf returns the memory that holds the values of a device's sessions.
func memoryOf(d Device) DeviceMemory {
	if a, ok := d.(Accelerator); ok {
		return a.Memory()
	}
	return hostMemory{}
}

func newArenaOn(source DeviceMemory, s ExtendStrategy, limit int64) *Arena {
	return &Arena{strategy: s, limit: limit, source: source, used: map[*byte]int32{}}
}

// grow makes sure that n bytes are free in one block, unless the arena is not empty.
func (a *Arena) grow(n int) error {
	if n == 0 || a.Stats().Regions > 0 {
		return nil
	}
	b, err := a.Reserve(n)
	if err == nil {
		a.Free(b)
		a.ResetPeak()
	}
	return err
}

// Fit makes room for a block of n bytes in one piece, and first gives back unused regions, so that
// arenas that serve one plan after another do not add up. The error wraps ErrOutOfMemory.
func (a *Arena) Fit(n int) error {
	if n == 0 || a.fits(n) {
		return nil
	}
	if err := a.trim(); err != nil {
		return err
	}
	b, err := a.Reserve(n)
	if err == nil {
		a.Free(b)
		a.ResetPeak()
	}
	return err
}

// fits reports whether a free block has n bytes.
func (a *Arena) fits(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.find(blockSize(n))
	return ok
}

// trim gives unused regions back.
func (a *Arena) trim() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var first error
	for _, i := range slices.Clone(a.free) {
		b := a.blocks[i]
		if b.prev >= 0 || b.next >= 0 {
			continue
		}
		a.unlist(i)
		a.spare = append(a.spare, i)
		at := slices.IndexFunc(a.regions, func(r []byte) bool {
			return unsafe.SliceData(r) == unsafe.SliceData(b.data)
		})
		region := a.regions[at]
		a.regions = slices.Delete(a.regions, at, at+1)
		a.stats.Reserved -= int64(len(region))
		a.stats.Regions = len(a.regions)
		if err := a.source.Free(region); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Stats returns the arena's sizes.
func (a *Arena) Stats() ArenaStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

// ResetPeak sets the peak to the bytes in use now.
func (a *Arena) ResetPeak() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Peak = a.stats.InUse
}

// Alloc returns a block of n bytes with undefined contents. The error wraps ErrOutOfMemory if the
// limit forbids it.
func (a *Arena) Alloc(n int) ([]byte, error) { return a.alloc(n, a.strategy) }

// Reserve is Alloc for a block that is planned to hold everything: if the arena must grow, it grows
// by no more than the block, whatever the strategy.
func (a *Arena) Reserve(n int) ([]byte, error) { return a.alloc(n, SameAsRequested) }

func (a *Arena) alloc(n int, s ExtendStrategy) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	size := blockSize(n)
	i, ok := a.find(size)
	if !ok {
		if err := a.extend(size, s); err != nil {
			return nil, err
		}
		i, _ = a.find(size)
	}
	a.take(i, size)
	b := &a.blocks[i]
	a.used[unsafe.SliceData(b.data)] = i
	a.stats.InUse += int64(size)
	a.stats.Peak = max(a.stats.Peak, a.stats.InUse)
	return b.data[:n:n], nil
}

// blockSize is the size of a block for n bytes.
func blockSize(n int) int { return int(arena.Align(int64(n))) }

// find returns the smallest free block of at least size bytes.
func (a *Arena) find(size int) (int32, bool) {
	at, _ := slices.BinarySearchFunc(a.free, size, func(i int32, size int) int {
		return cmp.Or(cmp.Compare(len(a.blocks[i].data), size), 1)
	})
	if at == len(a.free) {
		return 0, false
	}
	return a.free[at], true
}

// take splits a free block and takes its first size bytes out of the free ones.
func (a *Arena) take(i int32, size int) {
	a.unlist(i)
	rest := a.blocks[i].data[size:]
	a.blocks[i].data = a.blocks[i].data[:size]
	a.blocks[i].free = false
	if len(rest) == 0 {
		return
	}
	next := a.blocks[i].next
	j := a.newBlock(block{data: rest, prev: i, next: next, free: true})
	if a.blocks[i].next = j; next >= 0 {
		a.blocks[next].prev = j
	}
	a.list(j)
}

// extend takes a region from the operating system.
func (a *Arena) extend(size int, s ExtendStrategy) error {
	want := int64(size)
	if s == NextPowerOfTwo {
		want = firstRegion
		if a.next > 0 {
			want = a.next
		}
		for want < int64(size) && want <= 1<<61 {
			want *= 2
		}
		want = max(want, int64(size))
	}
	if a.limit > 0 {
		if left := (a.limit - a.stats.Reserved) / arena.Alignment * arena.Alignment; want > left {
			want = left // all that is left, if it is enough
		}
		if want < int64(size) {
			return fmt.Errorf("%w: wanted %d bytes; of the limit of %d bytes, %d are in use and "+
				"%d are reserved in pieces that are too small",
				ErrOutOfMemory, size, a.limit, a.stats.InUse, a.stats.Reserved-a.stats.InUse)
		}
	}
	data, err := a.source.Alloc(int(want))
	if errors.Is(err, ErrOutOfMemory) && want > int64(size) {
		want = int64(size) // no room to grow by more than is needed
		data, err = a.source.Alloc(size)
	}
	if err != nil {
		return err
	}
	if s == NextPowerOfTwo {
		a.next = 2 * want
	}
	a.regions = append(a.regions, data)
	a.stats.Reserved += want
	a.stats.Regions = len(a.regions)
	a.list(a.newBlock(block{data: data, prev: -1, next: -1, free: true}))
	return nil
}

// Free gives a block back.
func (a *Arena) Free(data []byte) {
	if len(data) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := unsafe.SliceData(data)
	i, ok := a.used[key]
	if !ok {
		panic("executor: Free of memory that this arena has not handed out")
	}
	delete(a.used, key)
	a.stats.InUse -= int64(len(a.blocks[i].data))
	a.blocks[i].free = true
	if next := a.blocks[i].next; next >= 0 && a.blocks[next].free {
		a.unlist(next)
		a.merge(i, next)
	}
	if prev := a.blocks[i].prev; prev >= 0 && a.blocks[prev].free {
		a.unlist(prev)
		a.merge(prev, i)
		i = prev
	}
	a.list(i)
}

// merge appends block j to its predecessor i.
func (a *Arena) merge(i, j int32) {
	b, c := &a.blocks[i], &a.blocks[j]
	b.data = unsafe.Slice(unsafe.SliceData(b.data), len(b.data)+len(c.data))
	if b.next = c.next; b.next >= 0 {
		a.blocks[b.next].prev = i
	}
	a.spare = append(a.spare, j)
}

func (a *Arena) newBlock(b block) int32 {
	if n := len(a.spare); n > 0 {
		i := a.spare[n-1]
		a.spare = a.spare[:n-1]
		a.blocks[i] = b
		return i
	}
	a.blocks = append(a.blocks, b)
	return int32(len(a.blocks) - 1)
}

// compare orders free blocks by size, then by address.
func (a *Arena) compare(i, j int32) int {
	b, c := &a.blocks[i], &a.blocks[j]
	return cmp.Or(cmp.Compare(len(b.data), len(c.data)),
		cmp.Compare(uintptr(unsafe.Pointer(unsafe.SliceData(b.data))),
			uintptr(unsafe.Pointer(unsafe.SliceData(c.data)))))
}

func (a *Arena) list(i int32) {
	at, _ := slices.BinarySearchFunc(a.free, i, a.compare)
	a.free = slices.Insert(a.free, at, i)
}

func (a *Arena) unlist(i int32) {
	at, ok := slices.BinarySearchFunc(a.free, i, a.compare)
	if !ok {
		panic("executor: a free block is not in the list of free blocks")
	}
	a.free = slices.Delete(a.free, at, at+1)
}

// Close gives all memory back to the operating system. No block may be used any more.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var first error
	for _, r := range a.regions {
		if err := a.source.Free(r); err != nil && first == nil {
			first = err
		}
	}
	a.regions, a.blocks, a.spare, a.free = nil, nil, nil, nil
	clear(a.used)
	a.stats = ArenaStats{}
	return first
}
