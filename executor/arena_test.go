package executor

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
	"memopt/planner/arena"
)

// TestArenaProperty takes and gives back blocks at random and looks at every byte: blocks never
// overlap, the counts are right, and an arena whose blocks are all free has one free block per
// region.
func TestArenaProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		strategy := rapid.SampledFrom([]ExtendStrategy{NextPowerOfTwo, SameAsRequested}).Draw(rt, "strategy")
		limit := rapid.SampledFrom([]int64{0, 1 << 20, 3 << 20}).Draw(rt, "limit")
		a := NewArena(strategy, limit)
		defer a.Close()
		type piece struct {
			data []byte
			mark byte
		}
		var live []piece
		var inUse, peak int64
		for step := range rapid.IntRange(1, 120).Draw(rt, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(rt, "free") {
				i := rapid.IntRange(0, len(live)-1).Draw(rt, "which")
				require.Equal(rt, bytes.Repeat([]byte{live[i].mark}, len(live[i].data)), live[i].data,
					"a block was written to by another")
				a.Free(live[i].data)
				inUse -= rounded(len(live[i].data))
				live = append(live[:i], live[i+1:]...)
				continue
			}
			n := rapid.IntRange(1, 300_000).Draw(rt, "bytes")
			data, err := a.Alloc(n)
			if err != nil {
				require.ErrorIs(rt, err, ErrOutOfMemory)
				require.Positive(rt, limit)
				continue
			}
			require.Len(rt, data, n)
			require.Zero(rt, uintptr(unsafe.Pointer(unsafe.SliceData(data)))%64)
			p := piece{data, byte(step)}
			for i := range p.data {
				p.data[i] = p.mark
			}
			live = append(live, p)
			inUse += rounded(n)
			peak = max(peak, inUse)
			s := a.Stats()
			require.Equal(rt, inUse, s.InUse)
			require.Equal(rt, peak, s.Peak)
			require.GreaterOrEqual(rt, s.Reserved, s.InUse)
			if limit > 0 {
				require.LessOrEqual(rt, s.Reserved, limit)
			}
		}
		for _, p := range live {
			a.Free(p.data)
		}
		require.Zero(rt, a.Stats().InUse)
		require.Len(rt, a.free, a.Stats().Regions, "free neighbours are not merged")
	})
}

func rounded(n int) int64 {
	return int64((n + arena.Alignment - 1) / arena.Alignment * arena.Alignment)
}

func TestArenaGrowth(t *testing.T) {
	a := NewArena(NextPowerOfTwo, 0)
	defer a.Close()
	for range 3 {
		_, err := a.Alloc(firstRegion)
		require.NoError(t, err)
	}
	// 1 MiB, then 2 MiB, of which half is left.
	require.Equal(t, ArenaStats{InUse: 3 << 20, Peak: 3 << 20, Reserved: 3 << 20, Regions: 2}, a.Stats())
	b := NewArena(SameAsRequested, 0)
	defer b.Close()
	for range 3 {
		_, err := b.Alloc(1000)
		require.NoError(t, err)
	}
	require.Equal(t, ArenaStats{InUse: 3 * 1024, Peak: 3 * 1024, Reserved: 3 * 1024, Regions: 3}, b.Stats())
}

func TestArenaAllocatesNothingOnTheHeap(t *testing.T) {
	a := NewArena(NextPowerOfTwo, 0)
	defer a.Close()
	step := func() {
		x, _ := a.Alloc(5000)
		y, _ := a.Alloc(700)
		a.Free(x)
		z, _ := a.Alloc(300)
		a.Free(y)
		a.Free(z)
	}
	step()
	require.Zero(t, testing.AllocsPerRun(100, step))
}

// sum adds up its items, each piece apart.
type sum struct {
	in, out []int64
}

func (s *sum) Range(lo, hi int) {
	for i := lo; i < hi; i++ {
		s.out[i] = 2 * s.in[i]
	}
}

func TestPool(t *testing.T) {
	for _, threads := range []int{1, 2, 7} {
		p := NewPool(threads)
		s := &sum{in: make([]int64, 100_003), out: make([]int64, 100_003)}
		for i := range s.in {
			s.in[i] = int64(i)
		}
		run := func() { p.Run(len(s.in), 1000, s) }
		run()
		for i, v := range s.out {
			require.EqualValues(t, 2*i, v)
		}
		require.Zero(t, testing.AllocsPerRun(20, run), "%d threads", threads)
		p.Close()
	}
}

// faulty panics on one item.
type faulty struct{}

func (faulty) Range(lo, hi int) {
	if lo <= 5000 && 5000 < hi {
		panic("item 5000")
	}
}

func TestPoolCarriesPanics(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	for range 10 {
		func() {
			defer func() { require.Contains(t, recover(), "item 5000") }()
			p.Run(10_000, 100, faulty{})
		}()
	}
	s := &sum{in: make([]int64, 10), out: make([]int64, 10)}
	p.Run(10, 1, s) // still works
}

// TestArenaFit: room for a larger block takes the place of regions in which nothing is in use, and of
// no other.
func TestArenaFit(t *testing.T) {
	a := NewArena(SameAsRequested, 0)
	defer a.Close()
	taken := func(n int) []byte {
		b, err := a.Reserve(n)
		require.NoError(t, err)
		for i := range b {
			b[i] = byte(n)
		}
		return b
	}
	whole := taken(3 << 20) // one region, of which the first or the last part will be in use
	a.Free(whole)
	first, last := taken(1<<20), taken(2<<20)
	a.Free(first)
	require.NoError(t, a.Fit(1<<20))
	require.EqualValues(t, 3<<20, a.Stats().Reserved, "there is room")
	require.NoError(t, a.Fit(4<<20))
	require.EqualValues(t, 7<<20, a.Stats().Reserved)
	require.Equal(t, byte(0), last[0])
	first = taken(1<<20 - 64)
	a.Free(last)
	require.NoError(t, a.Fit(8<<20))
	require.EqualValues(t, 3<<20+8<<20, a.Stats().Reserved, "the free region has gone")
	require.Len(t, first, 1<<20-64)
	a.Free(first)
	require.NoError(t, a.Fit(9<<20))
	require.EqualValues(t, 9<<20, a.Stats().Reserved)
	require.Equal(t, 1, a.Stats().Regions)
	require.NoError(t, a.Fit(0))
	tight := NewArena(SameAsRequested, 1<<20)
	defer tight.Close()
	require.ErrorIs(t, tight.Fit(2<<20), ErrOutOfMemory)
}
