package snapshot_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/sim/snapshot"
)

// read reads a snapshot that bench/allocator/snapshot.py wrote: a step on the CPU, served by a third port of the rules.
func read(t *testing.T, name string) *snapshot.Snapshot {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.True(t, snapshot.IsPickle(data))
	s, err := snapshot.Read(data)
	require.NoError(t, err)
	return s
}

// TestReplayIsRecorded: the events of a snapshot lead to the bytes of the device that were recorded, at every event,
// from the beginning and from any later event on, when the memory before it is only known by the end.
func TestReplayIsRecorded(t *testing.T) {
	for _, name := range []string{"ragged.pickle", "expandable.pickle", "fragments.pickle", "live.pickle"} {
		s := read(t, name)
		require.Greater(t, len(s.Events), 200, name)
		all := s.Events
		for first := 0; first < len(all); first += 1 + len(all)/20 {
			s.Events = all[first:]
			r, err := s.Replay(t.Context())
			require.NoError(t, err, "%s from %d", name, first)
			require.Equal(t, -1, r.Ran)
			require.LessOrEqual(t, r.Off, .02, "%s from %d", name, first)
			if first == 0 {
				require.Zero(t, r.Off, name)
				require.Equal(t, r.Recorded, r.Reserved)
				require.Equal(t, r.RecordedPeak, r.Peak.Reserved)
			}
		}
	}
}

// TestWorst: the holders at the worst moment are all blocks there, by line and by kind; lines are those of the program,
// and kinds those that its frames tell.
func TestWorst(t *testing.T) {
	for name, ran := range map[string]bool{"ragged.pickle": false, "expandable.pickle": false, "fragments.pickle": true,
		"live.pickle": true} {
		s := read(t, name)
		m, err := s.Worst()
		require.NoError(t, err)
		require.Equal(t, ran, m.Ran, name)
		for _, list := range [][]snapshot.Holder{m.Holders, m.Kinds} {
			sum, blocks := int64(0), 0
			for i, h := range list {
				sum += h.Bytes
				blocks += h.Blocks
				require.True(t, i == 0 || h.Bytes <= list[i-1].Bytes)
			}
			require.Equal(t, m.Held, sum, name)
			require.Equal(t, m.Blocks, blocks, name)
		}
		require.Equal(t, "snapshot.py", m.Holders[0].Frame.File)
		if name != "live.pickle" { // its first step runs out
			require.Equal(t, "forward", m.Holders[0].Frame.Func)
			require.Equal(t, snapshot.Forward, m.Holders[0].Kind)
		}
		kinds := map[string]bool{}
		for _, k := range m.Kinds {
			kinds[k.Kind] = true
		}
		require.True(t, kinds[snapshot.Optimizer] && kinds[snapshot.Creation], name)
		require.GreaterOrEqual(t, m.Reserved, m.Held)
		require.GreaterOrEqual(t, m.Held, m.Asked)
		require.LessOrEqual(t, m.Largest, m.Reserved-m.Held)
	}
}

// TestWith: fragments go away with expandable segments; live bytes do not, and memory runs out at the same request with
// the options of the recording.
func TestWith(t *testing.T) {
	for name, serves := range map[string]bool{"fragments.pickle": true, "live.pickle": false} {
		s := read(t, name)
		m, err := s.Worst()
		require.NoError(t, err)
		r, err := s.With(t.Context(), s.Conf, m.Event)
		require.NoError(t, err)
		require.Equal(t, m.Event, r.Ran, "%s, as it ran", name)
		conf := s.Conf
		conf.Expandable = true
		r, err = s.With(t.Context(), conf, m.Event)
		require.NoError(t, err)
		require.Equal(t, serves, r.Ran < 0, name)
		require.LessOrEqual(t, r.Peak.Reserved, m.Reserved+m.Free)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := read(t, "ragged.pickle").Replay(done)
	require.ErrorIs(t, err, context.Canceled)
}

// TestRefused: pickles that would call code, end early or hold other data are errors that say so.
func TestRefused(t *testing.T) {
	for pickle, want := range map[string]string{
		"\x80\x04cos\nsystem\n.":                "opcode GLOBAL makes an object of a program",
		"\x80\x04\x8c\x02os\x8c\x06system\x93.": "opcode STACK_GLOBAL makes",
		"\x80\x04)R.":                           "opcode REDUCE makes",
		"\x80\x04)\x81.":                        "opcode NEWOBJ makes",
		"\x80\x06N.":                            "is of protocol 6: wanted 2 to 5",
		"\x80\x04":                              "the pickle ends too early",
		"\x80\x04X\xff\xff\xff\x7fab":           "the pickle ends too early",
		"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffab": "the pickle ends too early",
		"\x80\x04\x8b\xff\xff\xff\xffab":                 "the pickle ends too early",
		"\x80\x04.":                                      "the stack is empty",
		"\x80\x04(.":                                     "the stack is empty",
		"\x80\x04]e.":                                    "there is no mark",
		"\x80\x04N(Ne.":                                  "neither a list nor a dict grows",
		"\x80\x04}(Nu.":                                  "a dict gets no pairs",
		"\x80\x04](NNu.":                                 "a list gets keys",
		"\x80\x04h\x07.":                                 "no object has number 7",
		"\x80\x04Nr\xff\xff\xff\xff.":                    "an object gets number 4294967295",
		"\x80\x04\x8a\x0aaaaaaaaaaa.":                    "a number of 10 bytes: wanted 8 at most",
		"\x80\x04}(\x8c\x08segments](}(\x8c\x07address\x8a\x01\xffueu.":      "address is -1",
		"\x80\x04}(\x8c\x08segments](}(\x8c\x07addressJ\xfe\xff\xff\xffueu.": "address is -2",
		"\x80\x04\x8c\x01\xff.":            "a text is no UTF-8",
		"\x80\x04\x01.":                    "opcode 0x1 is not known",
		"\x80\x04N.":                       "wanted a snapshot as torch.cuda.memory._dump",
		"\x80\x04}.":                       "wanted a snapshot as torch.cuda.memory._dump",
		"\x80\x04}(\x8c\x08segments](Neu.": "segment 0 is no dict",
		"\x80\x04}(\x8c\x08segments](}eu.": "segment 0: has no blocks",
	} {
		_, err := snapshot.Read([]byte(pickle))
		require.ErrorContains(t, err, want, "%q", pickle)
	}
}

// FuzzRead: no pickle brings a reader or a replay to panic, or takes more than its size allows.
func FuzzRead(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "live.pickle"))
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte("\x80\x02}(X\x08\x00\x00\x00segments](}(X\x06\x00\x00\x00blocks](}(X\x04\x00\x00\x00sizeK\x05ueueu."))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if s, err := snapshot.Read(data); err == nil {
			if _, err := s.Worst(); err == nil {
				_, _ = s.Replay(context.Background())
				_, _ = s.Expanding(context.Background())
			}
		}
	})
}

// TestCutInTheMiddle: a block that the program gave up before the first event is no block that it holds.
func TestCutInTheMiddle(t *testing.T) {
	s := &snapshot.Snapshot{Stacks: make([][]snapshot.Frame, 1), Segments: []snapshot.Segment{{Addr: 2 << 20,
		Size: 2 << 20, Blocks: []snapshot.Block{{Addr: 2 << 20, Size: 512},
			{Addr: 2<<20 + 512, Size: 512, Asked: 300, Held: true}, {Addr: 2<<20 + 1024, Size: 2<<20 - 1024}}}},
		Events: []snapshot.Event{{Action: snapshot.Alloc, Addr: 2<<20 + 512, Size: 300},
			{Action: snapshot.FreeCompleted, Addr: 2 << 20, Size: 500}}}
	r, err := s.Replay(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(512), r.Peak.Allocated)
	require.Equal(t, int64(300), r.Peak.Asked)
	require.Equal(t, int64(2<<20), r.Reserved)
	require.Zero(t, r.Off)
}

// TestContradictions: events that do not lead to the memory in the end are an error.
func TestContradictions(t *testing.T) {
	s := read(t, "live.pickle")
	s.Segments = nil
	_, err := s.Worst()
	require.ErrorContains(t, err, "the events do not lead to the memory in the end")
	s = read(t, "live.pickle")
	s.Segments, s.Events = append(s.Segments, s.Segments[0]), nil
	_, err = s.Replay(t.Context())
	require.ErrorContains(t, err, "two segments share addresses")
}

// TestChanged: snapshots with a byte changed, or cut off, are errors or snapshots.
func TestChanged(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "fragments.pickle"))
	require.NoError(t, err)
	errors := 0
	for i := 0; i < len(data); i += 1 + len(data)/400 {
		changed := bytes.Clone(data)
		changed[i] ^= byte(1 + i%255)
		s, err := snapshot.Read(changed)
		if err == nil {
			if _, err = s.Worst(); err == nil {
				_, err = s.Replay(t.Context())
			}
		}
		if err != nil {
			errors++
		}
		_, err = snapshot.Read(data[:i])
		require.Error(t, err, "cut off at %d", i)
	}
	require.Positive(t, errors)
}

// pickled is the pickle (protocol 2) of lists, maps, texts, whole numbers and booleans.
func pickled(x any) []byte {
	var put func(any) []byte
	put = func(x any) (b []byte) {
		switch x := x.(type) {
		case []any:
			b = []byte("](")
			for _, item := range x {
				b = append(b, put(item)...)
			}
			return append(b, 'e')
		case map[string]any:
			b = []byte("}(")
			for _, key := range slices.Sorted(maps.Keys(x)) {
				b = append(append(b, put(key)...), put(x[key])...)
			}
			return append(b, 'u')
		case string:
			return append(binary.LittleEndian.AppendUint32([]byte{'X'}, uint32(len(x))), x...)
		case bool:
			return map[bool][]byte{true: {0x88}, false: {0x89}}[x]
		}
		return binary.LittleEndian.AppendUint64([]byte{0x8a, 8}, uint64(x.(int)))
	}
	return append(append([]byte("\x80\x02"), put(x)...), '.')
}

// TestDevices: of several devices the one with the most bytes is read, wherever its segments are in the list, with the
// events of its own list and the options that were in force.
func TestDevices(t *testing.T) {
	segment := func(device, addr, size int) any {
		return map[string]any{"device": device, "address": addr, "total_size": size, "blocks": []any{
			map[string]any{"size": size, "requested_size": size, "state": "active_allocated"}}}
	}
	event := func(addr int) any { return map[string]any{"action": "alloc", "addr": addr, "size": 2 << 20} }
	s, err := snapshot.Read(pickled(map[string]any{
		"segments":      []any{segment(1, 4<<20, 2<<20), segment(0, 64<<20, 2<<20), segment(1, 8<<20, 2<<20)},
		"device_traces": []any{[]any{event(64 << 20)}, []any{event(4 << 20), event(8 << 20)}},
		"allocator_settings": map[string]any{"expandable_segments": true,
			"PYTORCH_CUDA_ALLOC_CONF": " max_split_size_mb:64"},
	}))
	require.NoError(t, err)
	require.Equal(t, 1, s.Device)
	require.Len(t, s.Segments, 2)
	require.Len(t, s.Events, 2)
	require.True(t, s.Conf.Expandable)
	require.Equal(t, " max_split_size_mb:64", s.Settings)
}

// TestExpanding: with expandable segments a step takes less of the device than the segments that were recorded, and no
// less than it holds; a recording with them is replayed as it was.
func TestExpanding(t *testing.T) {
	for name, less := range map[string]bool{"ragged.pickle": true, "expandable.pickle": false} {
		s := read(t, name)
		as, err := s.Replay(t.Context())
		require.NoError(t, err)
		expanding, err := s.Expanding(t.Context())
		require.NoError(t, err)
		require.Equal(t, less, expanding.Peak.Reserved < as.Peak.Reserved, name)
		require.Equal(t, as.Peak.Asked, expanding.Peak.Asked)
		require.GreaterOrEqual(t, expanding.Peak.Reserved, expanding.Peak.Allocated)
	}
}

// TestMixedLines: a line with blocks of several kinds has the first of them by name, in any order of the blocks.
func TestMixedLines(t *testing.T) {
	s := &snapshot.Snapshot{Stacks: [][]snapshot.Frame{nil, {{File: "a.py", Line: 1, Func: "f"}}},
		Segments: []snapshot.Segment{{Addr: 2 << 20, Size: 2 << 20, Blocks: []snapshot.Block{
			{Addr: 2 << 20, Size: 1 << 20, Held: true}, {Addr: 3 << 20, Size: 1 << 20, Held: true}}}},
		Events: []snapshot.Event{{Action: snapshot.Alloc, Addr: 2 << 20, Size: 1 << 20, Stack: 1, Kind: "optimizer"},
			{Action: snapshot.Alloc, Addr: 3 << 20, Size: 1 << 20, Stack: 1, Kind: "data"}}}
	m, err := s.Worst()
	require.NoError(t, err)
	require.Equal(t, []snapshot.Holder{{Frame: s.Stacks[1][0], Kind: "data", Bytes: 2 << 20, Blocks: 2}}, m.Holders)
	require.Len(t, m.Kinds, 2)
}
