package edit

import (
	"slices"

	"memopt/graph"
)

// constantsSince is the first IR version with initializers that need not be inputs.
const constantsSince = 4

// Freeze makes constants of the main graph's initializers that are inputs, too. Unless all is set,
// it does so only in files of an IR version that requires them to be inputs. It returns their
// number.
func Freeze(m *graph.Model, all bool) int {
	if m.IRVersion >= constantsSince && !all {
		return 0
	}
	g := m.Graph
	before := len(g.Inputs)
	g.Inputs = slices.DeleteFunc(g.Inputs, func(d graph.Decl) bool {
		v := &g.Values[d.Value]
		if v.IsInitializer() {
			v.Input = false
		}
		return !v.Input
	})
	m.IRVersion = max(m.IRVersion, constantsSince)
	return before - len(g.Inputs)
}
