package op

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"memopt/graph"
	"memopt/symbolic"
)

// WatchKey is the metadata key for the names of the values that must be finite in every step, such
// as the loss and the norm of the gradients.
const WatchKey = "memopt.watch"

// watchSchema is the schema of RecordedWatch.
const watchSchema = "memopt.watch/v1"

// RecordedWatch is the JSON under WatchKey.
type RecordedWatch struct {
	Schema string   `json:"schema"`
	Values []string `json:"values"`
}

// RecordWatch writes the names of values that must be finite into a model's metadata, in place of
// those that are there. A node that makes one may fail by data (FailuresOf): a step writes no state
// before it has run. The record is made before a plan, so that the plan knows. Names that are not
// UTF-8, which JSON cannot hold, are left out.
func RecordWatch(m *graph.Model, names []string) {
	r := RecordedWatch{watchSchema, []string{}}
	for _, name := range names {
		if utf8.ValidString(name) {
			r.Values = append(r.Values, name)
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic("op: a struct of strings does not marshal: " + err.Error())
	}
	m.SetMeta(WatchKey, string(text))
}

// RecordedWatched returns the names in a model's metadata; nil without a record. The error says why
// the record is not valid.
func RecordedWatched(m *graph.Model) ([]string, error) {
	text, ok := m.Meta(WatchKey)
	if !ok {
		return nil, nil
	}
	var r RecordedWatch
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Schema != watchSchema {
		return nil, fmt.Errorf("metadata %s: wanted JSON of schema %q, got %.80q; remove the entry if "+
			"no value has to be finite", WatchKey, watchSchema, text)
	}
	return r.Values, nil
}

// Watched returns the values that a model's metadata says must be finite. The error names one that
// no node makes, or that has no floats.
func Watched(m *graph.Model) ([]graph.ValueID, error) {
	names, err := RecordedWatched(m)
	if err != nil {
		return nil, err
	}
	var list []graph.ValueID
	for _, name := range names {
		v, ok := m.Graph.Lookup(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("metadata %s: the graph has no value %q", WatchKey, name)
		case m.Graph.Values[v].Def == graph.NoNode:
			return nil, fmt.Errorf("metadata %s: no node of the graph makes %q", WatchKey, name)
		case !m.Graph.Values[v].Type.DType.IsFloat():
			return nil, fmt.Errorf("metadata %s: %q is %v; only floats can be not finite", WatchKey,
				name, m.Graph.Values[v].Type)
		}
		list = append(list, v)
	}
	return list, nil
}

// FailuresOf says of the nodes of a model, in an order, which may fail by data: Failures, and nodes
// that make values that must be finite (Watched).
func FailuresOf(m *graph.Model, r *Result, order graph.Order, env symbolic.Env) ([]Failure, error) {
	return FailuresAsking(m, r, order, env, nil)
}

// FailuresAsking is FailuresOf that asks for every comparison x ≤ y of expressions. ask is told
// whether it holds at the bindings, and returns the answer to go on with: with the same answers the same
// nodes may fail. An ask that answers yes only where x ≤ y at all of some bindings finds every node
// that may fail at one of them.
func FailuresAsking(m *graph.Model, r *Result, order graph.Order, env symbolic.Env, ask Asked) ([]Failure, error) {
	watched, err := Watched(m)
	if err != nil {
		return nil, err
	}
	failures := failuresAsking(m.Graph, r, order, env, ask)
	for _, v := range watched {
		if f := &failures[m.Graph.Values[v].Def]; *f == NeverFails {
			*f = FailsOnce
		}
	}
	return failures, nil
}
