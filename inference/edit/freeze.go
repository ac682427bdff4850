package edit

import (
	"slices"

	"memopt/graph"
)

// constantsSince is the IR version from which on initializers need not be inputs.
const constantsSince = 4

// Freeze makes constants of the initializers of the main graph that are inputs, too: of all, or of
// none but in files of an IR version in which they have to be inputs. It returns how many.
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
