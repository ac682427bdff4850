package chunk

import (
	"cmp"
	"context"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/recompute"
	"memopt/symbolic"
)

// Propose returns lists of cuts that are worth planning to bring a graph's peak within a budget, the
// bytes of an arena, from the coarsest on: every second list halves the bytes that single steps need of
// values in parts, which recomputation cannot lower, as long as mostParts parts suffice. The list is
// empty if every step needs less, or no step that needs more can be divided. Symbols are bound by dims;
// the error is a *symbolic.UnboundError, or that of the inference with numbers. A context that is done
// ends the search with the lists so far.
func Propose(
	ctx context.Context, m *graph.Model, order graph.Order, dims symbolic.Env, budget int64, mode Mode,
) ([][]Cut, error) {
	if mode == Off || mode == "" {
		return nil, nil
	}
	bound, err := Bind(m, dims)
	if err != nil {
		return nil, err
	}
	bytes, err := memory(bound)
	if err != nil {
		return nil, err
	}
	p := &proposer{finder: newFinder(bound, order, mode), order: order, bytes: bytes,
		root: roots(bound.Graph, order), labels: recompute.Labels(bound.Graph)}
	var lists [][]Cut
	most := int64(0)
	for _, id := range order {
		most = max(most, p.need(bound.Graph.Nodes[id], nil, 1))
	}
	for k := 2; halved(budget, k) > most/mostParts; k++ {
		limit := halved(budget, k)
		regions, others := p.propose(ctx, limit)
		if ctx.Err() != nil {
			break
		}
		for _, regions := range [][]*candidate{regions, p.relieve(regions, max(others, limit))} {
			cuts := p.record(regions)
			known := func(list []Cut) bool { return sameCuts(list, cuts) }
			if cuts != nil && !slices.ContainsFunc(lists, known) {
				lists = append(lists, cuts)
			}
		}
	}
	return lists, nil
}

// record returns the cuts of regions.
func (p *proposer) record(regions []*candidate) (cuts []Cut) {
	for _, c := range regions {
		cuts = append(cuts, *c.record(p.g, p.labels, c.parts))
	}
	return cuts
}

// halved is a number divided by the square root of 2, k times: in whole halves exactly.
func halved(n int64, k int) int64 {
	if k%2 > 0 {
		n = int64(float64(n) / math.Sqrt2)
	}
	return n >> (k / 2)
}

// mostParts bounds the parts of a region: more nodes than they save bytes.
const mostParts = 64

// mostGrown bounds the nodes of all regions that are looked at for one limit, by node of the graph:
// where many steps need much and no region helps, the largest ones are looked at.
const mostGrown = 64

// mostLooks bounds the same for graphs of many nodes: less than a second for each limit.
const mostLooks = 400_000

// seeds is how many of a step's values are tried as seeds of a region.
const seeds = 3

// A region grows across values with at least this share of the elements of its seed, and across those
// larger than a part of the limit: small values may be whole.
const (
	growShare = 0.5
	smallest  = 8
)

// proposer proposes cuts of one graph.
type proposer struct {
	*finder
	order  graph.Order
	bytes  []int64         // by value
	root   []graph.ValueID // by value: the one whose memory it shows
	labels []string
}

// roots finds for every value the one whose memory it shows.
func roots(g *graph.Graph, order graph.Order) []graph.ValueID {
	root := make([]graph.ValueID, len(g.Values))
	for v := range root {
		root[v] = graph.ValueID(v)
	}
	for _, id := range order {
		if n := g.Nodes[id]; op.Of(n.Kind).View && n.Input(0) != graph.NoValue && n.Output(0) != graph.NoValue {
			root[n.Output(0)] = root[n.Input(0)]
		}
	}
	return root
}

// candidate is a region in so many parts.
type candidate struct {
	*region
	parts int
	above bool  // even so many parts are larger than wanted
	most  int   // as many parts as there can be
	now   int64 // the largest need of a part of a node
	need  int64 // the same, at least the limit
	least int64 // the same at the largest possible number of parts
	inner int64 // bytes of values that exist in parts alone
}

// propose returns regions that bring every divisible step within the limit, if possible, and the largest
// need of the steps outside of them.
func (p *proposer) propose(ctx context.Context, limit int64) (regions []*candidate, others int64) {
	type step struct {
		id   graph.NodeID
		need int64
	}
	var steps []step
	for _, id := range p.order { // the steps that may need less
		if need := p.need(p.g.Nodes[id], nil, 1); need > limit {
			steps = append(steps, step{id, need})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(b.need, a.need) })
	free := slices.Repeat([]bool{true}, len(p.g.Nodes))
	end := p.grown + min(mostGrown*len(p.g.Nodes), mostLooks)
	for _, s := range steps {
		if !free[s.id] || p.grown > end || ctx.Err() != nil {
			continue
		}
		best := p.best(s.id, s.need, limit, free)
		if best == nil {
			continue
		}
		for _, id := range best.nodes {
			free[id] = false
		}
		regions = append(regions, p.named(best))
	}
	for _, id := range p.order {
		if free[id] {
			others = max(others, p.need(p.g.Nodes[id], nil, 1))
		}
	}
	return regions, others
}

// named returns a region under the name of the first of the values that lie in it as the one does that
// it grew from, if it grows from that, too: logits rather than their gradient.
func (p *proposer) named(c *candidate) *candidate {
	v := p.firstAlike(c)
	if v == c.seed {
		return c
	}
	allowed := make([]bool, len(p.g.Nodes))
	for _, id := range c.nodes {
		allowed[id] = true
	}
	r, err := p.grow(v, c.span, 0, allowed)
	if err != nil || len(r.nodes) != len(c.nodes) {
		return c
	}
	r.grain = c.grain
	renamed := *c
	renamed.region = r
	return &renamed
}

// firstAlike is the first value of a region that is no output of the graph, has the dims of the one it
// grew from, and lies in the region as that one does.
func (p *proposer) firstAlike(c *candidate) graph.ValueID {
	for i, id := range c.nodes { // in order
		for slot, v := range p.g.Nodes[id].Outputs {
			if v != graph.NoValue && !p.g.Values[v].Output && c.along[i].out[slot] == c.place[c.seed] &&
				slices.Equal(p.dims[v], p.dims[c.seed]) {
				return v
			}
		}
	}
	return c.seed
}

// relieve doubles the parts of the region with the largest need, if it needs a quarter more than the
// limit and all other steps: beside its chunked values a step may need a whole one, such as the gradient
// of a weight. It returns nil where that does not help.
func (p *proposer) relieve(regions []*candidate, others int64) []*candidate {
	if len(regions) == 0 {
		return nil
	}
	worst := slices.MaxFunc(regions, func(a, b *candidate) int { return cmp.Compare(a.now, b.now) })
	for _, c := range regions {
		if c != worst {
			others = max(others, c.now)
		}
	}
	if 4*worst.now < 5*max(others, worst.least) || 2*worst.parts > worst.most {
		return nil
	}
	out := slices.Clone(regions)
	finer := *worst
	finer.parts *= 2
	out[slices.Index(regions, worst)] = &finer
	return out
}

// best returns the region that lowers the need of a step most; nil if every region lowers it by less
// than a quarter.
func (p *proposer) best(id graph.NodeID, need, limit int64, free []bool) (best *candidate) {
	for _, v := range p.largest(p.g.Nodes[id]) {
		if p.bytes[v] < max(limit/smallest, 1) {
			break
		}
		elements := product(p.dims[v])
		least := max(int64(growShare*float64(elements)), elements*(limit/smallest)/p.bytes[v])
		for _, s := range p.spans(v) {
			r, err := p.growAcross(v, s, least, free)
			if err != nil || !slices.Contains(r.nodes, id) {
				continue
			}
			c := p.measure(r, limit)
			if c == nil || 4*c.least > 3*need {
				continue
			}
			if best == nil || c.better(best) {
				best = c
			}
		}
	}
	return best
}

// A region of at most manyNodes nodes is better the more bytes are in parts, a larger one the smaller it
// is: a node recomputed in one part is recomputed in each. If the parts are copies, nodes count so many
// times.
const (
	manyNodes = 64
	copied    = 4
)

// better reports whether a region is better than another one: a lower need as far as it is above the
// limit, parts that are small enough, few nodes, more bytes in parts, fewer parts.
func (c *candidate) better(d *candidate) bool {
	if !near(c.need, d.need) {
		return c.need < d.need
	}
	if c.above != d.above {
		return d.above
	}
	if m, n := max(c.weight(), manyNodes), max(d.weight(), manyNodes); m != n {
		return m < n
	}
	if !near(c.inner, d.inner) {
		return c.inner > d.inner
	}
	return c.parts*c.weight() < d.parts*d.weight()
}

// near reports whether two numbers of bytes count as equal.
func near(a, b int64) bool { return 16*a >= 15*b && 16*b >= 15*a }

// weight is the number of a region's nodes, more if its parts are copies.
func (c *candidate) weight() int {
	if c.span.first > 0 || c.place[c.seed].dim > 0 && !c.place[c.seed].merge {
		return copied * len(c.nodes)
	}
	return len(c.nodes)
}

// largest returns the largest operands of a node that nodes make.
func (p *proposer) largest(n *graph.Node) (list []graph.ValueID) {
	for _, operands := range [][]graph.ValueID{n.Outputs, n.Inputs} {
		for _, v := range operands {
			if v != graph.NoValue && p.g.Values[v].Def != graph.NoNode && !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b graph.ValueID) int { return cmp.Compare(p.bytes[b], p.bytes[a]) })
	return list[:min(len(list), seeds)]
}

// spans returns the ranges of dims that a value may be cut along: the first dims counted as one, and
// each of the others.
func (p *proposer) spans(v graph.ValueID) (list []span) {
	for d, n := range p.dims[v] {
		if n > 1 {
			list = append(list, span{0, d})
			if product(p.dims[v][:d]) > 1 {
				list = append(list, span{d, d})
			}
		}
	}
	return list
}

// need is the bytes of a node's step: those of its operands, divided by the number of parts for values
// that exist in parts alone, without an output that may take an input's place.
func (p *proposer) need(n *graph.Node, inner map[graph.ValueID]bool, parts int64) int64 {
	info := op.Of(n.Kind)
	if info.View || info.Has(op.ShapeOf) {
		return 0
	}
	total := int64(0)
	var seen []graph.ValueID
	add := func(v graph.ValueID) {
		if v == graph.NoValue || slices.Contains(seen, p.root[v]) {
			return
		}
		v = p.root[v]
		seen = append(seen, v)
		if b := p.bytes[v]; inner[v] {
			total += b / parts
		} else {
			total += b
		}
	}
	for _, v := range n.Inputs {
		add(v)
	}
	for slot, v := range n.Outputs {
		if slot > 0 || !writesOver(n, p.bytes) {
			add(v)
		}
	}
	return total
}

// writesOver reports whether a node may write its first output over an input of as many bytes.
func writesOver(n *graph.Node, bytes []int64) bool {
	out := n.Output(0)
	return out != graph.NoValue && slices.ContainsFunc(op.Of(n.Kind).InPlace, func(slot int) bool {
		in := n.Input(slot)
		return in != graph.NoValue && bytes[in] == bytes[out]
	})
}

// measure chooses the number of parts that brings the chunked bytes of each node below the limit, or as
// low as possible; nil if the region has no chunked values.
//
// In mode Fast, parts that are too large where they keep their bits need not keep them.
func (p *proposer) measure(r *region, limit int64) *candidate {
	c := p.inParts(r, limit)
	if c == nil || !c.above || p.mode != Fast || r.grain <= 1 {
		return c
	}
	anywhere := *r
	anywhere.grain = 0
	return p.inParts(&anywhere, limit)
}

// inParts is measure of an unchanged region.
func (p *proposer) inParts(r *region, limit int64) *candidate {
	inner := p.innerMemory(r)
	if !inner[p.root[r.seed]] {
		return nil
	}
	unit := max(r.grain, 1)
	most := min(mostParts, (r.rows+unit-1)/unit)
	if most < 2 {
		return nil
	}
	large := int64(0)
	for _, id := range r.nodes {
		n := p.g.Nodes[id]
		large = max(large, p.need(n, nil, 1)-p.need(n, inner, math.MaxInt64))
	}
	parts := min(max((large+limit-1)/max(limit, 1), 2), most)
	now := p.needOf(r, inner, parts)
	return &candidate{region: r, parts: int(parts), most: int(most), above: large/parts > limit, now: now,
		need: max(now, limit), least: p.needOf(r, inner, most), inner: p.bytesOf(inner)}
}

func (p *proposer) needOf(r *region, inner map[graph.ValueID]bool, parts int64) (most int64) {
	for _, id := range r.nodes {
		most = max(most, p.need(p.g.Nodes[id], inner, parts))
	}
	return most
}

// bytesOf adds up the memory of marked roots.
func (p *proposer) bytesOf(marked map[graph.ValueID]bool) (total int64) {
	for v, is := range marked {
		if is {
			total += p.bytes[v]
		}
	}
	return total
}

// innerMemory marks the roots that a region has in parts alone, through any views.
func (p *proposer) innerMemory(r *region) map[graph.ValueID]bool {
	inner := p.inner(r)
	roots := map[graph.ValueID]bool{}
	for v := range r.place {
		if inner[v] {
			roots[p.root[v]] = true
		}
	}
	for v := range r.place {
		if !inner[v] {
			roots[p.root[v]] = false
		}
	}
	return roots
}

// inner marks the values of a region that are there in parts alone.
func (f *finder) inner(r *region) map[graph.ValueID]bool {
	in := map[graph.NodeID]*along{}
	for i, id := range r.nodes {
		in[id] = r.along[i]
	}
	inner := map[graph.ValueID]bool{}
	for v := range r.place {
		val := &f.g.Values[v]
		if val.Def == graph.NoNode || val.Output || in[val.Def] == nil || !in[val.Def].out[val.DefSlot].cut() {
			continue
		}
		inner[v] = !slices.ContainsFunc(f.readers[v], func(id graph.NodeID) bool { return f.readsWhole(id, v, in[id]) })
	}
	return inner
}

// readsWhole reports whether a node, with its way of falling into parts or nil, needs a value as a
// whole.
func (f *finder) readsWhole(id graph.NodeID, v graph.ValueID, a *along) bool {
	n := f.g.Nodes[id]
	if op.Of(n.Kind).Has(op.ShapeOf) {
		return false
	}
	if a == nil || slices.Contains(n.Captures(), v) {
		return true
	}
	for slot, in := range n.Inputs {
		if in == v && !a.in[slot].cut() {
			return true
		}
	}
	return false
}

func sameCuts(a, b []Cut) bool {
	return slices.EqualFunc(a, b, func(x, y Cut) bool {
		return x.Region == y.Region && x.Dim == y.Dim && x.Parts == y.Parts && slices.Equal(x.Nodes, y.Nodes)
	})
}
