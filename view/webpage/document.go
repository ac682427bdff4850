package webpage

import (
	"encoding/json"

	"memopt/graph"
	"memopt/view/timeline"
)

// Schema is the schema of the data in a page. docs/page.md describes it.
const Schema = "memopt.page/v1"

// document is the data of a page. Names are indices into Names. Columns that are called deltas hold
// the difference of each element from the one before it, the first from 0: so they pack well.
type document struct {
	Schema     string          `json:"schema"`
	Version    string          `json:"version"`
	Title      string          `json:"title"` // path of the model
	Kinds      []string        `json:"kinds"`
	Names      []string        `json:"names"`
	Graphs     []graphJSON     `json:"graphs"`
	Executions []executionJSON `json:"executions"`
	// Limit is the bytes that the budget leaves the arena, and LowerBound a lower bound on every plan,
	// chunked ones included if this one is.
	Limit      *int64          `json:"limit_bytes"`
	LowerBound int64           `json:"lower_bound_bytes"`
	Plan       json.RawMessage `json:"plan"` // memopt.plan/v1
	// Moves is the plan where values may move to the host, and Plan then its recomputations alone; nil for another.
	Moves         json.RawMessage `json:"moves,omitempty"` // memopt.moves/v1
	Explain       json.RawMessage `json:"explain"`         // memopt.explain/v1
	StashClusters []*string       `json:"stash_clusters"`  // by row of the plan's stashes
	Pareto        paretoJSON      `json:"pareto"`
	Runs          []runJSON       `json:"runs"`
}

// deltas are the differences between the elements of a column.
type deltas []int64

// deltasOf makes a column of n elements.
func deltasOf(n int, at func(i int) int64) deltas {
	out, last := make(deltas, n), int64(0)
	for i := range out {
		x := at(i)
		out[i], last = x-last, x
	}
	return out
}

// columnOf makes a column of n elements that are no differences.
func columnOf(n int, at func(i int) int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = at(i)
	}
	return out
}

// names collects texts, each once.
type names struct {
	list  []string
	index map[string]int64
}

func (n *names) of(text string) int64 {
	at, ok := n.index[text]
	if !ok {
		at = int64(len(n.list))
		n.index[text], n.list = at, append(n.list, text)
	}
	return at
}

// graphJSON is a graph: node i reads the values inputs[inputs_at[i]:inputs_at[i+1]].
type graphJSON struct {
	Name       deltas  `json:"name"`
	Op         []int64 `json:"op"`
	Inputs     deltas  `json:"inputs"`
	InputsAt   deltas  `json:"inputs_at"`
	Outputs    deltas  `json:"outputs"`
	OutputsAt  deltas  `json:"outputs_at"`
	ValueName  deltas  `json:"value_name"`
	ValueBytes []int64 `json:"value_bytes"` // -1 where unknown
}

func newGraphJSON(g *graph.Graph, sizes []int64, n *names) graphJSON {
	count := len(g.Nodes)
	out := graphJSON{Name: deltasOf(count, func(i int) int64 { return n.of(g.NodeLabel(graph.NodeID(i))) }),
		Op:         columnOf(count, func(i int) int64 { return n.of(g.Nodes[i].Op) }),
		ValueName:  deltasOf(len(g.Values), func(i int) int64 { return n.of(g.ValueName(graph.ValueID(i))) }),
		ValueBytes: columnOf(len(g.Values), func(i int) int64 { return max(sizes[i], -1) })}
	out.Inputs, out.InputsAt = operands(g, func(n *graph.Node) [][]graph.ValueID {
		return [][]graph.ValueID{n.Inputs, n.Captures()}
	})
	out.Outputs, out.OutputsAt = operands(g, func(n *graph.Node) [][]graph.ValueID {
		return [][]graph.ValueID{n.Outputs}
	})
	return out
}

// operands are the values of all nodes in one list, and where those of each node begin.
func operands(g *graph.Graph, of func(*graph.Node) [][]graph.ValueID) (list, at deltas) {
	var flat []int64
	begin := make([]int64, len(g.Nodes)+1)
	for i, node := range g.Nodes {
		for _, values := range of(node) {
			for _, v := range values {
				if v != graph.NoValue {
					flat = append(flat, int64(v))
				}
			}
		}
		begin[i+1] = int64(len(flat))
	}
	return deltasOf(len(flat), func(i int) int64 { return flat[i] }),
		deltasOf(len(begin), func(i int) int64 { return begin[i] })
}

// executionJSON is one way to run the step.
type executionJSON struct {
	Name       string      `json:"name"` // baseline or plan
	Graph      int         `json:"graph"`
	Peak       int         `json:"peak"`             // step
	Persistent []int64     `json:"persistent_bytes"` // by kind: bytes that are live throughout
	ArenaBytes int64       `json:"arena_bytes"`
	Steps      stepsJSON   `json:"steps"`
	Levels     []levelJSON `json:"levels"`
	Blocks     blocksJSON  `json:"blocks"`
	Always     blocksJSON  `json:"always"`
	Host       deltas      `json:"host_bytes,omitempty"` // by step
	Copies     *copiesJSON `json:"copies,omitempty"`
}

// copiesJSON are the copies between the memories of device and host, in the order of their steps.
type copiesJSON struct {
	Begun deltas  `json:"begun"` // step
	Wait  []int64 `json:"wait"`  // steps behind Begun of the one that waits; -1 without one
	Out   []int64 `json:"out"`   // 1 for one to the host
	Name  deltas  `json:"name"`  // of the value
	Bytes []int64 `json:"bytes"`
	Start deltas  `json:"start_ns"`
	Time  []int64 `json:"time_ns"`
}

// newCopiesJSON is the form of a timeline's copies; nil without copies.
func newCopiesJSON(t *timeline.Timeline, n *names) *copiesJSON {
	c, count := t.Copies, len(t.Copies)
	if count == 0 {
		return nil
	}
	return &copiesJSON{Begun: deltasOf(count, func(i int) int64 { return int64(c[i].Begun) }),
		Wait: columnOf(count, func(i int) int64 { return max(-1, int64(c[i].Wait-c[i].Begun)) }),
		Out: columnOf(count, func(i int) int64 {
			if c[i].Out {
				return 1
			}
			return 0
		}),
		Name:  deltasOf(count, func(i int) int64 { return n.of(t.Graph.ValueName(c[i].Value)) }),
		Bytes: columnOf(count, func(i int) int64 { return c[i].Bytes }),
		Start: deltasOf(count, func(i int) int64 { return nanoseconds(c[i].Start) }),
		Time:  columnOf(count, func(i int) int64 { return nanoseconds(c[i].End - c[i].Start) })}
}

type stepsJSON struct {
	Node        deltas   `json:"node"`
	Name        deltas   `json:"name"`
	Layer       []int64  `json:"layer"`
	Repeats     []int64  `json:"repeats"` // the step that ran the node first; -1
	Phase       []int64  `json:"phase"`
	Nanoseconds []int64  `json:"nanoseconds"`
	Live        []deltas `json:"live_bytes"` // by kind; empty for a kind without bytes
}

type blocksJSON struct {
	First  deltas  `json:"first"`
	Length []int64 `json:"length"` // steps
	Value  deltas  `json:"value"`  // of the graph; -1
	Name   deltas  `json:"name"`
	Layer  []int64 `json:"layer"`
	Kind   []int64 `json:"kind"`
	Bytes  []int64 `json:"bytes"`
	Made   deltas  `json:"made"`   // step; -1 without a step
	Reader []int64 `json:"reader"` // steps behind First of the last reader; -1 for no step
	Offset deltas  `json:"offset"` // in the arena; -1
}

func newExecutionJSON(t *timeline.Timeline, name string, at int, n *names) executionJSON {
	out := executionJSON{Name: name, Graph: at, Peak: t.Peak, Persistent: t.Persistent[:], Levels: levels(t),
		Steps: newStepsJSON(t, n), Blocks: newBlocksJSON(t, t.Blocks, n), Always: newBlocksJSON(t, t.Always, n),
		Copies: newCopiesJSON(t, n)}
	if host := t.Host(); host != nil {
		out.Host = deltasOf(len(host), func(i int) int64 { return host[i] })
	}
	if t.Layout != nil {
		out.ArenaBytes = t.Layout.Bytes
	}
	return out
}

func newStepsJSON(t *timeline.Timeline, n *names) stepsJSON {
	s, count := t.Steps, len(t.Steps)
	out := stepsJSON{Node: deltasOf(count, func(i int) int64 { return int64(s[i].Node) }),
		Name:        deltasOf(count, func(i int) int64 { return n.of(s[i].Name) }),
		Layer:       columnOf(count, func(i int) int64 { return n.of(s[i].Layer) }),
		Repeats:     columnOf(count, func(i int) int64 { return int64(s[i].Repeats) }),
		Phase:       columnOf(count, func(i int) int64 { return int64(s[i].Phase) }),
		Nanoseconds: columnOf(count, func(i int) int64 { return nanoseconds(s[i].Seconds) })}
	for k := range timeline.NumKinds {
		column := deltasOf(count, func(i int) int64 { return s[i].Live[k] })
		if allZero(column) {
			column = deltas{}
		}
		out.Live = append(out.Live, column)
	}
	return out
}

// nanoseconds rounds seconds, which may be any number in a cost file.
func nanoseconds(seconds float64) int64 {
	const most = 1 << 50 // two weeks, and exact in a script's numbers with room to add
	return int64(min(max(seconds, 0)*1e9+0.5, most))
}

func allZero(column deltas) bool {
	for _, x := range column {
		if x != 0 {
			return false
		}
	}
	return true
}

func newBlocksJSON(t *timeline.Timeline, b []timeline.Block, n *names) blocksJSON {
	count := len(b)
	behind := func(step, first int32) int64 {
		if step < 0 {
			return -1
		}
		return max(0, int64(step-first))
	}
	return blocksJSON{First: deltasOf(count, func(i int) int64 { return int64(b[i].First) }),
		Length: columnOf(count, func(i int) int64 { return int64(b[i].Last-b[i].First) + 1 }),
		Value:  deltasOf(count, func(i int) int64 { return int64(b[i].Value) }),
		Name:   deltasOf(count, func(i int) int64 { return n.of(b[i].Name) }),
		Layer:  columnOf(count, func(i int) int64 { return n.of(t.Layer(&b[i])) }),
		Kind:   columnOf(count, func(i int) int64 { return int64(b[i].Kind) }),
		Bytes:  columnOf(count, func(i int) int64 { return b[i].Bytes }),
		Made:   deltasOf(count, func(i int) int64 { return int64(b[i].Made) }),
		Reader: columnOf(count, func(i int) int64 { return behind(b[i].Reader, b[i].First) }),
		Offset: deltasOf(count, func(i int) int64 { return t.Offset(&b[i]) })}
}
