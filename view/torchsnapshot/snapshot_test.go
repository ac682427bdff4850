package torchsnapshot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"

	"memopt/internal/test/graphtest"
	"memopt/view/timeline"
	"memopt/view/torchsnapshot"
)

// drawn returns the timeline of a plan of a random training graph.
func drawn(t *testing.T, seed uint64) *timeline.Timeline {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 19))
	m, err := memopt.New(graphtest.Training(rng, graphtest.Options{Nodes: 10 + rng.IntN(60), Yield: seed%3 == 0,
		Layers: seed%4 == 0, Control: seed%5 == 0, Parts: seed%4 != 1, Rows: int64(1 + rng.IntN(12)),
		Width: int64(1 + rng.IntN(70))}), memopt.Options{})
	require.NoError(t, err)
	var o memopt.PlanOptions
	if seed%2 == 0 {
		for i := range m.Graph.Nodes {
			o.Workspace = append(o.Workspace, int64(i%3*100))
		}
	}
	if seed%3 == 1 {
		o.CloneBytes = 40
	}
	return timelineOf(t, m, memopt.Level(seed%3), o)
}

func timelineOf(t *testing.T, m *memopt.Model, s memopt.Strategy, o memopt.PlanOptions) *timeline.Timeline {
	t.Helper()
	p, err := m.Plan(context.Background(), s, o)
	require.NoError(t, err)
	tl, err := timeline.Of(p.Plan)
	require.NoError(t, err)
	return tl
}

func written(t *testing.T, tl *timeline.Timeline) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, torchsnapshot.Write(&b, tl))
	return b.Bytes()
}

// snapshot is a pickle as the page reads it.
type snapshot struct {
	segments, events []map[string]object
}

func read(t *testing.T, data []byte) snapshot {
	t.Helper()
	x, err := unpickle(data)
	require.NoError(t, err)
	top := x.(map[string]object)
	require.Len(t, top["device_traces"].(*items).list, 1)
	return snapshot{dicts(top["segments"]), dicts(top["device_traces"].(*items).list[0])}
}

func dicts(list object) (out []map[string]object) {
	for _, x := range list.(*items).list {
		out = append(out, x.(map[string]object))
	}
	return out
}

// block is what an allocator has given away.
type block struct{ addr, size int64 }

// replay is an allocator that does what events say, and notices what none could do.
type replay struct {
	t        *testing.T
	segments []block
	live     []block
	bytes    int64
	peak     int64
}

func (r *replay) event(i int, events []map[string]object) {
	e := events[i]
	x := block{e["addr"].(int64), e["size"].(int64)}
	inside := func(s block) bool { return s.addr <= x.addr && x.addr+x.size <= s.addr+s.size }
	switch e["action"] {
	case "segment_alloc":
		for _, s := range r.segments {
			require.True(r.t, s.addr+s.size <= x.addr || x.addr+x.size <= s.addr)
		}
		r.segments = append(r.segments, x)
	case "alloc":
		require.True(r.t, slices.ContainsFunc(r.segments, inside))
		for _, y := range r.live {
			require.True(r.t, y.addr+y.size <= x.addr || x.addr+x.size <= y.addr, "event %d", i)
		}
		r.live = append(r.live, x)
		r.bytes += x.size
		r.peak = max(r.peak, r.bytes)
	case "free_requested":
		require.Equal(r.t, "free_completed", events[i+1]["action"])
		require.Equal(r.t, e["addr"], events[i+1]["addr"])
	case "free_completed":
		require.Equal(r.t, "free_requested", events[i-1]["action"])
		at := slices.Index(r.live, x)
		require.GreaterOrEqual(r.t, at, 0, "event %d frees what is not there", i)
		r.live = slices.Delete(r.live, at, at+1)
		r.bytes -= x.size
	default:
		require.Equal(r.t, "snapshot", e["action"])
	}
}

// TestAllocator: the events can be those of an allocator, their peak is the predicted one to the byte,
// and what they end with is what the segments say, which blocks tile.
func TestAllocator(t *testing.T) {
	seen := map[object]bool{}
	var list []*timeline.Timeline
	for seed := range uint64(40) {
		list = append(list, drawn(t, seed))
	}
	m, err := memopt.Example("cnn", memopt.Options{})
	require.NoError(t, err)
	list = append(list, timelineOf(t, m, memopt.Level(1), memopt.PlanOptions{}))
	for i, tl := range list {
		got := read(t, written(t, tl))
		r := replay{t: t}
		last := int64(0)
		for i, e := range got.events {
			r.event(i, got.events)
			seen[e["category"]] = true
			require.GreaterOrEqual(t, e["time_us"].(int64), last)
			last = e["time_us"].(int64)
		}
		require.Equal(t, tl.Persistent.Sum()+tl.PeakBytes(), r.peak, "timeline %d", i)
		require.Equal(t, "unknown", firstCategory(got.events))
		tiled(t, got.segments, &r)
	}
	for _, k := range []timeline.Kind{timeline.Weights, timeline.Gradients, timeline.Activations, timeline.Temporaries,
		timeline.Workspaces, timeline.Subgraphs} {
		require.True(t, seen[k.String()], k.String())
	}
}

func firstCategory(events []map[string]object) object {
	for _, e := range events {
		if c, ok := e["category"]; ok {
			return c
		}
	}
	return nil
}

// tiled holds the segments to what a replay ended with.
func tiled(t *testing.T, segments []map[string]object, r *replay) {
	t.Helper()
	require.Len(t, segments, len(r.segments))
	for i, s := range segments {
		at := s["address"].(int64)
		require.Equal(t, r.segments[i], block{at, s["total_size"].(int64)})
		end, live := at+s["total_size"].(int64), int64(0)
		for _, b := range dicts(s["blocks"]) {
			x := block{b["address"].(int64), b["size"].(int64)}
			require.Equal(t, at, x.addr)
			require.Equal(t, x.size, b["requested_size"])
			require.Positive(t, x.size)
			if b["state"] == "active_allocated" {
				k := slices.Index(r.live, x)
				require.GreaterOrEqual(t, k, 0)
				r.live = slices.Delete(r.live, k, k+1)
				live += x.size
				require.NotEmpty(t, b["frames"].(*items).list)
			} else {
				require.Equal(t, "inactive", b["state"])
			}
			at += x.size
		}
		require.Equal(t, end, at)
		require.Equal(t, live, s["allocated_size"])
	}
	require.Empty(t, r.live)
}

// TestFrames: the frames of a block say what lies there, who reads it last, who makes it, and where.
func TestFrames(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{})
	require.NoError(t, err)
	tl := timelineOf(t, m, memopt.Level(1), memopt.PlanOptions{})
	got := read(t, written(t, tl))
	var lines []string
	for _, e := range got.events {
		if e["action"] != "alloc" {
			continue
		}
		list := dicts(e["frames"])
		if list[0]["filename"] == "/transformer/h.1/mlp/act/Gelu_output_0_recompute" {
			require.Equal(t, "activations", e["category"])
			for _, f := range list {
				lines = append(lines, fmt.Sprintf("%s:%d:%s", f["filename"], f["line"], f["name"]))
			}
		}
	}
	require.Len(t, lines, 4)
	made := slices.IndexFunc(tl.Steps,
		func(s timeline.Step) bool { return s.Name == "/transformer/h.1/mlp/act/Gelu_recompute" })
	require.Equal(t, fmt.Sprintf("/transformer/h.1/mlp/act/Gelu_output_0_recompute:%d:activations", made), lines[0])
	require.Regexp(t, `^/transformer/h.1/mlp/.*:\d+:last read by \w+$`, lines[1])
	require.Equal(t, fmt.Sprintf("/transformer/h.1/mlp/act/Gelu_recompute:%d:made by Gelu", made), lines[2])
	require.Equal(t, fmt.Sprintf("/transformer/h.1:%d:layer", made), lines[3])
}

// hostile are names that readers stumble over; the page hides frames of some.
var hostile = []string{`"quotes' \ and`, "\x00\x01\x1b[31mred\x7f", "\u202eright to left\u202c", "bad \xff\xc3 bytes",
	strings.Repeat("long/", 2000) + "name", "q_start_Slice", "/RegisterTokens/ceval.c", "\u2028line\u2029", "😀", " "}

// TestHostileNames: whatever nodes and values are called, the pickle is read, and no frame is hidden.
func TestHostileNames(t *testing.T) {
	m := graphtest.Training(rand.New(rand.NewPCG(3, 1)), graphtest.Options{Nodes: 30})
	for i, n := range m.Graph.Nodes {
		n.Name = hostile[i%len(hostile)] + fmt.Sprint(i)
	}
	for i := range m.Graph.Values {
		v := &m.Graph.Values[i]
		v.Name = hostile[i%len(hostile)] + v.Name
	}
	model, err := memopt.New(m, memopt.Options{})
	require.NoError(t, err)
	got := read(t, written(t, timelineOf(t, model, memopt.Level(2), memopt.PlanOptions{})))
	words := []string{"_start", "ceval.c", "/Register"}
	long := false
	for _, e := range got.events {
		for _, f := range dicts(e["frames"]) {
			for _, field := range []string{"filename", "name"} {
				text := f[field].(string)
				long = long || len(text) > 10000
				for _, w := range words {
					require.NotContains(t, text, w)
				}
			}
		}
	}
	require.True(t, long)
}

// TestIntegers: integers at the edges of their forms, and lists of many, are read as they were.
func TestIntegers(t *testing.T) {
	var list []int64
	for bit := range 63 {
		n := int64(1) << bit
		list = append(list, n-1, n, n+1, -n+1, -n, -n-1)
	}
	for i := range int64(25000) {
		list = append(list, i)
	}
	for _, list := range [][]int64{nil, list[:1], list} {
		got, err := unpickle(torchsnapshot.PickleInts(list))
		require.NoError(t, err)
		require.Len(t, got.(*items).list, len(list))
		for i, n := range got.(*items).list {
			require.Equal(t, list[i], n)
		}
	}
}

// TestPython: CPython reads the same, by a pickle of protocol 2.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: apt-get install python3 brings it")
	}
	tl := drawn(t, 6)
	data := written(t, tl)
	file := filepath.Join(t.TempDir(), "snapshot.pickle")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	const program = `import sys, json, pickle, pickletools
data = open(sys.argv[1], "rb").read()
codes = sorted({code.name for code, _, _ in pickletools.genops(data)})
json.dump([codes, pickle.loads(data)], sys.stdout)`
	out, err := exec.Command(python, "-c", program, file).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatal(string(exit.Stderr))
	}
	require.NoError(t, err)
	var both []any
	require.NoError(t, json.Unmarshal(out, &both))
	for _, code := range both[0].([]any) {
		require.Contains(t, []string{"PROTO", "MARK", "EMPTY_DICT", "EMPTY_LIST", "APPENDS", "SETITEMS", "TUPLE2",
			"BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "NEWTRUE", "NEWFALSE", "LONG_BINPUT", "LONG_BINGET",
			"STOP"}, code)
	}
	own, err := unpickle(data)
	require.NoError(t, err)
	text, err := json.Marshal(plain(own))
	require.NoError(t, err)
	theirs, err := json.Marshal(both[1])
	require.NoError(t, err)
	require.JSONEq(t, string(theirs), string(text))
}

// plain is an object as JSON has it.
func plain(x object) any {
	switch x := x.(type) {
	case *items:
		out := make([]any, len(x.list))
		for i := range out {
			out[i] = plain(x.list[i])
		}
		return out
	case map[string]object:
		out := map[string]any{}
		for k, v := range x {
			out[k] = plain(v)
		}
		return out
	}
	return x
}

// TestRefused: without a layout there are no addresses, and addresses beyond 64 bits are an error.
func TestRefused(t *testing.T) {
	tl := drawn(t, 3)
	bare := *tl
	bare.Layout = nil
	require.ErrorIs(t, torchsnapshot.Write(&bytes.Buffer{}, &bare), torchsnapshot.ErrLayout)
	huge := *tl
	huge.Always = []timeline.Block{{Name: "w", Bytes: 1<<63 - 1, Made: -1, Reader: -1, Buffer: -1}}
	require.ErrorContains(t, torchsnapshot.Write(&bytes.Buffer{}, &huge), "overflow")
}

// TestSame: the same step gives the same bytes.
func TestSame(t *testing.T) {
	require.Equal(t, written(t, drawn(t, 8)), written(t, drawn(t, 8)))
}
