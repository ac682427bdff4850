package parallel

import (
	"fmt"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/hint"
)

// stages assigns nodes to stages.
type stages struct {
	chunk  []int // by node: its place in the pipeline; shared: each stage that needs it runs it
	names  []string
	source string // how the cuts were found
	costs  []float64
}

// shared marks nodes that depend on data alone and cost next to nothing: masks and positions.
const shared = -1

// StageError is the reason why a model cannot be cut into the requested stages.
type StageError struct{ Err error }

func (e *StageError) Error() string { return e.Err.Error() }

func (e *StageError) Unwrap() error { return e.Err }

// cutter assigns nodes to units (layers, or other indivisible nodes), and units to chunks.
type cutter struct {
	*divider
	order   graph.Order
	seconds []float64 // by node
	unit    []int     // by node
	readers [][]int   // by parameter: the units of its forward readers, ascending
	names   []string  // of the units
	found   map[string]int
}

// cutStages finds out which chunk of the pipeline every node belongs to.
func cutStages(d *divider, order graph.Order, seconds []float64, chunks int) (*stages, error) {
	c := &cutter{divider: d, order: order, seconds: seconds, unit: make([]int, len(d.g.Nodes)),
		readers: make([][]int, len(d.g.Values))}
	s := &stages{chunk: make([]int, len(d.g.Nodes))}
	if chunks == 1 {
		s.names, s.source, s.costs = []string{"all"}, "one stage", []float64{total(seconds)}
		return s, nil
	}
	if c.annotated() {
		s.source = "the file's pipeline stages (IR version 11)"
	} else if err := c.layers(chunks); err != nil {
		return nil, err
	} else {
		s.source = "layers, at equal cost"
	}
	c.assign()
	cost := c.costs()
	ends := make([]int, len(c.names))
	if s.source[0] == 'l' {
		ends = partition(cost, chunks)
	} else if len(c.names) != chunks {
		return nil, &StageError{fmt.Errorf("the file's annotations have %d pipeline stages, and %v and %v ask for %d",
			len(c.names), hint.Pipeline, hint.Interleave, chunks)}
	} else {
		for i := range ends {
			ends[i] = i
		}
	}
	s.fill(c, ends, chunks, cost)
	return s, nil
}

func total(list []float64) (sum float64) {
	for _, x := range list {
		sum += x
	}
	return sum
}

// fill turns units into chunks.
func (s *stages) fill(c *cutter, chunkOf []int, chunks int, cost []float64) {
	s.names, s.costs = make([]string, chunks), make([]float64, chunks)
	first, last := make([]int, chunks), make([]int, chunks)
	for u := len(chunkOf) - 1; u >= 0; u-- {
		k := chunkOf[u]
		if last[k] == 0 {
			last[k] = u
		}
		first[k] = u
		s.costs[k] += cost[u]
	}
	for k := range chunks {
		if s.names[k] = c.names[first[k]]; last[k] > first[k] {
			s.names[k] += " to " + c.names[last[k]][1+strings.LastIndexByte(c.names[last[k]], '/'):]
		}
	}
	for i, u := range c.unit {
		if s.chunk[i] = shared; u != shared {
			s.chunk[i] = chunkOf[u]
		}
	}
}

// annotated takes the pipeline stages of the file as units, if it has any in its forward half.
func (c *cutter) annotated() bool {
	var list []int64
	for _, n := range c.g.Nodes {
		if st := n.Stage(""); st != graph.NoStage && !c.back[n.ID] {
			list = append(list, st)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	c.found = map[string]int{}
	for i, st := range list {
		c.names = append(c.names, fmt.Sprintf("stage %d", st))
		c.found[fmt.Sprint(st)] = i
	}
	return len(list) > 0
}

// layers takes the layers in the names of forward nodes as units; without such names, each forward
// node is one.
func (c *cutter) layers(chunks int) error {
	count := map[string]int{}
	var layers []string
	for _, id := range c.order {
		name := graph.LayerOf(c.g.NodeLabel(id))
		if c.back[id] || !endsInDigit(name) || slices.Contains(layers, name) {
			continue
		}
		layers = append(layers, name)
		count[general(name)]++
	}
	stem := ""
	for _, name := range layers {
		if g := general(name); count[g] > count[stem] {
			stem = g
		}
	}
	layers = slices.DeleteFunc(layers, func(name string) bool { return general(name) != stem })
	c.found = map[string]int{}
	if len(layers) < 2 {
		return c.singles(chunks)
	}
	if len(layers) < chunks {
		return &StageError{fmt.Errorf("the model has %d layers (%s to %s), too few for %d stages", len(layers),
			layers[0], layers[len(layers)-1], chunks)}
	}
	for i, name := range layers {
		c.found[name] = i
	}
	c.names = layers
	return nil
}

func endsInDigit(s string) bool { return s != "" && s[len(s)-1] >= '0' && s[len(s)-1] <= '9' }

// singles takes every forward node as a unit.
func (c *cutter) singles(chunks int) error {
	for _, id := range c.order {
		if out := c.g.Nodes[id].Output(0); c.back[id] || out == graph.NoValue || c.data[out] {
			continue
		}
		c.found[c.g.NodeLabel(id)] = len(c.names)
		c.names = append(c.names, c.g.NodeLabel(id))
	}
	if len(c.names) < chunks {
		return &StageError{fmt.Errorf("the forward half has %d nodes, too few for %d stages", len(c.names), chunks)}
	}
	return nil
}

// stated is the unit that a node's annotation or name says.
func (c *cutter) stated(n *graph.Node) (int, bool) {
	if st := n.Stage(""); st != graph.NoStage {
		if u, ok := c.found[fmt.Sprint(st)]; ok {
			return u, true
		}
	}
	if u, ok := c.found[graph.LayerOf(c.g.NodeLabel(n.ID))]; ok {
		return u, true
	}
	u, ok := c.found[c.g.NodeLabel(n.ID)]
	return u, ok
}

// assign gives every node its unit: a forward node without a layer gets that of its operands'
// producers; a backward node that of the forward values and parameters that it reads, else that of
// its gradients' producers.
func (c *cutter) assign() {
	for _, id := range c.order {
		n := c.g.Nodes[id]
		u, ok := c.stated(n)
		switch {
		case c.shared(n) && (!ok || c.back[id]):
			c.unit[id] = shared
			continue
		case c.back[id]:
			c.unit[id] = c.backwardUnit(n)
			continue
		}
		c.g.EachProducer(id, func(p graph.NodeID) { u = max(u, c.unit[p]) })
		c.unit[id] = u
		for _, in := range n.Inputs {
			if p, _, weight := c.weightOf(in); weight {
				c.readers[p] = append(c.readers[p], u)
			}
		}
	}
}

// shared reports whether every stage that needs a node's output makes it: a value that depends on
// data alone, or a weight in another form.
func (c *cutter) shared(n *graph.Node) bool {
	out := n.Output(0)
	if out == graph.NoValue {
		return false
	}
	_, _, weight := c.weightOf(out)
	return weight || c.data[out]
}

// weightOf is weight for an operand that may be left out or of unknown shape.
func (c *cutter) weightOf(v graph.ValueID) (graph.ValueID, int, bool) {
	if v == graph.NoValue || c.dims[v] == nil {
		return v, 0, false
	}
	return c.weight(v, 0)
}

func (c *cutter) backwardUnit(n *graph.Node) int {
	if u, ok := c.stated(n); ok {
		return u
	}
	forward, gradient := -1, len(c.names)-1
	var weights []graph.ValueID
	for _, in := range n.Inputs {
		if in == graph.NoValue {
			continue
		}
		if p, _, weight := c.weightOf(in); weight {
			weights = append(weights, p)
			continue
		}
		def := c.g.Values[in].Def
		if def == graph.NoNode || c.unit[def] == shared {
			continue
		}
		if c.back[def] {
			gradient = min(gradient, c.unit[def])
		} else {
			forward = max(forward, c.unit[def])
		}
	}
	for _, p := range weights {
		for _, u := range c.readers[p] { // of a weight that several stages read, the one that gradients come to first
			if u <= gradient {
				forward = max(forward, u)
			}
		}
	}
	if forward >= 0 {
		return min(forward, gradient)
	}
	return gradient
}

// costs adds up the seconds of each unit's nodes.
func (c *cutter) costs() []float64 {
	cost := make([]float64, len(c.names))
	for i, u := range c.unit {
		if u != shared {
			cost[u] += c.seconds[i]
		}
	}
	return cost
}

// partition cuts a row of costs into the given number of nonempty runs such that the largest sum is
// as small as possible; among several such cuts, the first runs are the longest.
func partition(cost []float64, runs int) []int {
	low, high := slices.Max(cost), total(cost)
	for range 100 { // more halvings than a float64 has bits
		if mid := (low + high) / 2; pack(cost, runs, mid, nil) {
			high = mid
		} else {
			low = mid
		}
	}
	out := make([]int, len(cost))
	pack(cost, runs, high, out)
	return out
}

// pack fills runs up to a limit, the first ones first, and leaves one cost at least for each run
// behind. It reports whether all costs have found a place, and where, unless out is nil.
func pack(cost []float64, runs int, limit float64, out []int) bool {
	run, sum := 0, 0.0
	for i, x := range cost {
		if i > 0 && (sum+x > limit || len(cost)-i < runs-run) {
			run, sum = run+1, 0
		}
		if sum += x; run == runs || sum > limit {
			return false
		}
		if out != nil {
			out[i] = run
		}
	}
	return true
}
