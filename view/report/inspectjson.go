package report

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

type inspectJSON struct {
	Schema      string        `json:"schema"`
	Model       modelJSON     `json:"model"`
	Opsets      []opsetJSON   `json:"opsets"`
	Symbols     []string      `json:"symbols"`
	Dims        symbolic.Env  `json:"dims"`
	Boundary    *boundaryJSON `json:"boundary"`
	States      []stateJSON   `json:"states"`
	Inputs      []valueJSON   `json:"inputs"`
	Outputs     []valueJSON   `json:"outputs"`
	Stashed     []valueJSON   `json:"stashed"`
	By          string        `json:"by"`
	Groups      []groupJSON   `json:"groups"`
	UnknownOps  []string      `json:"unknown_ops"`
	Deviations  []deviation   `json:"deviations"`
	Persistent  *int64        `json:"persistent_bytes"`
	StashedExpr string        `json:"stashed_expr"`
	Program     *Program      `json:"program,omitempty"`
	Peak        *ProgramPeak  `json:"peak,omitempty"`
}

// stateJSON is an input and the output that is its next value.
type stateJSON struct {
	Input  string `json:"input"`
	Output string `json:"output"`
	Bytes  *int64 `json:"bytes"`
}

// deviation is a node that departs from its operator's definition; Read is null if it is opaque.
type deviation struct {
	Node string  `json:"node"`
	Op   string  `json:"op"`
	Why  string  `json:"why"`
	Read *string `json:"read"`
}

// deviations lists them, those of bodies included.
func (in *Inspection) deviations() []deviation {
	list := []deviation{}
	in.Types.Walk(in.Model.Graph, func(g *graph.Graph, r *op.Result) {
		for i := range r.Deviations {
			d := &r.Deviations[i]
			x := deviation{Node: g.NodeLabel(d.Node), Op: g.Nodes[d.Node].Op, Why: d.Why.Error()}
			if !d.Opaque() {
				x.Read = &d.Read
			}
			list = append(list, x)
		}
	})
	return list
}

type opsetJSON struct {
	Domain  string `json:"domain"`
	Version int64  `json:"version"`
}

type valueJSON struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	Bytes *int64  `json:"bytes"`
	Expr  *string `json:"expr"`
}

type groupJSON struct {
	Name        string `json:"name"`
	Nodes       int    `json:"nodes"`
	Values      int    `json:"values"`
	Bytes       *int64 `json:"bytes"`
	Expr        string `json:"expr"`
	StashedByte *int64 `json:"stashed_bytes"`
	StashedExpr string `json:"stashed_expr"`
	Unknown     int    `json:"unknown_sizes"`
}

func (in *Inspection) json(groups []*group, stashed []live.Stash) *inspectJSON {
	g := in.Model.Graph
	j := &inspectJSON{
		Schema:      InspectSchema,
		Model:       modelJSON{in.Model.Path, in.SHA, len(g.Nodes)},
		Opsets:      []opsetJSON{},
		Symbols:     nonNil(in.symbols()),
		Dims:        in.Dims,
		States:      []stateJSON{},
		Inputs:      []valueJSON{},
		Outputs:     []valueJSON{},
		Stashed:     []valueJSON{},
		By:          in.By,
		Groups:      []groupJSON{},
		UnknownOps:  nonNil(in.unknownOps()),
		Deviations:  in.deviations(),
		StashedExpr: stashedBytes(g, stashed).String(),
		Program:     in.Program,
	}
	if in.Program != nil {
		j.Peak = &in.Program.Peak
	}
	for _, o := range in.Model.Opsets {
		j.Opsets = append(j.Opsets, opsetJSON{o.Domain, o.Version})
	}
	if in.Boundary != nil {
		j.Boundary = &boundaryJSON{string(in.Boundary.Kind), g.NodeLabel(in.Boundary.Node)}
	}
	for _, s := range in.States {
		j.States = append(j.States, stateJSON{g.ValueName(s.In), g.ValueName(s.Out),
			in.evaluated(g.Values[s.In].Type.Bytes())})
	}
	for _, d := range g.Inputs {
		j.Inputs = append(j.Inputs, in.value(d.Value))
	}
	for _, d := range g.Outputs {
		j.Outputs = append(j.Outputs, in.value(d.Value))
	}
	for _, s := range stashed {
		j.Stashed = append(j.Stashed, in.value(s.Value))
	}
	for _, gr := range groups {
		j.Groups = append(j.Groups, groupJSON{
			gr.name, gr.nodes, gr.values,
			in.evaluated(gr.bytes), gr.bytes.String(),
			in.evaluated(gr.stashed), gr.stashed.String(),
			gr.unknown,
		})
	}
	if sizes, err := live.EvalSizes(g, in.Dims); err == nil {
		if n, err := live.PersistentBytes(g, sizes); err == nil {
			j.Persistent = &n
		}
	}
	return j
}

func (in *Inspection) value(id graph.ValueID) valueJSON {
	v := &in.Model.Graph.Values[id]
	j := valueJSON{Name: v.Name, Type: v.Type.String()}
	if e := v.Type.Bytes(); e.IsKnown() {
		j.Expr = ptr(e.String())
		j.Bytes = in.evaluated(e)
	}
	return j
}
