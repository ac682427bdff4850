package report

import (
	"fmt"
	"io"

	"memopt/autograd"
	"memopt/graph"
)

// GradSchema is the schema of the JSON that `memopt grad -O json` prints.
const GradSchema = "memopt.grad/v1"

type gradJSON struct {
	Schema    string      `json:"schema"`
	Out       string      `json:"out"`
	Params    []string    `json:"parameters"`
	Unreached []string    `json:"unreached"`
	Forward   int         `json:"forward_nodes"`
	Nodes     int         `json:"nodes"`
	OpsetFrom int64       `json:"opset_from"`
	OpsetTo   int64       `json:"opset_to"`
	Changes   []string    `json:"changes"`
	Apply     string      `json:"apply_out,omitempty"`
	Fused     []fusedJSON `json:"fused"`
}

// fusedJSON is several nodes that together have the gradient of one operator.
type fusedJSON struct {
	Pattern string `json:"pattern"`
	Count   int    `json:"count"`
}

// Grad reports on a differentiation and its files: the training graph and, unless apply is "", the
// step that applies accumulated gradients.
func Grad(w io.Writer, format Format, out, apply string, m *graph.Model, j *autograd.Joint) error {
	r := gradJSON{GradSchema, out, nonNil(j.Wrt), nonNil(j.Unreached), len(m.Graph.Nodes), len(j.Model.Graph.Nodes),
		j.From, j.To, nonNil(j.Changes), apply, []fusedJSON{}}
	for _, f := range j.Fused {
		r.Fused = append(r.Fused, fusedJSON(f))
	}
	if format == JSONFormat {
		return WriteJSON(w, r)
	}
	t := Table{Header: []string{"item", "value"}, Right: []bool{false, true}, Fit: []Fit{Wrap, Wrap}}
	t.Add("written to", out)
	if apply != "" {
		t.Add("update written to", apply)
	}
	t.Add("parameters with gradients", fmt.Sprint(len(r.Params)))
	t.Add("nodes before", fmt.Sprint(r.Forward))
	t.Add("nodes", fmt.Sprint(r.Nodes))
	for _, f := range r.Fused {
		t.Add("fused gradients of "+f.Pattern, fmt.Sprint(f.Count))
	}
	opset := fmt.Sprint(r.OpsetTo)
	if j.Raised {
		opset = fmt.Sprintf("%d, raised from %d", r.OpsetTo, r.OpsetFrom)
	}
	t.Add("operator set", opset)
	return t.WriteAs(w, format)
}
