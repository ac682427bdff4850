package configs

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"

	"memopt/graph"
	"memopt/hint"
	"memopt/internal/inputfile"
	"memopt/recompute"
)

// TraceSchema is the schema of memopt's additions to a Chrome trace.
const TraceSchema = "memopt.trace/v1"

// maxTrace is the size of the largest trace that is read: a hundred steps of ten thousand nodes
// stay below it.
const maxTrace = 1 << 30

// Trace is the measurements of `memopt run --profile`: the times of the nodes of a graph.
type Trace struct {
	Where string
	About TraceAbout
	nodes []nodeTimes // in the order of their first events
	index map[string]int
}

// TraceAbout identifies the measured program, so that a stale trace is noticed. A trace may do
// without it.
type TraceAbout struct {
	Schema          string           `json:"schema"`
	StructureSHA256 string           `json:"structure_sha256"` // of the model that was loaded
	Dims            map[string]int64 `json:"dims"`
	Backend         string           `json:"backend"`
	Threads         int              `json:"threads"`
}

// nodeTimes has the executions of a node.
type nodeTimes struct {
	label, op string
	runs      []nodeRun
}

// nodeRun is one execution.
type nodeRun struct {
	step    int
	seconds float64
}

// traceEvent has the fields of a Chrome trace's event that memopt reads.
type traceEvent struct {
	Name string   `json:"name"`
	Ph   string   `json:"ph"`
	Dur  *float64 `json:"dur"` // microseconds
	Args struct {
		Op     string `json:"op"`
		Step   int    `json:"step"`
		Origin string `json:"origin"` // of a clone: the node of the graph before it was rewritten
	} `json:"args"`
}

// LoadTrace reads a Chrome trace that `memopt run --profile` wrote.
func LoadTrace(path string) (*Trace, error) {
	f, _, err := inputfile.Open(path, maxTrace)
	if large := (*inputfile.SizeError)(nil); errors.As(err, &large) {
		return nil, faultf(path, "%v: measure fewer steps", large)
	}
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	return ParseTrace(inputfile.Limited(f, maxTrace), path)
}

// ParseTrace reads a Chrome trace event by event.
func ParseTrace(r io.Reader, where string) (*Trace, error) {
	t := &Trace{Where: where, index: map[string]int{}}
	dec := json.NewDecoder(r)
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, faultf(where, "is not a JSON object; wanted a trace that %v wrote", hint.Profile)
	}
	for dec.More() {
		key, err := dec.Token()
		if err == nil {
			err = t.field(dec, key)
		}
		if err != nil {
			return nil, t.fault(err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, t.fault(err)
	}
	if s := t.About.Schema; s != "" && s != TraceSchema {
		return nil, faultf(where, "has schema %q, wanted %q", s, TraceSchema)
	}
	if len(t.nodes) == 0 {
		return nil, faultf(where, "has no events of nodes; wanted a trace that %v wrote", hint.Profile)
	}
	return t, nil
}

// fault words an error of the decoder; memopt's own errors stay as they are.
func (t *Trace) fault(err error) error {
	if e, ok := err.(*Error); ok {
		return e
	}
	return faultf(t.Where, "is not a trace: %v; wanted what %v wrote", err, hint.Profile)
}

// field reads a field of the outer object.
func (t *Trace) field(dec *json.Decoder, key json.Token) error {
	switch key {
	case "otherData":
		return dec.Decode(&t.About)
	case "traceEvents":
		if tok, err := dec.Token(); err != nil {
			return err
		} else if tok != json.Delim('[') {
			return faultf(t.Where, "traceEvents is not an array")
		}
		for i := 0; dec.More(); i++ {
			var e traceEvent
			if err := dec.Decode(&e); err != nil {
				return err
			}
			if err := t.add(i, &e); err != nil {
				return err
			}
		}
		_, err := dec.Token()
		return err
	}
	var skipped json.RawMessage
	return dec.Decode(&skipped)
}

// add counts an event. Those without a duration, such as counters, are left out.
func (t *Trace) add(i int, e *traceEvent) error {
	if e.Ph != "X" {
		return nil
	}
	switch {
	case e.Name == "":
		return faultf(t.Where, "event %d has no name; wanted a node's", i)
	case e.Dur == nil || !(*e.Dur >= 0) || math.IsInf(*e.Dur, 1):
		return faultf(t.Where, "event %d, of node %.80q, has no valid dur; wanted 0 or more "+
			"microseconds", i, e.Name)
	case e.Args.Step < 0:
		return faultf(t.Where, "event %d, of node %.80q, is of step %d; wanted 0 or more", i, e.Name, e.Args.Step)
	}
	label := e.Name
	if e.Args.Origin != "" {
		label = e.Args.Origin
	}
	at, ok := t.index[label]
	if !ok {
		at = len(t.nodes)
		t.index[label] = at
		t.nodes = append(t.nodes, nodeTimes{label: label, op: e.Args.Op})
	}
	t.nodes[at].runs = append(t.nodes[at].runs, nodeRun{e.Args.Step, *e.Dur / 1e6})
	return nil
}

// clones matches the names that rewritten graphs give to clones.
var clones = regexp.MustCompile("^(.+)" + regexp.QuoteMeta(recompute.Suffix) + "(_[0-9]+)?$")

// Costs returns the seconds of one execution of every node of a graph, by NodeID, and how many
// nodes were measured: the median over the steps, without the first if there are several, because
// that one touches memory for the first time. Nodes without a measurement have NaN. Times of a
// clone that the graph does not have count for the node that it repeats. A trace without any of the
// graph's nodes is an error.
func (t *Trace) Costs(g *graph.Graph) ([]float64, int, error) {
	byLabel := make(map[string]*nodeTimes, len(g.Nodes))
	for i, n := range g.Nodes {
		label := g.NodeLabel(graph.NodeID(i))
		byLabel[label] = &nodeTimes{label: label, op: n.Op}
	}
	for i := range t.nodes {
		n := &t.nodes[i]
		own, ok := byLabel[n.label]
		if m := clones.FindStringSubmatch(n.label); !ok && m != nil {
			own, ok = byLabel[m[1]]
		}
		if ok && (n.op == own.op || n.op == "") {
			own.runs = append(own.runs, n.runs...)
		}
	}
	costs, measured := make([]float64, len(g.Nodes)), 0
	for i, n := range g.Nodes {
		own := byLabel[g.NodeLabel(graph.NodeID(i))]
		costs[i] = math.NaN()
		if own.op == n.Op && len(own.runs) > 0 {
			costs[i] = own.median()
			measured++
		}
	}
	if measured == 0 {
		return nil, 0, faultf(t.Where,
			"none of its %d nodes (the first is %q) is in this graph; measure this graph as it "+
				"is, for example 3 steps of it, with %v", len(t.nodes), t.nodes[0].label, hint.Profile)
	}
	return costs, measured, nil
}

// median returns the median over the steps of the mean time of one execution in a step, without
// step 0 if there are others. There must be an execution.
func (n *nodeTimes) median() float64 {
	slices.SortStableFunc(n.runs, func(a, b nodeRun) int { return cmp.Compare(a.step, b.step) })
	var means []float64
	for lo := 0; lo < len(n.runs); {
		hi, sum := lo, 0.0
		for ; hi < len(n.runs) && n.runs[hi].step == n.runs[lo].step; hi++ {
			sum += n.runs[hi].seconds
		}
		means = append(means, sum/float64(hi-lo))
		lo = hi
	}
	if len(means) > 1 && n.runs[0].step == 0 {
		means = means[1:]
	}
	slices.Sort(means)
	return (means[(len(means)-1)/2] + means[len(means)/2]) / 2
}
