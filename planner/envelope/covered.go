package envelope

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// families are the values of a program that may have bytes in common at some size: parts and wholes,
// and the values that they share memory with.
type families struct {
	of        []graph.ValueID // by value: towards the one that stands for its family
	outside   []bool          // by that one: one of them is in no arena
	any       bool            // there are parts
	cutStates bool            // the buffer of a state may live on in its parts
}

// families finds them for the execution that copies all parts.
func (b *builder) families(t *live.Timeline, partings []*parting, sizes *live.Sizes) *families {
	p := b.program
	f := &families{of: make([]graph.ValueID, len(p.Bytes)), outside: make([]bool, len(p.Bytes))}
	for v := range f.of {
		f.of[v] = graph.ValueID(v)
	}
	if partings == nil {
		return f
	}
	states := map[graph.ValueID]bool{}
	for _, st := range p.States {
		states[st.In] = true
	}
	for i := range p.Steps {
		step := &p.Steps[i]
		if step.Memory != live.AsKind {
			continue
		}
		info := op.Of(step.Kind)
		if src, out := step.Input(0), step.Output0(); info.View && src != graph.NoValue && out != graph.NoValue {
			f.unite(src, out)
			states[out] = states[src]
		}
		if q := partings[step.Node]; q == nil || q.apart || len(q.places) == 0 && step.Slices == nil {
			continue
		}
		f.any = true
		whole, parts := step.Input(0), step.Out
		if info.Joins != nil {
			whole, parts = step.Output0(), step.In
		} else if states[whole] {
			f.cutStates = true
		}
		for _, v := range parts {
			if v != graph.NoValue {
				f.unite(v, whole)
			}
		}
	}
	if !f.any {
		return f
	}
	for v, root := range t.Root {
		if root != graph.NoValue {
			f.unite(graph.ValueID(v), root)
		}
	}
	for v, root := range t.Root {
		if root == graph.NoValue {
			f.outside[f.find(graph.ValueID(v))] = true
		}
	}
	return f
}

func (f *families) find(v graph.ValueID) graph.ValueID {
	for f.of[v] != v {
		f.of[v] = f.of[f.of[v]]
		v = f.of[v]
	}
	return v
}

func (f *families) unite(v, w graph.ValueID) { f.of[f.find(v)] = f.find(w) }

// alone reports for each load, in the sequence of their steps, whether at most one buffer of each
// family is live then, and no buffer of a family with a value outside: so that sharing spares no
// bytes there.
func (f *families) alone(p *live.Program, t *live.Timeline, loads []Load) []bool {
	begin, end := lives(p, t)
	count, several := make([]int, len(f.of)), 0
	for v, outside := range f.outside {
		if outside {
			count[v] = 1
		}
	}
	out := make([]bool, len(loads))
	next := 0
	for i := range p.Steps {
		for _, v := range end[i] {
			at := &count[f.find(v)]
			if *at--; *at == 1 {
				several--
			}
		}
		for _, v := range begin[i] {
			at := &count[f.find(v)]
			if *at++; *at == 2 {
				several++
			}
		}
		for ; next < len(loads) && loads[next].Step == i; next++ {
			out[next] = several == 0
		}
	}
	return out
}

// covered is the doubt whether the peak of the execution that copies all parts is always one of the
// loads that bound every other execution from below.
type covered struct {
	loads []Load
	alone []bool // by load
}

// at reports whether that is so at the binding of a timeline.
func (c covered) at(t *live.Timeline) bool {
	for i, l := range c.loads {
		if c.alone[i] && t.Live[l.Step] == t.Peak.Bytes {
			return true
		}
	}
	return false
}

func (c covered) open(r *region) (question, bool) {
	var safe, doubtful []Load
	for _, l := range worst(r, c.loads) {
		if c.of(l) {
			safe = append(safe, l)
		} else {
			doubtful = append(doubtful, l)
		}
	}
	for _, l := range doubtful {
		if len(safe) == 0 {
			return question{of: l.Bytes.Bind(r.fixed)}, true
		}
		proved := false
		for _, m := range safe {
			proved = proved || r.atMost(l.Bytes.Bind(r.fixed), m.Bytes.Bind(r.fixed))
		}
		if !proved {
			return question{of: safe[0].Bytes.Sub(l.Bytes).Bind(r.fixed)}, true
		}
	}
	return question{}, false
}

func (c covered) of(l Load) bool {
	for i := range c.loads {
		if c.loads[i].Step == l.Step && c.loads[i].Bytes.Identical(l.Bytes) {
			return c.alone[i]
		}
	}
	return false
}

func (c covered) bind(env symbolic.Env) doubt { return covered{bound(c.loads, env), c.alone} }
