// Package ortmodule prints the table of memory optimization plans that ORTModule logs for a training graph.
package ortmodule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/planner"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// Row is a row of the table of memory optimization plans that ORTModule 1.19.2 prints with a log level of
// INFO or DEVINFO.
type Row struct {
	// Config is the configuration, for example "Gelu+:1:-1": two of them, joined by a comma, where the stash of the
	// first ones' nodes lies in buffers of stashes of the others'.
	Config    string
	On        bool // all its clusters are enabled
	Frequency int
	// Saving is ORTModule's count, in bytes at the plan's sizes: "8,912,896" in its words, or a formula where it
	// does not know a dim. It is not all that a plan saves: ORTModule counts one of several stashed outputs of a node
	// ([Rows]).
	Saving  string
	Formula string // of the saving, as ORTModule prints it
}

// Rows returns the rows that ORTModule's own table has for the plan's graph, in its order. It follows
// GetMemorySavingSymbolicString (orttraining/core/optimizer/memory_optimizer/optimization_planner.cc), whose loop over
// a node's stashed outputs assigns where it means to append, so that the last one alone is counted. The order of the
// outputs is that of a hash table with a seed of its own in every run: ORTModule counts any of them, at every node
// another one. Here it is the last by its place in the node. The error is that of sizes.
func Rows(p *planner.Plan) ([]Row, error) {
	order := graph.FileOrder(p.Model.Graph)
	if p.Options.ByORTModule() {
		order = p.Analysis.Order
	}
	root, err := ortsim.TrainingBuffers(p.Model, order, p.Options.Dims)
	if err != nil {
		return nil, err
	}
	t := &table{plan: p, root: root, stashes: make([]bool, len(p.Model.Graph.Nodes)),
		told: ortsim.Told(p.Model.Graph), unknown: map[graph.ValueID]int{}, rows: map[string]*sum{}}
	for _, st := range p.Analysis.Stashed {
		t.stashes[st.Node] = true
	}
	return t.run(), nil
}

// table makes the rows of ORTModule's table.
type table struct {
	plan    *planner.Plan
	root    []graph.ValueID       // by value: whose buffer it lies in
	stashes []bool                // by node
	told    []bool                // by value: ORTModule has its shape from the file
	unknown map[graph.ValueID]int // by stash: the number of its first dim without a name
	rows    map[string]*sum
}

// sum is a row, with the savings of its occurrences.
type sum struct {
	freq   int
	on     bool
	saving []term
}

// term is coef/den times the product of dims.
type term struct {
	coef, den int64
	dims      symbolic.Expr
}

func (t *table) run() []Row {
	a := t.plan.Analysis
	t.numberUnknown()
	for c := range a.Candidates {
		for _, all := range t.combinations(c) {
			t.add(all)
		}
	}
	type ranked struct {
		Row
		bytes float64
	}
	var out []ranked
	for _, config := range slices.Sorted(maps.Keys(t.rows)) {
		s := t.rows[config]
		saving, bytes := t.evaluated(s.saving)
		out = append(out, ranked{Row{config, s.on, s.freq, saving, formulaOf(s.saving)}, bytes})
	}
	slices.SortStableFunc(out, func(x, y ranked) int { return cmp.Compare(y.bytes, x.bytes) })
	rows := make([]Row, len(out))
	for i := range out {
		rows[i] = out[i].Row
	}
	return rows
}

// combinations lists the candidates that ORTModule shows in one row with a candidate: itself, or, where its stash lies
// in buffers of other nodes, each way to take a candidate for each of them (IterateNodeOptimizationPlan): none where
// such a node has no candidate.
func (t *table) combinations(candidate int) [][]int {
	a := t.plan.Analysis
	out := [][]int{{candidate}}
	for _, v := range a.Candidates[candidate].Stashed {
		lender, lent := t.lender(v)
		if !lent {
			continue
		}
		var more [][]int
		for _, head := range out {
			for _, other := range a.OfEntry(lender) {
				for _, tail := range t.combinations(other) {
					for _, c := range tail {
						more = append(more, append(slices.Clone(head), c))
					}
				}
			}
		}
		out = more
	}
	return out
}

// lender returns the node whose output's buffer a value lies in, if that is another node with stashed outputs.
func (t *table) lender(v graph.ValueID) (graph.NodeID, bool) {
	g := t.plan.Analysis.Graph
	root := t.root[v]
	if root == graph.NoValue || root == v || g.Values[root].Def == graph.NoNode {
		return graph.NoNode, false
	}
	n := g.Values[root].Def
	return n, t.stashes[n]
}

// add counts an occurrence of a row.
func (t *table) add(candidates []int) {
	a := t.plan.Analysis
	var configs []string
	on := true
	for _, c := range candidates {
		cluster := &a.Clusters[a.Candidates[c].Cluster]
		configs = append(configs, cluster.Config())
		i := slices.IndexFunc(t.plan.Clusters, func(r planner.ClusterRow) bool {
			return r.Index == a.Candidates[c].Cluster
		})
		on = on && t.plan.Clusters[i].Requested != 0
	}
	slices.Sort(configs)
	key := strings.Join(configs, ",")
	s := t.rows[key]
	if s == nil {
		s = &sum{on: on}
		t.rows[key] = s
	}
	s.freq++
	for _, c := range candidates {
		if one, ok := t.counted(&a.Candidates[c]); ok {
			s.saving = append(s.saving, one)
		}
	}
}

// counted returns the saving that ORTModule counts of a candidate: of its last stash in a buffer of its own.
func (t *table) counted(c *recompute.Candidate) (one term, ok bool) {
	for _, v := range slices.Backward(c.Stashed) {
		if _, lent := t.lender(v); lent {
			continue
		}
		g := t.plan.Analysis.Graph
		one = term{int64(g.Values[v].Type.DType.Bits()) / 8 * c.Ratio.Num, c.Ratio.Den, symbolic.Const(1)}
		number := t.unknown[v]
		if n := g.Nodes[c.Entry]; ortsim.SizedByInput(n) && t.nameless(v) > 0 && t.nameless(n.Inputs[0]) == 0 {
			v = n.Inputs[0]
		}
		if !g.Values[v].Type.Shape.Ranked {
			one.dims = symbolic.Sym("unknown")
			return one, true
		}
		for _, d := range g.Values[v].Type.Shape.Dims {
			if n, isConst := d.Const(); isConst {
				one.coef *= n
				continue
			}
			if t.isNameless(v, d) {
				d = symbolic.Sym(fmt.Sprintf("empty_dim_param%d", number))
				number++
			}
			one.dims = one.dims.Mul(d)
		}
		return one, true
	}
	return term{}, false
}

// isNameless reports whether ORTModule does not know a dim of a value. A session's file declares those known; else
// its shape inference hands on numbers and names, and does not compute with names.
func (t *table) isNameless(v graph.ValueID, d symbolic.Expr) bool {
	if _, isConst := d.Const(); isConst {
		return false
	}
	if t.told[v] {
		return !d.IsKnown()
	}
	s := d.Symbols()
	return len(s) != 1 || !d.Identical(symbolic.Sym(s[0]))
}

// nameless counts the dims of a value that ORTModule does not know.
func (t *table) nameless(v graph.ValueID) (n int) {
	for _, d := range t.plan.Analysis.Graph.Values[v].Type.Shape.Dims {
		if t.isNameless(v, d) {
			n++
		}
	}
	return n
}

// numberUnknown numbers the dims without names as ORTModule does in its first session: it goes through the nodes from
// the last to the first, and looks at a Reshape's dims two more times.
func (t *table) numberUnknown() {
	a := t.plan.Analysis
	next := 0
	for _, c := range slices.Backward(a.Candidates) {
		for _, v := range c.Stashed {
			n, entry := t.nameless(v), a.Graph.Nodes[c.Entry]
			t.unknown[v] = next
			next += n
			if n > 0 && ortsim.SizedByInput(entry) {
				next += n + t.nameless(entry.Inputs[0])
			}
		}
	}
}

// evaluated returns a saving as ORTModule prints it, and the bytes that it sorts rows by: 0 where a dim has no name.
func (t *table) evaluated(terms []term) (string, float64) {
	bound := make([]term, len(terms))
	total := 0.0
	known := true
	for i, m := range terms {
		bound[i] = m
		bound[i].dims = m.dims.Bind(t.plan.Options.Dims)
		n, isConst := bound[i].dims.Const()
		if known = known && isConst; isConst {
			bound[i].coef, bound[i].dims = m.coef*n, symbolic.Const(1)
			total += float64(bound[i].coef) / float64(m.den)
		}
	}
	if !known {
		return formulaOf(bound), 0
	}
	return thousands(fmt.Sprintf("%.0f", total)), total
}

// thousands writes digits in groups of three.
func thousands(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// formulaOf writes a sum as sympy simplifies it: with symbols that all its products have before it, as in
// "x*(8.0*y + 4.0*z)", and a factor that all have with them, as in "8.0*x*(y - 1)". A number alone has 15 digits.
func formulaOf(terms []term) string {
	merged := map[string]term{}
	for _, m := range terms {
		key := m.dims.String()
		if old, ok := merged[key]; ok {
			den := old.den / symbolic.GCD(old.den, m.den) * m.den
			m.coef, m.den = old.coef*(den/old.den)+m.coef*(den/m.den), den
		}
		merged[key] = m
	}
	number, isNumber := merged["1"]
	delete(merged, "1")
	var list []term
	for _, key := range slices.Sorted(maps.Keys(merged)) {
		list = append(list, merged[key])
	}
	switch {
	case len(terms) == 0:
		return "0"
	case len(list) == 0:
		return fmt.Sprintf("%#.15g", float64(number.coef)/float64(number.den))
	case !isNumber:
		if text, ok := factored(list); ok {
			return text
		}
	}
	var out []string
	for _, m := range list {
		text, ok := factored([]term{m})
		if !ok {
			text = m.dims.Mul(symbolic.Const(m.coef)).FloatString(1, m.den)
		}
		out = append(out, text)
	}
	if isNumber {
		out = append(out, symbolic.Const(number.coef).FloatString(1, number.den))
	}
	return strings.Join(out, " + ")
}

// factored writes a sum of several products with the symbols that all of them have before it; ok is false where there
// are no such symbols.
func factored(list []term) (text string, ok bool) {
	den := int64(1)
	for _, m := range list {
		den = den / symbolic.GCD(den, m.den) * m.den
	}
	sum, dims, alike := symbolic.Const(0), symbolic.Const(0), true
	for _, m := range list {
		coef := m.coef * (den / m.den)
		alike = alike && coef == list[0].coef*(den/list[0].den)
		sum, dims = sum.Add(m.dims.Mul(symbolic.Const(coef))), dims.Add(m.dims)
	}
	front := symbolic.Const(1)
	for _, s := range sum.Symbols() {
		x := symbolic.Sym(s)
		for sum.Terms() > 1 {
			rest, divides := sum.ExactDiv(x)
			if !divides {
				break
			}
			front, sum, ok = front.Mul(x), rest, true
		}
	}
	if !ok {
		return "", false
	}
	if rest, divides := dims.ExactDiv(front); alike && divides {
		coef := symbolic.Const(list[0].coef * (den / list[0].den))
		return front.Mul(coef).FloatString(1, den) + "*(" + rest.String() + ")", true
	}
	return front.String() + "*(" + sum.FloatString(1, den) + ")", true
}
