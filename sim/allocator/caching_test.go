package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
	"memopt/sim/allocator"
)

// drawConf draws options; most have the defaults.
func drawConf(t *rapid.T) (c allocator.Conf) {
	c.Expandable = rapid.Bool().Draw(t, "expandable")
	if rapid.IntRange(0, 2).Draw(t, "split") == 0 {
		c.MaxSplit = mib * int64(rapid.IntRange(20, 60).Draw(t, "max_split"))
		if rapid.Bool().Draw(t, "rounding") {
			c.MaxRounding = mib * int64(rapid.IntRange(20, 40).Draw(t, "max_rounding"))
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "segment") == 0 {
		c.LargeSegment = mib * int64(rapid.IntRange(11, 20).Draw(t, "large_segment"))
	}
	if rapid.IntRange(0, 2).Draw(t, "divide") == 0 {
		for i := range c.Divisions {
			c.Divisions[i] = int64(1) << rapid.IntRange(0, 3).Draw(t, "divisions")
		}
	}
	if rapid.Bool().Draw(t, "fraction") {
		c.Fraction = float64(rapid.IntRange(5, 10).Draw(t, "allowed")) / 10
		if rapid.Bool().Draw(t, "collect") {
			c.Garbage = float64(rapid.IntRange(1, 9).Draw(t, "threshold")) / 10
		}
	}
	return c
}

// drawBytes draws sizes of all kinds.
func drawBytes(t *rapid.T) int64 {
	return rapid.OneOf(
		rapid.Int64Range(0, 2000),
		rapid.Int64Range(1, mib),
		rapid.Int64Range(mib-600, mib+600),
		rapid.Int64Range(mib, 10*mib),
		rapid.Int64Range(10*mib-600, 70*mib),
		rapid.SampledFrom([]int64{512, mib, 2 * mib, 4 * mib, 20 * mib, 24 * mib, 40 * mib}),
	).Draw(t, "bytes")
}

// pair is a block in both ports.
type pair struct {
	a allocator.Block
	b *cell
}

// TestSecondPort: the allocator hands out the blocks that a second port of the same rules hands out, at the same
// addresses, and has as many bytes of the device, whatever is asked for in which order, with streams and options, up
// to the end of memory and behind it.
func TestSecondPort(t *testing.T) { rapid.Check(t, samePorts) }

func samePorts(t *rapid.T) {
	conf := drawConf(t)
	memory := allocator.Memory{}
	if rapid.IntRange(0, 3).Draw(t, "limited") > 0 {
		memory.Total = mib * int64(rapid.IntRange(30, 400).Draw(t, "total"))
		memory.Other = mib * int64(rapid.IntRange(0, 20).Draw(t, "other"))
	}
	a, b := allocator.NewCaching(conf, memory), newNaive(conf, memory)
	streams := rapid.IntRange(1, 3).Draw(t, "streams")
	var held []pair
	for range rapid.IntRange(1, 120).Draw(t, "events") {
		stream := int64(rapid.IntRange(0, streams-1).Draw(t, "stream"))
		switch what := rapid.IntRange(0, 19).Draw(t, "event"); {
		case what == 0:
			a.EmptyCache()
			b.empty()
		case what == 1:
			a.Done(stream)
			b.ready[stream] = len(b.queue[stream])
		case what == 2 && len(held) > 0:
			x := held[rapid.IntRange(0, len(held)-1).Draw(t, "which")]
			a.Record(x.a, stream)
			for _, s := range b.segments {
				for _, c := range s.cells {
					if c == x.b && s.stream != stream {
						c.users[stream] = true
					}
				}
			}
		case what < 9 && len(held) > 0:
			i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
			a.Free(held[i].a)
			b.give(held[i].b)
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		default:
			bytes := drawBytes(t)
			private := int64(rapid.SampledFrom([]int{0, 0, 0, 7}).Draw(t, "pool"))
			x, err := a.Alloc(bytes, allocator.Stream{ID: stream, Pool: private})
			y, ok := b.alloc(bytes, stream, private)
			require.Equal(t, ok, err == nil, "%d bytes: %v", bytes, err)
			if ok {
				require.Equal(t, y.addr, x.Address())
				require.Equal(t, y.size, x.Size())
				require.GreaterOrEqual(t, x.Size(), bytes)
				held = append(held, pair{x, y})
			}
		}
		u := a.Usage()
		require.Equal(t, b.reserved(), u.Reserved)
		require.Equal(t, b.bytesOf("held"), u.Allocated)
		require.Equal(t, b.bytesOf("held", "waits"), a.Active())
		require.Equal(t, b.asked, u.Asked)
		require.GreaterOrEqual(t, u.Reserved, a.Active())
		if memory.Total > 0 {
			require.LessOrEqual(t, u.Reserved, memory.Total-memory.Other)
		}
		apart(t, held)
	}
	for _, x := range held {
		a.Free(x.a)
	}
	a.EmptyCache()
	require.Zero(t, a.Usage().Allocated)
	require.Zero(t, a.Active(), "no block waits behind a synchronization")
}

// apart: no two blocks share a byte.
func apart(t require.TestingT, held []pair) {
	for i, x := range held {
		for _, y := range held[:i] {
			require.True(t, x.a.Address()+x.a.Size() <= y.a.Address() || y.a.Address()+y.a.Size() <= x.a.Address())
		}
	}
}
