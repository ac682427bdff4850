package live

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// State is a value that a training step hands on to the next one: the input that it reads, which
// may be an initializer, and the output that is its next value, such as a weight and its updated
// value. Both are of one type, and the memory model has the output written into the input's own
// buffer once the old value has no reader left.
type State struct{ In, Out graph.ValueID }

// StatesKey is the metadata key of a model's recorded states.
const StatesKey = "memopt.states"

// statesSchema is the schema of RecordedStates.
const statesSchema = "memopt.states/v1"

// RecordedStates is the JSON under StatesKey.
type RecordedStates struct {
	Schema string      `json:"schema"`
	Pairs  []StatePair `json:"pairs"`
}

// StatePair is a State by the names of its values.
type StatePair struct {
	Input  string `json:"input"`
	Output string `json:"output"`
}

// String writes a pair as the flag --state has it.
func (p StatePair) String() string { return p.Input + "=" + p.Output }

// ParseStatePair reads IN=OUT. Names may contain the sign themselves: known tells which split is
// meant.
func ParseStatePair(text string, known func(StatePair) bool) (StatePair, error) {
	var first *StatePair
	for at, r := range text {
		if r != '=' || at == 0 || at == len(text)-1 {
			continue
		}
		p := StatePair{text[:at], text[at+1:]}
		if known(p) {
			return p, nil
		}
		if first == nil {
			first = &p
		}
	}
	if first == nil {
		return StatePair{}, fmt.Errorf("state %q: wanted IN=OUT, an input and the output that is its next value", text)
	}
	return *first, nil
}

// RecordStates writes pairs into the model's metadata, in place of those that are there. An empty
// list records that the model has no states. Names that are not UTF-8, which JSON cannot hold, are
// left out with their pairs.
func RecordStates(m *graph.Model, pairs []StatePair) {
	r := RecordedStates{statesSchema, []StatePair{}}
	for _, p := range pairs {
		if utf8.ValidString(p.Input) && utf8.ValidString(p.Output) {
			r.Pairs = append(r.Pairs, p)
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic("live: a struct of strings does not marshal: " + err.Error())
	}
	m.SetMeta(StatesKey, string(text))
}

// RecordedPairs returns the pairs in a model's metadata; nil without a record. The error says why
// the record is not valid.
func RecordedPairs(m *graph.Model) ([]StatePair, error) {
	text, ok := m.Meta(StatesKey)
	if !ok {
		return nil, nil
	}
	var r RecordedStates
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Schema != statesSchema {
		return nil, fmt.Errorf("metadata %s: wanted JSON of schema %q, got %.80q; remove the entry to have states "+
			"found anew", StatesKey, statesSchema, text)
	}
	if r.Pairs == nil {
		r.Pairs = []StatePair{}
	}
	return r.Pairs, nil
}

// FindStates returns the states of a model: those that its metadata records, otherwise those that
// its operators and names suggest. Kinds must be bound and types inferred. The error names a
// recorded pair that cannot be a state, and says why.
func FindStates(m *graph.Model) ([]State, error) {
	pairs, err := RecordedPairs(m)
	if err != nil {
		return nil, err
	}
	f := &stateFinder{g: m.Graph}
	if pairs == nil {
		return f.guess(), nil
	}
	for _, p := range pairs {
		in, ok := f.g.Lookup(p.Input)
		if !ok {
			return nil, fmt.Errorf("state %s: the graph has no value %q", p, p.Input)
		}
		out, ok := f.g.Lookup(p.Output)
		if !ok {
			return nil, fmt.Errorf("state %s: the graph has no value %q", p, p.Output)
		}
		if err := f.add(State{in, out}); err != nil {
			return nil, fmt.Errorf("state %s: %w", p, err)
		}
	}
	return f.states, nil
}

// Pairs returns the states that FindStates finds, by their names.
func Pairs(m *graph.Model) ([]StatePair, error) {
	states, err := FindStates(m)
	var pairs []StatePair
	for _, s := range states {
		pairs = append(pairs, StatePair{m.Graph.ValueName(s.In), m.Graph.ValueName(s.Out)})
	}
	return pairs, err
}

// OptimizerStates returns the inputs of states that only the backward half reads: moments, and the
// number of updates. They start at zero.
func OptimizerStates(m *graph.Model) (inputs []graph.ValueID) {
	states, err := FindStates(m)
	b, e := FindBoundary(m)
	order, e2 := graph.Topological(m.Graph)
	if err != nil || e != nil || e2 != nil {
		return nil // a model that cannot be planned has no known optimizer
	}
	backward := Split(m.Graph, b, order)
	uses := graph.NewUses(m.Graph)
	for _, s := range states {
		forward := func(u graph.Use) bool { return !backward[u.Node] }
		if !slices.ContainsFunc(uses.Of(s.In), forward) {
			inputs = append(inputs, s.In)
		}
	}
	return inputs
}

// updatedSuffix ends the name of the next value of an input in graphs of tools that export training
// steps: w and w_updated.
const updatedSuffix = "_updated"

// stateFinder collects the states of a graph.
type stateFinder struct {
	g      *graph.Graph
	states []State
	taken  []bool // by value: it belongs to a state; nil: no value does
	// mutating has the nodes that write over an input of theirs, by that input; made with taken.
	mutating map[graph.ValueID][]*graph.Node
}

// guess finds states by operators that update their inputs and by names.
func (f *stateFinder) guess() []State {
	for _, n := range f.g.Nodes {
		info := op.Of(n.Kind)
		for _, u := range info.Updates {
			f.try(n.Input(u.In), n.Output(u.Out))
		}
		for _, u := range info.States {
			f.try(n.Input(u.In), n.Output(u.Out))
		}
	}
	for _, d := range f.g.Outputs {
		if name, ok := strings.CutSuffix(f.g.ValueName(d.Value), updatedSuffix); ok {
			if in, ok := f.g.Lookup(name); ok {
				f.try(in, d.Value)
			}
		}
	}
	return f.states
}

// try adds a state unless something speaks against it.
func (f *stateFinder) try(in, out graph.ValueID) {
	if in != graph.NoValue && out != graph.NoValue {
		_ = f.add(State{in, out}) // the guess is wrong
	}
}

// add adds a state, or says why the pair is not one.
func (f *stateFinder) add(s State) error {
	in, out := &f.g.Values[s.In], &f.g.Values[s.Out]
	switch {
	case !in.Input && !in.IsInitializer():
		return fmt.Errorf("%q is neither an input nor an initializer of the graph", in.Name)
	case !out.Output:
		return fmt.Errorf("%q is no output of the graph", out.Name)
	case in.Type.Form != graph.FormTensor || out.Type.Form != graph.FormTensor:
		return fmt.Errorf("%q is %v and %q is %v; states are tensors", in.Name, in.Type, out.Name, out.Type)
	case in.Type.DType != out.Type.DType || !sameShape(in.Type.Shape, out.Type.Shape):
		return fmt.Errorf("%q is %v and %q is %v; both must be of one type and shape",
			in.Name, in.Type, out.Name, out.Type)
	}
	if f.taken == nil {
		f.taken, f.mutating = make([]bool, len(f.g.Values)), map[graph.ValueID][]*graph.Node{}
		for _, n := range f.g.Nodes {
			for _, slot := range op.Of(n.Kind).Mutates {
				f.mutating[n.Input(slot)] = append(f.mutating[n.Input(slot)], n)
			}
		}
	}
	for _, v := range [...]graph.ValueID{s.In, s.Out} {
		if f.taken[v] {
			return fmt.Errorf("%q is in another state already", f.g.ValueName(v))
		}
	}
	for _, n := range f.mutating[s.In] {
		if out.Def != n.ID {
			return fmt.Errorf("node %q (%s) updates %q itself; leave the pair out",
				f.g.NodeLabel(n.ID), n.Op, in.Name)
		}
	}
	if root := f.persistentRoot(s.Out); root != graph.NoValue && root != s.In {
		return fmt.Errorf("%q is the input %q as it is, not a next value that the graph makes",
			out.Name, f.g.ValueName(root))
	}
	f.taken[s.In], f.taken[s.Out] = true, true
	f.states = append(f.states, s)
	return nil
}

// persistentRoot returns the persistent value that a value shows as a view, NoValue if a node makes
// it.
func (f *stateFinder) persistentRoot(v graph.ValueID) graph.ValueID {
	for {
		def := f.g.Values[v].Def
		if def == graph.NoNode {
			return v
		}
		n := f.g.Nodes[def]
		if !op.Of(n.Kind).View || n.Output(0) != v || n.Input(0) == graph.NoValue {
			if Persistent(f.g, v) {
				return v
			}
			return graph.NoValue
		}
		v = n.Input(0)
	}
}

// sameShape reports whether two shapes are known and equal for all bindings.
func sameShape(a, b graph.Shape) bool {
	return a.Ranked && b.Ranked && slices.EqualFunc(a.Dims, b.Dims, symbolic.Expr.Equal)
}
