package parallel

import (
	"memopt"
	"memopt/answers/estimate/parts"
	"memopt/graph"
	"memopt/graph/live"
)

// Retype returns a micro-step with its values in the types of a precision, for estimates: parameters,
// the sums of their gradients, and all else that is computed. Data and constants keep their own. It
// cannot be executed. The error is that of live.FindStates.
func Retype(step *memopt.Model, params []string, t parts.Types) (*memopt.Model, error) {
	states, err := live.FindStates(step.Model)
	if err != nil {
		return nil, err
	}
	out := clone(step)
	g := out.Graph
	param, sum := make([]bool, len(g.Values)), make([]bool, len(g.Values))
	for _, name := range params {
		if v, ok := g.Lookup(name); ok {
			param[v] = true
		}
	}
	for _, s := range states {
		sum[s.In], sum[s.Out] = true, true
	}
	for i := range g.Values {
		v := &g.Values[i]
		switch d := v.Type.DType; {
		case d != graph.Float32 && d != graph.Float16 && d != graph.BFloat16 && d != graph.Float64:
		case param[i]:
			v.Type.DType = t.Weights
		case sum[i]:
			v.Type.DType = t.Gradients
		case !live.Persistent(g, graph.ValueID(i)):
			v.Type.DType = t.Activations
		}
	}
	return out, nil
}
