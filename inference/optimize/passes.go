package optimize

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/inference/edit"
)

// Pass is a row of the table of passes.
type Pass struct {
	Name string
	Doc  string
	// Exact says that every output keeps its bits in memopt's executor.
	Exact bool
	run   func(*site) error
}

// passes are run in this order, again and again until the graph no longer changes. Constants come
// first, because patterns and targets of reshapes are recognised by them; fusions come last,
// because they hide patterns from the others.
var passes = []Pass{
	{"constants", "values that depend on constants or shapes alone are computed once", true, foldConstants},
	{"targets", "targets of reshapes become constants where the input's shape allows it", true, settleTargets},
	{"identities", "nodes that return their input unchanged are removed", true, removeIdentities},
	{"chains", "consecutive transposes, reshapes and casts become one", true, joinChains},
	{"duplicates", "equal nodes and equal constants are merged", true, mergeDuplicates},
	{"affine", "batch norms, scales and shifts go into the weights before them", false, foldAffine},
	{"products", "products, sums, transposes and pads become part of an operator that includes them", false,
		fuseProducts},
	{"patterns", "decomposed operators become the operator", false, fusePatterns},
}

// Passes lists the passes in their order.
func Passes() []Pass { return slices.Clone(passes) }

// skips reports whether a pass is left out.
func (o *Options) skips(p *Pass) bool {
	return o.Exact && !p.Exact ||
		slices.ContainsFunc(o.Skip, func(glob string) bool { return graph.MatchGlob(glob, p.Name) })
}

// CheckSkip returns an error for a glob that is no pass's name.
func (o *Options) CheckSkip() error {
	for _, glob := range o.Skip {
		if !slices.ContainsFunc(passes, func(p Pass) bool { return graph.MatchGlob(glob, p.Name) }) {
			var names []string
			for _, p := range passes {
				names = append(names, p.Name)
			}
			return fmt.Errorf("%q is no pass; the passes are %v", glob, names)
		}
	}
	return nil
}

// passes runs the passes until the graph no longer changes.
func (r *run) passes() error {
	for changed := true; changed; {
		changed = false
		for i := range passes {
			p := &passes[i]
			if r.o.skips(p) {
				continue
			}
			if err := r.ctx.Err(); err != nil {
				return err
			}
			edit := graph.Pass{Name: p.Name, Doc: p.Doc, Run: func(m *graph.Model) (bool, error) {
				did, err := r.pass(p)
				changed = changed || did
				return did, err
			}}
			if err := graph.RunPasses(r.m, edit); err != nil {
				return fmt.Errorf("%s: %w", r.m.Path, err)
			}
		}
	}
	return r.sweep()
}

// pass runs one pass.
func (r *run) pass(p *Pass) (bool, error) {
	e, err := edit.New(r.m)
	if err != nil {
		return false, err
	}
	r.r.Left = slices.DeleteFunc(r.r.Left, func(l LeftAlone) bool { return l.Pass == p.Name }) // of the round before
	if err := p.run(&site{Editor: e, run: r, pass: p}); err != nil {
		return false, err
	}
	return e.Finish()
}

// sweep removes nodes and constants without readers, if no pass has done so.
func (r *run) sweep() error {
	e, err := edit.New(r.m)
	if err != nil {
		return err
	}
	_, err = e.Finish()
	return err
}

// site is where a pass works.
type site struct {
	*edit.Editor
	run     *run
	pass    *Pass
	symbols map[string]bool // of the graph's inputs; nil until needed
}

// did counts the pass's edits.
func (s *site) did(what string) { s.run.count(s.pass.Name, what, s.pass.Exact, 1) }

// leave notes why the pass leaves a node alone.
func (s *site) leave(n *graph.Node, format string, args ...any) {
	s.run.leave(s.pass.Name, s.label(n), fmt.Sprintf(format, args...))
}

// label names a node in messages.
func (s *site) label(n *graph.Node) string { return s.G.NodeLabel(n.ID) }
