package roles

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// inputs gives the float inputs that have no contents in the file their roles. One whose shape has a
// symbol is data, and so is one with as many rows as certain data, which are of integers or have a
// symbol. Where no data are certain, the weights of a file that has some are its initializers; a file
// without has them among its inputs, and no mark tells which.
func (r *Roles) inputs(g *graph.Graph, told *told, f *finder, data []string) {
	c := findCertain(g, data)
	weights := slices.ContainsFunc(g.Initializers, func(v graph.ValueID) bool { return r.of[v].Kind == Parameter })
	for _, d := range g.Inputs {
		v := &g.Values[d.Value]
		if v.Data != nil || !v.Type.DType.IsFloat() {
			continue
		}
		role, ok := told.input(v.Name)
		rows, ranked := firstDim(v.Type)
		switch {
		case slices.Contains(data, v.Name):
			role = Role{Data, "data has its name"}
		case ok:
		case !static(v.Type):
			role = Role{Data, "its shape has a symbol"}
		case ranked && c.rows[rows]:
			role = Role{Data, "it has as many rows as other data"}
		case !c.some && weights:
			role = Role{Data, "the weights are initializers"}
		default:
			role = f.operand(d.Value)
			if role.Kind == Parameter && !c.dynamic && len(data) == 0 {
				r.Guessed = append(r.Guessed, d.Value)
			}
		}
		r.of[d.Value] = role
	}
}

// certain describes the inputs that are certainly data.
type certain struct {
	rows    map[int64]bool // their first dims, where these are numbers
	some    bool           // there are some
	dynamic bool           // one has a symbol
}

// findCertain looks for inputs that are of integers, have a symbol, or whose names data has.
func findCertain(g *graph.Graph, data []string) certain {
	c := certain{rows: map[int64]bool{}, some: len(data) > 0}
	for _, d := range g.Inputs {
		v := &g.Values[d.Value]
		c.dynamic = c.dynamic || !static(v.Type)
		if v.Data != nil || static(v.Type) && v.Type.DType.IsFloat() {
			continue
		}
		c.some = true
		if rows, ok := firstDim(v.Type); ok {
			c.rows[rows] = true
		}
	}
	return c
}

// static reports whether all dims of a type are numbers.
func static(t graph.Type) bool {
	return t.Shape.Ranked && !slices.ContainsFunc(t.Shape.Dims, func(d symbolic.Expr) bool {
		_, ok := d.Const()
		return !ok
	})
}

// firstDim returns the first dim of a type where it is a number.
func firstDim(t graph.Type) (int64, bool) {
	if len(t.Shape.Dims) == 0 {
		return 0, false
	}
	return t.Shape.Dims[0].Const()
}
