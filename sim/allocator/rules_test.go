package allocator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/sim/allocator"
)

// asked takes blocks of so many bytes on the default stream.
func asked(t *testing.T, a *allocator.Caching, sizes ...int64) (list []allocator.Block) {
	for _, n := range sizes {
		b, err := a.Alloc(n, allocator.Stream{})
		require.NoError(t, err)
		list = append(list, b)
	}
	return list
}

// TestRulesByHand: sizes of blocks and segments as PyTorch's documentation and messages have them.
func TestRulesByHand(t *testing.T) {
	for _, c := range []struct {
		conf                string
		bytes, size, device int64
	}{
		{"", 0, 512, 2 * mib},
		{"", 1, 512, 2 * mib},
		{"", 513, 1024, 2 * mib},
		{"", mib, mib, 2 * mib},
		{"", mib + 1, mib + 512, 20 * mib},
		{"", 10*mib - 512, 10*mib - 512, 20 * mib},
		{"", 10 * mib, 10 * mib, 10 * mib},
		{"", 10*mib + 1, 10*mib + 512, 12 * mib},
		{"", 11 * mib, 12 * mib, 12 * mib}, // the rest of the segment is too small to be cut off
		{"large_segment_size_mb:12", 2 * mib, 2 * mib, 12 * mib},
		{"expandable_segments:True", 1, 512, 2 * mib},
		{"expandable_segments:True", 2 * mib, 2 * mib, 20 * mib},
		{"expandable_segments:True", 21 * mib, 21 * mib, 40 * mib},
		{"expandable_segments:True,large_segment_size_mb:12", 21 * mib, 21 * mib, 24 * mib},
		{"roundup_power2_divisions:4", 1200, 1536, 2 * mib}, // no more than 4 blocks of 512
		{"roundup_power2_divisions:4", 1200 << 10, 1280 << 10, 20 * mib},
		{"roundup_power2_divisions:[1:2,>:1]", 1200 << 10, 1536 << 10, 20 * mib},
		{"roundup_power2_divisions:[2:2,>:8]", 6*mib + 1, 6*mib + 512<<10, 20 * mib},
	} {
		conf, err := allocator.ParseConf(c.conf)
		require.NoError(t, err)
		a := allocator.NewCaching(conf, allocator.Memory{})
		b := asked(t, a, c.bytes)[0]
		require.Equal(t, c.size, b.Size(), "%q: %d bytes", c.conf, c.bytes)
		require.Equal(t, c.device, a.Usage().Reserved, "%q: %d bytes", c.conf, c.bytes)
		require.Equal(t, c.bytes, b.Asked())
	}
}

// TestFragments: free blocks between others are no block for a request that is larger than each of them; expandable
// segments grow where the last block is free.
func TestFragments(t *testing.T) {
	run := func(conf allocator.Conf) int64 {
		a := allocator.NewCaching(conf, allocator.Memory{})
		var keep, gone []int64
		for range 5 {
			keep, gone = append(keep, 2*mib), append(gone, 6*mib)
		}
		var free []allocator.Block
		for i := range keep {
			asked(t, a, keep[i])
			free = append(free, asked(t, a, gone[i])...)
		}
		for _, b := range free {
			a.Free(b)
		}
		before := a.Usage().Reserved
		asked(t, a, 25*mib)
		return a.Usage().Reserved - before
	}
	require.Equal(t, int64(26*mib), run(allocator.Conf{}), "30 MiB are free, and no two neighbours of them")
	require.Equal(t, int64(20*mib), run(allocator.Conf{Expandable: true}), "the last 6 MiB grow by a page")
}

// TestReleased: memory that is free in whole segments goes back to the device before a request fails, and other free
// memory does not.
func TestReleased(t *testing.T) {
	a := allocator.NewCaching(allocator.Conf{}, allocator.Memory{Total: 100 * mib, Other: 10 * mib})
	whole, part := asked(t, a, 40*mib)[0], asked(t, a, 4*mib)[0]
	asked(t, a, 4*mib)
	a.Free(whole)
	a.Free(part)
	require.Equal(t, int64(60*mib), a.Usage().Reserved)
	asked(t, a, 60*mib)
	require.Equal(t, int64(80*mib), a.Usage().Reserved)
	_, err := a.Alloc(13*mib, allocator.Stream{})
	var oom *allocator.OutOfMemoryError
	require.ErrorAs(t, err, &oom)
	require.Equal(t, int64(13*mib), oom.Asked)
	require.Equal(t, "CUDA out of memory. Tried to allocate 14.00 MiB. GPU 0 has a total capacity of 100.00 MiB of "+
		"which 10.00 MiB is free. Including non-PyTorch memory, this process has 90.00 MiB memory in use. Of the "+
		"allocated memory 64.00 MiB is allocated by PyTorch, and 16.00 MiB is reserved by PyTorch but unallocated. "+
		"If reserved but unallocated memory is large try setting "+
		"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "+
		"fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/"+
		"cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)", err.Error())
	conf := allocator.Conf{Fraction: .5}
	_, err = allocator.NewCaching(conf, allocator.Memory{Total: 2048 * mib}).Alloc(1025*mib, allocator.Stream{})
	require.ErrorContains(t, err, "Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 2.00 GiB of which "+
		"2.00 GiB is free. Including non-PyTorch memory, this process has 0 bytes memory in use. "+
		"1024.00 MiB allowed; Of the")
	_, err = allocator.NewCaching(allocator.Conf{}, allocator.Memory{}).Alloc(1<<62, allocator.Stream{})
	require.Error(t, err)
}

// TestEdges: a free block is taken up to the last byte of each limit, and not behind it.
func TestEdges(t *testing.T) {
	conf := allocator.Conf{MaxSplit: 20 * mib, MaxRounding: 20 * mib}
	for _, c := range []struct{ asked, reserved int64 }{{26 * mib, 44 * mib}, {24*mib + 512, 44 * mib},
		{24 * mib, (44 + 24) * mib}} {
		a := allocator.NewCaching(conf, allocator.Memory{})
		a.Free(asked(t, a, 44*mib)[0])
		asked(t, a, c.asked)
		require.Equal(t, c.reserved, a.Usage().Reserved, "%d bytes of a free block of 44 MiB", c.asked)
	}
	// Garbage: the only free segment is as old as the mean.
	a := allocator.NewCaching(allocator.Conf{Fraction: 1, Garbage: .1}, allocator.Memory{Total: 100 * mib})
	a.Free(asked(t, a, 20*mib)[0])
	asked(t, a, 30*mib)
	require.Equal(t, int64(30*mib), a.Usage().Reserved)
	// The lower one of equal free blocks serves.
	a = allocator.NewCaching(allocator.Conf{Expandable: true}, allocator.Memory{})
	list := asked(t, a, 4*mib, 2*mib, 4*mib, 2*mib)
	low := list[0].Address()
	a.Free(list[0])
	a.Free(list[2])
	require.Equal(t, low, asked(t, a, 3*mib)[0].Address())
}

// TestOtherStreams: a block that another stream has used is free when that one is done, and not before; blocks of one
// stream do not serve another.
func TestOtherStreams(t *testing.T) {
	a := allocator.NewCaching(allocator.Conf{}, allocator.Memory{})
	b := asked(t, a, 12*mib)[0]
	a.Record(b, 1)
	a.Free(b)
	require.Zero(t, a.Usage().Allocated)
	require.Equal(t, int64(12*mib), a.Active())
	asked(t, a, 12*mib)
	require.Equal(t, int64(24*mib), a.Usage().Reserved, "the first block waits")
	a.Done(1)
	asked(t, a, 12*mib)
	require.Equal(t, int64(24*mib), a.Usage().Reserved, "the first block is free")
	own := asked(t, a, 14*mib)[0]
	a.Record(own, 0)
	a.Free(own)
	_, err := a.Alloc(14*mib, allocator.Stream{ID: 3})
	require.NoError(t, err)
	require.Equal(t, int64(24+14+14)*mib, a.Usage().Reserved)
	_, err = a.Alloc(14*mib, allocator.Stream{Pool: 1})
	require.NoError(t, err)
	require.Equal(t, int64(24+14+14+14)*mib, a.Usage().Reserved, "a graph's pool is its own")
}

// TestConf reads options as PyTorch does, the example of its own test among them, and names the fault of wrong ones.
func TestConf(t *testing.T) {
	got, err := allocator.ParseConf("max_split_size_mb:40, max_non_split_rounding_mb:30," +
		"garbage_collection_threshold:0.5,roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]," +
		"expandable_segments:True,pinned_use_background_threads:True,backend:native,per_process_memory_fraction:1")
	require.NoError(t, err)
	require.Equal(t, allocator.Conf{MaxSplit: 40 * mib, MaxRounding: 30 * mib, Garbage: .5, Fraction: 1,
		Expandable: true, Divisions: [16]int64{8, 8, 8, 8, 8, 8, 8, 2, 4, 2, 4, 1, 1, 1, 1, 1}}, got)
	got, err = allocator.ParseConf("")
	require.NoError(t, err)
	require.Zero(t, got)
	for text, want := range map[string]string{
		"expandable":                         `option "expandable" has no value: wanted NAME:VALUE`,
		"expandable_segments:true":           "expandable_segments:true: wanted True or False",
		"max_split_size_mb:x":                "max_split_size_mb:x: wanted a whole number of MiB from 1 on",
		"max_split_size_mb:19":               "wanted 20 or more, the size of a segment of large blocks",
		"max_split_size_mb:9000000000000":    "wanted a whole number",
		"max_non_split_rounding_mb:19":       "from 20 on",
		"large_segment_size_mb:10":           "from 11 on",
		"garbage_collection_threshold:1":     "wanted a number above 0 and below 1",
		"garbage_collection_threshold:NaN":   "wanted a number above 0 and below 1",
		"per_process_memory_fraction:1.1":    "wanted a number above 0, at most 1",
		"backend:cudaMallocAsync":            "backend:cudaMallocAsync: only the native allocator can be simulated",
		"max_size:3":                         `option "max_size" is not known`,
		"roundup_power2_divisions:3":         `"3" divisions: wanted a power of two, or 0`,
		"roundup_power2_divisions:[3:2]":     `size "3": wanted a power of two, in MiB`,
		"roundup_power2_divisions:[4]":       `"4" has no value: wanted SIZE:DIVISIONS`,
		"roundup_power2_divisions:[4:2":      `the list ends with ""`,
		"expandable_segments:True:backend:a": `has ":" in place of a comma`,
	} {
		_, err := allocator.ParseConf(text)
		require.ErrorContains(t, err, want, text)
	}
}

// TestReplay: numbers are the highest of each, and a replay ends where memory does.
func TestReplay(t *testing.T) {
	events := []allocator.Event{{Block: 0, Bytes: 12 * mib}, {Block: 1, Bytes: 2*mib + 1},
		{Block: 0, Bytes: allocator.Free}, {Block: 0, Bytes: 5 * mib, Step: 1}, {Block: 2, Bytes: 30 * mib, Step: 2}}
	o := allocator.Replay(allocator.NewCaching(allocator.Conf{}, allocator.Memory{}), events)
	require.Equal(t, allocator.Usage{Asked: 37*mib + 1, Allocated: 37*mib + 512, Reserved: 62 * mib}, o.Peak)
	require.Equal(t, o.Peak, o.AtPeak)
	require.Equal(t, o.Peak, o.Last)
	require.Equal(t, -1, o.Fail)
	require.InDelta(t, 1-37./62, o.Fragmentation(), 1e-4)
	for name, a := range map[string]allocator.Allocator{
		"CUDA out of memory. Tried to allocate 30.00 MiB": allocator.NewCaching(allocator.Conf{},
			allocator.Memory{Total: 60 * mib, Other: 11 * mib}),
		"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 31457280 bytes.": allocator.NewBFC(
			allocator.TensorFlow, allocator.Memory{Total: 35 * mib}),
		"Failed to allocate memory for requested buffer of size 31457280": allocator.NewBFC(allocator.OnnxRuntime,
			allocator.Memory{Total: 41 * mib}),
	} {
		o := allocator.Replay(a, events)
		require.Equal(t, 4, o.Fail, name)
		require.True(t, strings.HasPrefix(o.Err.Error(), name), o.Err.Error())
		require.Equal(t, int64(30*mib), o.Err.Asked)
		require.Equal(t, int64(7*mib+1), o.Last.Asked)
	}
	require.Zero(t, (&allocator.Outcome{}).Fragmentation())
}

// TestRegions: arenas grow by doubling, within the memory that is left.
func TestRegions(t *testing.T) {
	for _, c := range []struct {
		growth allocator.Growth
		total  int64
		want   []int64 // reserved MiB after each MiB that is asked for
	}{
		{allocator.OnnxRuntime, 0, []int64{1, 3, 3, 7, 7, 7, 7, 15}},
		{allocator.TensorFlow, 0, []int64{2, 2, 6, 6, 6, 6, 14}},
		{allocator.TensorFlow, 9 * mib, []int64{2, 2, 6, 6, 6, 6, 9, 9, 9}},
	} {
		a := allocator.NewBFC(c.growth, allocator.Memory{Total: c.total})
		for i, want := range c.want {
			require.NoError(t, a.Take(int32(i), mib))
			require.Equal(t, want*mib, a.Usage().Reserved, fmt.Sprint(c.growth, i))
		}
	}
	a := allocator.NewBFC(allocator.OnnxRuntime, allocator.Memory{Total: 10 * mib})
	require.Nil(t, a.Reserve(3*mib+1))
	require.Equal(t, allocator.Usage{Asked: 3*mib + 1, Allocated: 3*mib + 256, Reserved: 3*mib + 256}, a.Usage())
	require.NoError(t, a.Take(0, 6*mib), "8 MiB are not there, nine tenths of them are not either, 6.48 MiB are")
	require.InDelta(t, 9.48*mib, a.Usage().Reserved, .01*mib)
	require.NotNil(t, a.Reserve(mib))
}
