package remat

import "slices"

// single is an instance in the form the solvers of small instances work on: a node makes one value.
// An alias is turned into uses: it has no bytes, and whoever uses it uses its source too, so that
// the source stays live. The one thing left to watch is that a source is not computed anew while an
// alias of it is live (see sharers).
type single struct {
	n       int
	budget  int64
	cost    []int64
	size    []int64
	work    []int64
	keep    []bool
	uses    [][]int32 // the inputs and the sources of inputs, without repetition
	users   [][]int32 // in ascending order
	sharers [][]int32 // aliases of a node, aliases of these included; nil without aliases
	makes   [][]int32 // by node: the values that it makes; the node itself but in a tape of a Problem
	maker   []int32   // by value: its node
	once    []bool    // by node: it must not be computed again; nil means all may
	copies  []int64   // by node: bytes of kept outputs, which a second compute copies; nil without kept outputs
	sources []int32   // by node: the one whose memory it shares, or -1; nil where there are no aliases
	base    int64     // the sum of all costs
	need    int64     // see leastPeak
}

func newSingle(in *Instance, budget int64) *single {
	n := len(in.Nodes)
	p := &single{
		n: n, budget: budget, cost: make([]int64, n), size: make([]int64, n), work: make([]int64, n),
		keep: make([]bool, n), uses: make([][]int32, n), users: make([][]int32, n), sharers: make([][]int32, n),
	}
	for v := range in.Nodes {
		p.add(in.Nodes, int32(v))
	}
	p.makes, p.maker = ownValues(n)
	for v := range in.Nodes {
		if in.Nodes[v].Alias >= 0 && p.sources == nil {
			p.sources = make([]int32, n)
			for w := range in.Nodes {
				p.sources[w] = in.Nodes[w].Alias
			}
		}
		for s := in.Nodes[v].Alias; s >= 0; s = in.Nodes[s].Alias {
			p.sharers[s] = append(p.sharers[s], int32(v))
			p.keep[s] = p.keep[s] || in.Nodes[v].Keep
		}
	}
	for v, uses := range p.uses {
		for _, u := range uses {
			p.users[u] = append(p.users[u], int32(v))
		}
	}
	p.need = p.leastPeak(in)
	return p
}

// ownValues is the values that nodes make, and their makers, where each makes the one of its number.
func ownValues(n int) (makes [][]int32, maker []int32) {
	makes, maker = make([][]int32, n), make([]int32, n)
	for v := range maker {
		maker[v] = int32(v)
		makes[v] = maker[v : v+1 : v+1]
	}
	return makes, maker
}

// isOnce tells whether node v must not be computed again.
func (p *single) isOnce(v int32) bool { return p.once != nil && p.once[v] }

// leastPeak is the most bytes that a first compute needs: its inputs, outputs and workspace, and the
// kept outputs that were made before it.
func (p *single) leastPeak(in *Instance) (most int64) {
	kept, bytes := make([]bool, p.n), int64(0)
	for v, uses := range p.uses {
		own := p.size[v] + p.work[v]
		for _, u := range uses {
			if !kept[u] {
				own += p.size[u]
			}
		}
		most = max(most, own+bytes)
		for w := int32(v); in.Nodes[v].Keep && w >= 0; w = in.Nodes[w].Alias {
			if !kept[w] {
				kept[w] = true
				bytes += p.size[w]
			}
		}
	}
	return most
}

func (p *single) add(nodes []Node, v int32) {
	node := &nodes[v]
	p.cost[v], p.work[v], p.keep[v] = node.Cost, node.Workspace, node.Keep
	p.base += node.Cost
	if node.Alias < 0 {
		p.size[v] = node.Size
	}
	uses := slices.Clone(node.Inputs)
	for _, u := range node.Inputs {
		for s := nodes[u].Alias; s >= 0; s = nodes[s].Alias {
			if !slices.Contains(uses, s) {
				uses = append(uses, s)
			}
		}
	}
	p.uses[v] = uses
}

// peak is the peak of a sequence of computes with the best frees, and valid tells whether no
// source is computed anew while an alias of it is live.
func (p *single) peak(seq []int32) (peak int64, valid bool) {
	live, bytes := make([]bool, p.n), int64(0)
	for v, k := range p.keep {
		if k {
			live[v] = true
			bytes += p.size[v]
		}
	}
	for i := len(seq) - 1; i >= 0; i-- {
		v := seq[i]
		for _, w := range p.sharers[v] {
			if live[w] {
				return 0, false
			}
		}
		if !live[v] {
			bytes += p.size[v]
		}
		live[v] = true
		for _, u := range p.uses[v] {
			if !live[u] {
				live[u] = true
				bytes += p.size[u]
			}
		}
		peak = max(peak, bytes+p.work[v])
		live[v] = false
		bytes -= p.size[v]
	}
	return peak, true
}

// OnePassPeak is the peak, in bytes, of computing every node once in the given order; 0 for an instance that is not
// valid.
func (in *Instance) OnePassPeak() int64 {
	local := *in
	local.Budget = max(local.Budget, 1)
	if local.Validate() != nil {
		return 0
	}
	plain := make([]int32, len(in.Nodes))
	for v := range plain {
		plain[v] = int32(v)
	}
	peak, _ := newSingle(in, local.Budget).peak(plain)
	return peak
}

// needed drops the computes whose result has no reader before the next compute of the
// same node, first computes aside.
func (p *single) needed(seq []int32) []int32 {
	seen, first := make([]bool, p.n), make([]bool, len(seq))
	for i, v := range seq {
		first[i] = !seen[v]
		seen[v] = true
	}
	wanted := slices.Clone(p.keep)
	out := make([]int32, 0, len(seq))
	for i := len(seq) - 1; i >= 0; i-- {
		v := seq[i]
		if !first[i] && !wanted[v] {
			continue
		}
		wanted[v] = false
		for _, u := range p.uses[v] {
			wanted[u] = true
		}
		out = append(out, v)
	}
	slices.Reverse(out)
	return out
}

// withFrees puts frees into a sequence of computes: each value goes right after its last
// use before its next compute, aliases before their sources.
func (p *single) withFrees(seq []int32) []Step {
	wanted := slices.Clone(p.keep)
	var steps []Step // built from the end
	for i := len(seq) - 1; i >= 0; i-- {
		v, mark := seq[i], len(steps)
		if !wanted[v] {
			steps = append(steps, Step{Free: true, Node: v})
		}
		for _, u := range p.uses[v] {
			if !wanted[u] {
				wanted[u] = true
				steps = append(steps, Step{Free: true, Node: u})
			}
		}
		// A source stands before its aliases in the order, and this list is read backwards.
		slices.SortFunc(steps[mark:], func(a, b Step) int { return int(a.Node) - int(b.Node) })
		steps = append(steps, Step{Node: v})
		wanted[v] = false
	}
	slices.Reverse(steps)
	return steps
}

// inOrder tells whether the first computes of a sequence come in the given order.
func inOrder(steps []Step) bool {
	next := int32(0)
	for _, s := range steps {
		if s.Free || s.Node < next {
			continue
		}
		if s.Node > next {
			return false
		}
		next++
	}
	return true
}
