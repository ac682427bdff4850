package check

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"memopt/check/flow"
	"memopt/check/streams"
)

// instance is a graph of computations (docs/instances.md) with the state of a replay.
type instance struct {
	Format, Order string
	Version       int
	Unit          string `json:"cost_unit"`
	Live          []value
	Nodes         []node

	resident float64 // bytes that live throughout
	values   []value
	nodeOf   map[id]int
	valueOf  map[id]int // -1: it lives throughout
}

type node struct {
	value              // its id; and its one output where it has no list of them
	Cost, Workspace    float64
	Inputs             []id
	Outputs            *[]value
	Alias              *id
	Recompute, Offload *bool

	in, out []int // values
	view    bool
	runs    int
	seed    string
}

type value struct {
	ID   id
	Size float64
	Keep bool // or a view of it is kept

	node, base, root int  // of its maker; of the value that it is a view of, and of that with the memory, or itself
	still            bool // it is never moved
	live, made, host bool // it is on the device; it was; the host has a copy
	views            int  // live views of it
	memory           streams.Memory
	written, newest  streams.Moment // of its newest copy out, and of the newest copy either way; nil if it has no copy
	outEnd, end      float64        // when these have ended
	in               bool           // the newest copy is a reload
	from, until      int            // the host copy's first step, and the one where it is given up; -1: not yet
}

// id is a name as JSON has it: 7 and "7" are two names, in version 1.
type id string

// UnmarshalJSON takes a number or a text.
func (i *id) UnmarshalJSON(b []byte) error {
	text, err := string(b), error(nil)
	if b[0] == '"' {
		err = json.Unmarshal(b, &text)
		text = strconv.Quote(text)
	}
	*i = id(text)
	return err
}

// key is an id as instances and answers of version 2 compare it: 7 and "7" are one name there.
func (in *instance) key(i id) id {
	if in.Version == 2 && i != "" && i[0] != '"' {
		return id(strconv.Quote(string(i)))
	}
	return i
}

// index numbers the values and finds them for the nodes.
func (in *instance) index() error {
	if in.Format != "" && (in.Format != "memopt-instance" || in.Version != 2) || in.Nodes == nil {
		return fmt.Errorf("format %.40q, version %d: wanted nodes, and version 1 or 2", in.Format, in.Version)
	}
	in.nodeOf, in.valueOf = map[id]int{}, map[id]int{}
	total := 0.0
	add := func(x *value, number int) error {
		x.ID = in.key(x.ID)
		if _, ok := in.valueOf[x.ID]; ok || x.ID == "" {
			return fmt.Errorf("value %s: wanted an id of its own", x.ID)
		}
		if total += x.Size; !(x.Size >= 0) || x.Size != math.Trunc(x.Size) || total > 1<<53 {
			return fmt.Errorf("value %s: %g bytes: wanted a whole number, and no more than 2^53 in all", x.ID, x.Size)
		}
		in.valueOf[x.ID] = number
		return nil
	}
	for i := range in.Live {
		if err := add(&in.Live[i], -1); err != nil {
			return err
		}
		in.resident += in.Live[i].Size
	}
	for v := range in.Nodes {
		n := &in.Nodes[v]
		n.ID = in.key(n.ID)
		_, twice := in.nodeOf[n.ID]
		in.nodeOf[n.ID] = v
		if total += n.Workspace; twice || n.ID == "" || !(n.Cost >= 0) || math.IsInf(n.Cost, 0) || !(n.Workspace >= 0) {
			return fmt.Errorf("node %s: wanted an id of its own, a cost and a workspace from 0 on", n.ID)
		}
		outputs, base := []value{n.value}, -1
		if n.Outputs != nil {
			outputs = *n.Outputs
		}
		for _, name := range n.Inputs {
			u, ok := in.valueOf[in.key(name)]
			if !ok {
				return fmt.Errorf("node %s: its input %s is no value before it", n.ID, name)
			}
			if u >= 0 {
				n.in = append(n.in, u)
			}
			if n.Alias != nil && in.key(*n.Alias) == in.key(name) {
				base, n.view = u, u >= 0
			}
		}
		if n.Alias != nil && !slices.ContainsFunc(n.Inputs, func(i id) bool { return in.key(i) == in.key(*n.Alias) }) {
			return fmt.Errorf("node %s: its alias %s is none of its inputs", n.ID, *n.Alias)
		}
		for _, x := range outputs {
			at := len(in.values)
			x.node, x.base, x.root, x.still = v, at, at, n.Offload != nil && !*n.Offload
			if n.Alias != nil {
				x.Size = 0
			}
			if n.view {
				x.base, x.root = base, in.values[base].root
			}
			if err := add(&x, at); err != nil {
				return err
			}
			n.out, in.values = append(n.out, at), append(in.values, x)
		}
	}
	for v := len(in.values) - 1; v >= 0; v-- {
		base := &in.values[in.values[v].base]
		base.Keep = base.Keep || in.values[v].Keep
	}
	return nil
}

// graph is the instance as the bound needs it.
func (in *instance) graph() *flow.Graph {
	g := &flow.Graph{Resident: in.resident}
	for v := range in.Nodes {
		n := &in.Nodes[v]
		g.Nodes = append(g.Nodes, flow.Node{Cost: n.Cost, Workspace: n.Workspace, View: n.view, In: n.in,
			Once: n.Recompute != nil && !*n.Recompute})
	}
	for u := range in.values {
		x := &in.values[u]
		g.Values = append(g.Values, flow.Value{Size: x.Size, Keep: x.Keep, Node: x.node, Root: x.root})
	}
	return g
}

// answer is a schedule with its claims; nil where it makes no claim.
type answer struct {
	Steps                          []step
	Cost, Makespan, Overhead, Peak *float64
	BaseCost                       *float64 `json:"base_cost"`
	HostPeak                       *float64 `json:"host_peak"`
	Moved                          *float64 `json:"moved_bytes"`
	CostLowerBound                 *float64 `json:"cost_lower_bound"`
	PeakLowerBound                 *float64 `json:"peak_lower_bound"`
	Optimal                        bool
	InOrder                        bool      `json:"in_order"`
	HostBudget                     *float64  `json:"host_budget"`
	Certificate                    *struct { // see flow.Graph.Cut
		Moment id
		Price  float64 // cost of a byte
		Budget float64 `json:"budget_bytes"`
		Order  string  // of first computes: any, or given
		Bound  float64
	}
	Link *struct { // to the host and back
		Rate    float64 `json:"bytes_per_second"`
		Latency float64 `json:"latency_us"`
	}
}

// step has one of the verbs. The seed is that of a random node, where the plan has one.
type step struct {
	Compute, Free, Offload, Reload, Wait *id
	Seed                                 json.RawMessage
}
