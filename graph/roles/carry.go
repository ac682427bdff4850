package roles

import (
	"encoding/json"
	"unicode/utf8"

	"memopt/graph"
)

// Carry notes in the metadata of a model that was made of another one the roles that its initializers
// had there, as far as Find would not find the same: a Constant that became an initializer does not
// become a parameter, for example, and a weight that was computed from weights stays one. Both must
// have inferred types.
func Carry(from, to *graph.Model) error {
	origin, err := OriginsOf(from)
	if err != nil {
		return err
	}
	to.Metadata = without(to.Metadata, RecordKey)
	after, err := Find(to, nil)
	if err != nil {
		return err
	}
	r := Record{recordSchema, []string{}, []string{}}
	for _, v := range to.Graph.Initializers {
		name, now := to.Graph.Values[v].Name, after.Of(v).Kind == Parameter
		if after.Of(v).Kind == None || !utf8.ValidString(name) {
			continue
		}
		was := now
		if trained, ok := origin.Trained(name); ok {
			was = trained
		} else if !now {
			was = newFinder(to.Graph).role(v).Kind == Parameter
		}
		switch {
		case was && !now:
			r.Parameters = append(r.Parameters, name)
		case now && !was:
			r.Constants = append(r.Constants, name)
		}
	}
	if len(r.Constants)+len(r.Parameters) == 0 {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	to.SetMeta(RecordKey, string(text))
	return nil
}

// without is a list of properties less those of a key; the list itself stays as it is.
func without(list []graph.Property, key string) (out []graph.Property) {
	for _, p := range list {
		if p.Key != key {
			out = append(out, p)
		}
	}
	return out
}

// Origins say of the values of a model whether they are parameters, or were computed of one.
type Origins struct {
	g       *graph.Graph
	roles   *Roles
	trained map[graph.ValueID]bool
}

// OriginsOf returns the Origins of a model whose types are inferred. The error is that of Find.
func OriginsOf(m *graph.Model) (*Origins, error) {
	r, err := Find(m, nil)
	return &Origins{g: m.Graph, roles: r, trained: map[graph.ValueID]bool{}}, err
}

// Trained reports whether the value of a name is a parameter or was computed of one by way of floats;
// ok is false where the model has no such value.
func (o *Origins) Trained(name string) (trained, ok bool) {
	v, ok := o.g.Lookup(name)
	return ok && o.of(v), ok
}

func (o *Origins) of(v graph.ValueID) bool {
	val := &o.g.Values[v]
	if val.Def == graph.NoNode {
		return o.roles.Of(v).Kind == Parameter
	}
	if !val.Type.DType.IsFloat() {
		return false
	}
	if known, ok := o.trained[v]; ok {
		return known
	}
	o.trained[v] = false
	for _, in := range o.g.Nodes[val.Def].Inputs {
		if in != graph.NoValue && o.of(in) {
			o.trained[v] = true
			break
		}
	}
	return o.trained[v]
}
