package check_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/check/streams"
)

// traced is the run of a plan as a Chrome trace: computes, waits and frees on one thread, copies on two others.
func traced(p *plan) []object {
	s := shapeOf(p.instance)
	l := p.answer["link"].(object)
	unit := map[any]float64{"us": 1, "ms": 1e3}[p.instance["cost_unit"]]
	var events []object
	clock, newest, written := [3]float64{}, map[any]int{}, map[any]int{}
	end := func(at int) float64 { return events[at]["ts"].(float64) + events[at]["dur"].(float64) }
	last := []int{}
	add := func(stream int, name string, dur float64, args object, after ...int) int {
		ts := clock[stream]
		for _, a := range after {
			ts = max(ts, end(a))
		}
		at := len(events)
		args["id"] = fmt.Sprint(at)
		events = append(events, object{"name": name, "ph": "X", "pid": 1, "tid": stream, "ts": ts, "dur": dur,
			"args": args})
		list := []string{}
		for _, a := range after {
			list = append(list, fmt.Sprint(a))
		}
		args["after"] = list
		clock[stream] = ts + dur
		return at
	}
	root := func(u any) string {
		for s.base[u] != nil {
			u = s.base[u]
		}
		return u.(string)
	}
	for _, st := range p.steps() {
		v, id := verb(st)
		name := v + " " + id.(string)
		takes := l["latency_us"].(float64) + s.size[id]/l["bytes_per_second"].(float64)*1e6
		switch v {
		case "compute":
			reads, writes := []string{}, []string{}
			for _, u := range s.inputs[id] {
				reads = append(reads, root(u))
			}
			for _, u := range s.outputs[id] {
				if s.base[u] == nil {
					writes = append(writes, u.(string))
				}
			}
			last = []int{add(0, name, s.cost[id]*unit, object{"reads": reads, "writes": writes})}
		case "free":
			args := object{}
			if s.base[id] == nil {
				args["frees"] = id
			}
			last = []int{add(0, name, 0, args)}
		case "offload":
			newest[id] = add(1, name, takes, object{"reads": id, "writes": "host:" + id.(string)}, last...)
			written[id] = newest[id]
		case "reload":
			newest[id] = add(2, name, takes, object{"reads": "host:" + id.(string), "writes": id},
				append(slices.Clone(last), written[id])...)
		case "wait":
			last = []int{add(0, name, 0, object{}, newest[id])}
		}
	}
	return events
}

func racesOf(t *testing.T, events []object) []streams.Race {
	t.Helper()
	races, operations, err := streams.Trace(strings.NewReader(text(object{"traceEvents": events})))
	require.NoError(t, err)
	require.Positive(t, operations)
	return races
}

// TestTrace: the traces of valid plans have no races, and those of plans without a wait, or with a free too early,
// have some.
func TestTrace(t *testing.T) {
	count := map[string]int{}
	for _, p := range plans(t, 8, 150) {
		if p.answer["link"] == nil {
			continue
		}
		count["valid"]++
		require.Empty(t, racesOf(t, traced(p)), p.name)
		for k, m := range mutants {
			c := p.clone()
			if (m.kind == "coming-in" || m.kind == "going-out") && m.make(rand.New(rand.NewPCG(uint64(k), 6)), c) {
				count[m.kind]++
				require.NotEmpty(t, racesOf(t, traced(c)), "%s: %s\n%s", m.about, p.name, text(c.answer))
			}
		}
	}
	require.Greater(t, count["valid"], 50)
	require.Greater(t, count["coming-in"], 50)
	require.Greater(t, count["going-out"], 50)
}

// TestTraceOfFlows: flows order events as lists of events do.
func TestTraceOfFlows(t *testing.T) {
	list := func(flows ...object) []object {
		return append([]object{
			{"name": "copy", "ph": "X", "pid": 1, "tid": "in", "ts": 0, "dur": 5, "args": object{"writes": "x"}},
			{"name": "use", "ph": "X", "pid": 1, "tid": "compute", "ts": 6, "dur": 5,
				"args": object{"reads": []string{"x"}}},
		}, flows...)
	}
	races := racesOf(t, list())
	require.Len(t, races, 1)
	require.Equal(t, streams.Race{Kind: "race", Event: 1, Buffer: "x",
		Message: `"use" on stream "compute" reads "x", and no wait orders it behind the write by "copy"`}, races[0])
	flow := []object{{"ph": "f", "id": 7, "pid": 1, "tid": "compute", "ts": 6},
		{"ph": "s", "id": 7, "pid": 1, "tid": "in", "ts": 5}}
	require.Empty(t, racesOf(t, list(flow...)))
	// Flows of other threads, and those that begin or end before all events, are left out.
	odd := []object{{"ph": "s", "id": 7, "pid": 1, "tid": "other", "ts": 5}, {"ph": "f", "id": 9, "pid": 1,
		"tid": "compute", "ts": -1}, {"ph": "s", "id": 9, "pid": 1, "tid": "in", "ts": 5},
		{"ph": "s", "id": 9, "pid": 1, "tid": "compute", "ts": -1}}
	require.Empty(t, racesOf(t, list(append(odd, flow...)...)))
	require.Len(t, racesOf(t, list(odd...)), 1)
	flow[1]["id"] = 8
	require.Len(t, racesOf(t, list(flow...)), 1)
}

// TestTraceAgainstReachability: a trace has a race where two uses of a buffer, one of them a write, have no path
// between them, and only there.
func TestTraceAgainstReachability(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	raced := 0
	for range 3000 {
		n, buffers := 3+rng.IntN(10), []string{"a", "b"}
		events, reach := []object{}, make([][]bool, n)
		last := map[int]int{}
		uses := make([]map[string]bool, n) // by buffer: whether it writes
		for i := range n {
			reach[i], uses[i] = make([]bool, n), map[string]bool{}
			from := func(k int) {
				reach[i][k] = true
				for j := range reach[k] {
					reach[i][j] = reach[i][j] || reach[k][j]
				}
			}
			stream := rng.IntN(3)
			args := object{"id": fmt.Sprint(i)}
			if k, ok := last[stream]; ok {
				from(k)
			}
			after := []string{}
			for k := range i {
				if rng.IntN(8) == 0 {
					after = append(after, fmt.Sprint(k))
					from(k)
				}
			}
			reads, writes := []string{}, []string{}
			for _, b := range buffers {
				switch rng.IntN(5) {
				case 0:
					writes, uses[i][b] = append(writes, b), true
				case 1, 2:
					reads, uses[i][b] = append(reads, b), false
				}
			}
			args["after"], args["reads"], args["writes"] = after, reads, writes
			events = append(events, object{"name": fmt.Sprint(i), "ph": "X", "pid": 1, "tid": stream, "ts": i, "dur": 1,
				"args": args})
			last[stream] = i
		}
		want := map[string]bool{}
		for i := range n {
			for k := range i {
				for b, writes := range uses[i] {
					if also, ok := uses[k][b]; ok && (writes || also) && !reach[i][k] {
						want[b] = true
					}
				}
			}
		}
		races, _, err := streams.Trace(strings.NewReader(text(events)))
		require.NoError(t, err)
		got := map[string]bool{}
		for _, r := range races {
			require.Equal(t, "race", r.Kind)
			got[r.Buffer] = true
		}
		require.Equal(t, want, got, text(events))
		raced += len(want)
	}
	require.Greater(t, raced, 500)
}

// TestTraceFaults: uses of freed buffers, waits that did not hold, and files that are no traces.
func TestTraceFaults(t *testing.T) {
	e := func(name string, tid, ts int, args object) object {
		return object{"name": name, "ph": "X", "pid": 1, "tid": tid, "ts": ts, "dur": 2, "args": args}
	}
	for _, c := range []struct {
		kind   string
		events []object
	}{
		{"freed", []object{e("w", 0, 0, object{"writes": "x"}), e("f", 0, 2, object{"frees": "x"}),
			e("r", 0, 4, object{"reads": "x"})}},
		{"freed", []object{e("w", 0, 0, object{"writes": "x"}), e("f", 0, 2, object{"frees": "x"}),
			e("g", 0, 4, object{"frees": "x"})}},
		{"race", []object{e("r", 0, 0, object{"reads": "x"}), e("w", 1, 2, object{"writes": "x"})}},
		{"race", []object{e("r", 0, 0, object{"reads": "x"}), e("f", 1, 2, object{"frees": "x"})}},
		{"race", []object{e("w", 0, 0, object{"writes": "x"}), e("f", 1, 2, object{"frees": "x"})}},
		{"began-early", []object{e("w", 0, 0, object{"writes": "x", "id": "w"}),
			e("r", 1, 1, object{"reads": "x", "after": "w"})}},
		{"no-such-event", []object{e("r", 1, 1, object{"reads": "x", "after": "w"})}},
	} {
		races := racesOf(t, c.events)
		require.Len(t, races, 1, "%v", c.events)
		require.Equal(t, c.kind, races[0].Kind)
		require.NotContains(t, races[0].Message, "%!")
	}
	for _, bad := range []string{"", "7", "{}", `{"traceEvents": 7}`, `{"traceEvents": [7]}`, "[", "nonsense"} {
		_, _, err := streams.Trace(strings.NewReader(bad))
		require.Error(t, err, bad)
	}
	_, operations, err := streams.Trace(strings.NewReader(`[null, {"ph": "M", "args": {"name": 1}}, {"ph": "X", "args": 7}]`))
	require.NoError(t, err)
	require.Zero(t, operations)
}
