package chunk

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// region is a set of nodes with one cut that they agree on.
type region struct {
	seed  graph.ValueID
	span  span
	rows  int64 // places of the cut
	nodes []graph.NodeID
	along []*along // by node of the list
	place map[graph.ValueID]place
	grain int64 // in rows; 0 if parts have other bits than the whole
}

// finder finds regions of one graph. Its sizes are numbers.
type finder struct {
	g       *graph.Graph
	opsets  []graph.Opset
	dims    [][]int64 // by value, nil if unknown
	pos     []int32   // by node
	readers [][]graph.NodeID
	factors [][]op.Factor // by node, once asked for
	asked   []bool
	whole   []bool // by node: it is not cut, whoever asks
	mode    Mode
	defines bool    // the file may have operators of memopt's own
	in      []int32 // by node: 1 and its place in the list of the region that grows, or 0
	grown   int     // nodes that were looked at for all regions
	byLabel map[string]graph.NodeID
	// Scratch of growth: ahead and behind are by node, and valid if equal to the stamp.
	ahead, behind []int32
	stamp         int32
	list, near    []graph.NodeID
}

func newFinder(m *graph.Model, order graph.Order, mode Mode) *finder {
	g := m.Graph
	f := &finder{g: g, opsets: m.Opsets, dims: make([][]int64, len(g.Values)), pos: order.Positions(),
		readers: make([][]graph.NodeID, len(g.Values)), factors: make([][]op.Factor, len(g.Nodes)),
		asked: make([]bool, len(g.Nodes)), whole: make([]bool, len(g.Nodes)), mode: mode, defines: op.CanDefine(m),
		in: make([]int32, len(g.Nodes)), ahead: make([]int32, len(g.Nodes)), behind: make([]int32, len(g.Nodes))}
	for v := range g.Values {
		f.dims[v] = constDims(g.Values[v].Type)
	}
	for _, id := range order {
		n := g.Nodes[id]
		f.whole[id] = f.whole[id] || uncuttable(n)
		f.keepLabels(n)
		for _, list := range [][]graph.ValueID{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v != graph.NoValue && !slices.Contains(f.readers[v], id) {
					f.readers[v] = append(f.readers[v], id)
				}
			}
		}
	}
	return f
}

// keepLabels keeps the labels of a mean or of joined losses whole: they are counted before the first
// part, or read behind the last.
func (f *finder) keepLabels(n *graph.Node) {
	m := rows[n.Kind].mean
	if m == nil || meanOf(n) == nil && (m.gradient || n.Str("reduction", "mean") != "sum" || !f.joins(n)) {
		return
	}
	if v := n.Input(m.labels); v != graph.NoValue && f.g.Values[v].Def != graph.NoNode {
		f.whole[f.g.Values[v].Def] = true
	}
}

// uncuttable reports whether a node has effects besides its outputs, or runs subgraphs.
func uncuttable(n *graph.Node) bool {
	info := op.Of(n.Kind)
	return n.HasSubgraphs() || n.Fault() != nil || n.Clash() != nil || info.Has(op.Yield) || len(info.Mutates) > 0 ||
		len(info.Updates) > 0 || len(info.States) > 0 || info.Class == op.Never
}

// constDims returns the dims of a tensor whose sizes are numbers, nil where one is not.
func constDims(t graph.Type) []int64 {
	if t.Form != graph.FormTensor || !t.Shape.Ranked {
		return nil
	}
	dims := make([]int64, len(t.Shape.Dims))
	for i, e := range t.Shape.Dims {
		n, ok := e.Const()
		if !ok {
			return nil
		}
		dims[i] = n
	}
	return dims
}

func (f *finder) dimsOf(v graph.ValueID) []int64 {
	if v == graph.NoValue {
		return nil
	}
	return f.dims[v]
}

// factorsOf returns the factors of a node, in the form that its parts have.
func (f *finder) factorsOf(id graph.NodeID) []op.Factor {
	if !f.asked[id] {
		f.asked[id] = true
		n := f.g.Nodes[id]
		info := op.Of(n.Kind)
		p := &op.Pieces{Graph: f.g, Node: inParts(n), Dims: f.dimsOf,
			Version: info.VersionOf(n, graph.OpsetVersion(f.opsets, info.Domain))}
		if f.known(n) {
			f.factors[id] = op.FactorsOf(p)
		}
	}
	return f.factors[id]
}

// known reports whether the dims of all operands of a node are known.
func (f *finder) known(n *graph.Node) bool {
	for _, list := range [][]graph.ValueID{n.Inputs, n.Outputs} {
		for _, v := range list {
			if v != graph.NoValue && f.dims[v] == nil {
				return false
			}
		}
	}
	return true
}

// alongOperand divides a node along the place of one of its operands in a cut; why is the reason if it
// cannot be divided.
func (f *finder) alongOperand(id graph.NodeID, o operand, p place, rows int64) (a *along, why string) {
	n := f.g.Nodes[id]
	if f.whole[id] {
		return nil, "is not computed in parts"
	}
	list := n.Inputs
	if o.out {
		list = n.Outputs
	}
	links := chain(f.factorsOf(id), o, f.dims[list[o.slot]], p, rows)
	if links == nil {
		return nil, "does not fall into parts along that dim"
	}
	if a = alongChain(n, links, f.dimsOf); a == nil {
		return nil, "does not fall into parts along that dim"
	}
	f.adjust(n, a)
	return a, f.reject(n, a)
}

// adjust decides whether results reduced from parts keep the bits of the whole: a mean over rows, the
// first dim of its scores, does, and so does a sum that the node itself accumulates, unless its parts
// are rounded to fewer bits.
func (f *finder) adjust(n *graph.Node, a *along) {
	switch {
	case f.joined(n, a) && a.in[0].dim == 0:
		a.grain = 1
	case a.reduce == op.SumOf && (!f.goesOn(n) || f.narrow(n)):
		a.grain = 0
	}
}

// reject returns why a node cannot be computed in chunks although its work can be divided, or "".
func (f *finder) reject(n *graph.Node, a *along) string {
	if why := f.rejectMean(n); why != "" {
		return why
	}
	for slot, v := range n.Outputs {
		if v == graph.NoValue || a.out[slot].cut() {
			continue
		}
		if why := f.rejectSum(n, a, slot); why != "" {
			return why
		}
	}
	if op.Of(n.Kind).Random && !drawnInParts(n, a) {
		return "draws at random, and its parts cannot draw the same numbers"
	}
	if f.mode == Exact && a.grain == 0 {
		return "gives other bits in parts"
	}
	return ""
}

// drawnInParts reports whether parts of a random node can draw the numbers of the whole: they are parts
// of its first output, and not along an inner dim (op.SetDrawRuns).
func drawnInParts(n *graph.Node, a *along) bool {
	d, _, err := op.DrawsOf(n)
	return err == nil && d.Run == 0 && n.Output(0) != graph.NoValue && a.out[0].cut()
}

// grow returns the region of a value that is cut along dims of it: the nodes that make and read it and,
// from these, all that are connected by values of at least a share of its elements. The error is the
// reason why the value cannot be cut so. Only allowed nodes are added; nil allows all.
func (f *finder) grow(seed graph.ValueID, s span, share float64, allowed []bool) (*region, error) {
	return f.growAcross(seed, s, int64(share*float64(product(f.dims[seed]))), allowed)
}

// growAcross is grow across values of at least so many elements.
func (f *finder) growAcross(seed graph.ValueID, s span, least int64, allowed []bool) (*region, error) {
	d := f.dims[seed]
	if d == nil || s.last >= len(d) {
		return nil, fmt.Errorf("value %q has no dim %s", f.g.Values[seed].Name, s)
	}
	r := &region{seed: seed, span: s, rows: product(d[s.first : s.last+1]), place: map[graph.ValueID]place{},
		grain: 1}
	r.place[seed] = place{dim: s.last, inner: 1, merge: s.last > s.first && product(d[:s.last]) > 1}
	if r.rows < 2 {
		return nil, fmt.Errorf("value %q has %d places along dim %s, wanted 2 or more",
			f.g.Values[seed].Name, r.rows, s)
	}
	g := &growth{finder: f, region: r, in: f.in, allowed: allowed, least: least}
	err := g.run()
	f.grown++
	for _, id := range r.nodes {
		f.in[id] = 0
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// growth is a region while it grows.
type growth struct {
	*finder
	*region
	in      []int32
	allowed []bool // by node; nil allows all
	queue   queue
	turns   int
	least   int64     // elements of the smallest values across which the region grows
	later   []reached // smaller ones
	inside  bool      // it grows between its nodes alone
}

// run goes from the largest value to the smallest, so that the nodes of a region alone say how it
// grows, however small the values are across which it may.
func (g *growth) run() error {
	heap.Push(&g.queue, reached{g.seed, product(g.dims[g.seed]), 0})
	for g.queue.Len() > 0 {
		v := heap.Pop(&g.queue).(reached).value
		if err := g.around(v); err != nil && v == g.seed {
			return fmt.Errorf("value %q: %w", g.g.Values[v].Name, err)
		}
	}
	g.between()
	g.sort()
	if g.g.Values[g.seed].Output {
		return fmt.Errorf("value %q is an output of the graph", g.g.Values[g.seed].Name)
	}
	return nil
}

// reached is a value that a region can grow from.
type reached struct {
	value    graph.ValueID
	elements int64
	turn     int // how many were reached before
}

// queue has the largest values first, of equal ones those that were reached first.
type queue []reached

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[j].elements, q[i].elements), cmp.Compare(q[i].turn, q[j].turn)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(reached)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// around takes in the nodes that make and read a value.
func (g *growth) around(v graph.ValueID) error {
	var first error
	if by := g.g.Values[v].Def; by != graph.NoNode {
		first = g.take(by, operand{int(g.g.Values[v].DefSlot), true}, v)
	} else {
		first = fmt.Errorf("no node makes it")
	}
	for _, id := range g.readers[v] {
		n := g.g.Nodes[id]
		if op.Of(n.Kind).Has(op.ShapeOf) {
			continue // it reads a number
		}
		slot := slices.Index(n.Inputs, v)
		var err error
		if slot < 0 {
			err = fmt.Errorf("node %q reads it inside a subgraph", g.g.NodeLabel(id))
		} else {
			err = g.take(id, operand{slot: slot}, v)
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// errRefused means that a region does not grow across a value that is not its seed.
var errRefused = errors.New("the region does not grow there")

// take adds a node, one of whose operands is cut, to the region.
func (g *growth) take(id graph.NodeID, o operand, v graph.ValueID) error {
	g.grown++
	if i := g.in[id] - 1; i >= 0 {
		have := g.along[i].in
		if o.out {
			have = g.along[i].out
		}
		if have[o.slot] != g.place[v] {
			return g.refuse(v, id, "is cut along another dim of it")
		}
		return nil
	}
	if !g.may(id) {
		return g.refuse(v, id, "is not among the region's")
	}
	a, why := g.alongOperand(id, o, g.place[v], g.rows)
	if why != "" {
		return g.refuse(v, id, why)
	}
	if other := g.disagrees(id, a); other != graph.NoValue {
		return g.refuse(v, id, fmt.Sprintf("cuts %q along another dim than others do", g.g.Values[other].Name))
	}
	grain := int64(0)
	if g.grain > 0 && a.grain > 0 {
		grain = g.grain / symbolic.GCD(g.grain, a.grain) * a.grain
	}
	if grain >= g.rows { // not even two parts have the bits of the whole
		grain = 0
	}
	if grain == 0 && g.mode == Exact {
		return g.refuse(v, id, "gives other bits in parts that begin where others' may")
	}
	g.nodes, g.along = append(g.nodes, id), append(g.along, a)
	g.in[id], g.grain = int32(len(g.nodes)), grain
	n := g.g.Nodes[id]
	g.reach(n.Inputs, a.in)
	g.reach(n.Outputs, a.out)
	return nil
}

// refuse notes why a node of a value is not in the region. Only the reason of the seed is ever asked
// for.
func (g *growth) refuse(v graph.ValueID, id graph.NodeID, why string) error {
	if v != g.seed {
		return errRefused
	}
	return fmt.Errorf("node %q (%s) %s", g.g.NodeLabel(id), g.g.Nodes[id].Op, why)
}

// disagrees returns an operand of a node that other nodes of the region have cut in another way;
// graph.NoValue if there is no conflict.
func (g *growth) disagrees(id graph.NodeID, a *along) graph.ValueID {
	n := g.g.Nodes[id]
	if v := g.cutOtherwise(n.Inputs, a.in); v != graph.NoValue {
		return v
	}
	return g.cutOtherwise(n.Outputs, a.out)
}

func (g *growth) cutOtherwise(list []graph.ValueID, places []place) graph.ValueID {
	for slot, v := range list {
		if v == graph.NoValue || !places[slot].cut() {
			continue
		}
		if p, ok := g.place[v]; ok && p != places[slot] {
			return v
		}
	}
	return graph.NoValue
}

// reach notes the places of a node's operands, and goes on from those that are large.
func (g *growth) reach(list []graph.ValueID, places []place) {
	for slot, v := range list {
		if v == graph.NoValue || !places[slot].cut() {
			continue
		}
		if _, known := g.place[v]; known {
			continue
		}
		g.place[v] = places[slot]
		g.turns++
		n := reached{v, product(g.dims[v]), g.turns}
		if n.elements >= g.least {
			heap.Push(&g.queue, n)
		} else {
			g.later = append(g.later, n)
		}
	}
}

// sort puts the nodes in order.
func (g *growth) sort() {
	index := make([]int, len(g.nodes))
	for i := range index {
		index[i] = i
	}
	slices.SortFunc(index, func(a, b int) int { return int(g.pos[g.nodes[a]] - g.pos[g.nodes[b]]) })
	nodes, alongs := g.nodes, g.along
	g.nodes, g.along = make([]graph.NodeID, len(index)), make([]*along, len(index))
	for i, k := range index {
		g.nodes[i], g.along[i] = nodes[k], alongs[k]
	}
}
