package diff

import "encoding/json"

type diffJSON struct {
	Schema   string        `json:"schema"`
	Same     bool          `json:"same"`
	A        subjectJSON   `json:"a"`
	B        subjectJSON   `json:"b"`
	Peak     peakJSON      `json:"peak"`
	Measures []factJSON    `json:"measures"`
	Changed  []changeJSON  `json:"changed"`
	Layers   []layerJSON   `json:"layers"`
	Failed   []failureJSON `json:"failed"`
}

type subjectJSON struct {
	Name            string  `json:"name"`
	Kind            Kind    `json:"kind"`
	Schema          string  `json:"schema"`
	StructureSHA256 *string `json:"structure_sha256"`
}

type peakJSON struct {
	A any `json:"a_bytes"`
	B any `json:"b_bytes"`
}

type changeJSON struct {
	Kind   ChangeKind `json:"what"`
	Change How        `json:"change"`
	Name   string     `json:"name"`
	Layer  string     `json:"layer,omitempty"`
	Facts  []factJSON `json:"facts"`
}

type layerJSON struct {
	Layer   string `json:"layer"`
	Added   int    `json:"placements_added"`
	Removed int    `json:"placements_removed"`
	Changed int    `json:"placements_changed"`
	Moves   int    `json:"moves_changed"`
	Stashes int    `json:"stashes_changed"`
	A       any    `json:"a_stashed_bytes"`
	B       any    `json:"b_stashed_bytes"`
}

type failureJSON struct {
	Condition string   `json:"condition"`
	Field     factJSON `json:"field"`
	Why       string   `json:"why"`
}

// factJSON is a fact on both sides; the names of its values say their unit.
type factJSON Pair

// MarshalJSON writes {"name", "a_bytes", "b_bytes"}, or with _ms, or without an ending.
func (f factJSON) MarshalJSON() ([]byte, error) {
	ending := map[Unit]string{Bytes: "_bytes", Millis: "_ms"}[f.Unit]
	return json.Marshal(map[string]any{"name": f.Name, "a" + ending: f.A.json(), "b" + ending: f.B.json()})
}

func facts(pairs []Pair) []factJSON {
	out := make([]factJSON, len(pairs))
	for i, p := range pairs {
		out[i] = factJSON(p)
	}
	return out
}

func newJSON(r *Result) *diffJSON {
	j := &diffJSON{Schema: Schema, Same: r.Same(), A: newSubjectJSON(r.A), B: newSubjectJSON(r.B),
		Measures: facts(r.Measures), Changed: []changeJSON{}, Layers: []layerJSON{}, Failed: []failureJSON{}}
	for _, p := range r.Measures {
		if p.Name == "peak" {
			j.Peak = peakJSON{p.A.json(), p.B.json()}
		}
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		j.Changed = append(j.Changed, changeJSON{c.Kind, c.How, c.Name, c.Layer, facts(c.Facts)})
	}
	for _, l := range r.Layers {
		j.Layers = append(j.Layers, layerJSON{l.Name, l.Added, l.Removed, l.Changed, l.Moves, l.Stashes, l.A.json(),
			l.B.json()})
	}
	for _, f := range r.Failed {
		j.Failed = append(j.Failed, failureJSON{f.Condition, factJSON(f.Pair), f.Why})
	}
	return j
}

func newSubjectJSON(s *Subject) subjectJSON {
	j := subjectJSON{Name: s.Name, Kind: s.Kind, Schema: s.Schema}
	if s.Structure != "" {
		j.StructureSHA256 = &s.Structure
	}
	return j
}
