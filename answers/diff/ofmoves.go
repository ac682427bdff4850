package diff

import (
	"encoding/json"
	"slices"
	"strings"

	"memopt"
)

// OfMoves is a plan whose values move to the host as a subject; name is for messages. Its fields are those of the plan
// of its recomputations, with the memory and the time of the step that moves.
func OfMoves(p *memopt.Moving, name string) (*Subject, error) {
	s, err := OfPlan(p.Plan, name)
	if err != nil {
		return nil, err
	}
	r, err := p.FileRecord()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"moves": r.Moves})
	if err != nil {
		return nil, err
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	in := reader{name: name}
	s.moves = in.list(root, "moves", moveOf)
	s.moveStashes()
	s.fields = slices.DeleteFunc(s.fields, func(f field) bool {
		// The recomputations alone are planned to more than the budget.
		return strings.HasPrefix(f.path, "next.") || strings.HasPrefix(f.path, "fit.")
	})
	s.set("solver", textValue(r.Solver))
	s.set("bound.overhead_lower_bound", floatValue(p.Bound))
	s.set("bound.gap", floatValue((p.Overhead-p.Bound)/(1+p.Overhead)))
	s.set("peak.planned_bytes", intValue(p.Peak))
	s.set("peak.arena_bytes", intValue(p.Arena))
	s.set("peak.total_bytes", intValue(p.Arena+p.Persistent))
	s.set("recompute.overhead", floatValue(p.Overhead))
	s.set(stepTime, floatValue(1000*p.Seconds))
	s.set(planned["moves"], intValue(int64(len(p.Moves))))
	s.set(planned["moved"], intValue(p.Moved))
	s.set(planned["host"], intValue(p.HostPeak))
	return s, in.err
}

// moveStashes notes the stashed activations that move.
func (s *Subject) moveStashes() {
	moved := map[string]bool{}
	for _, m := range s.moves.items {
		moved[m.name] = true
	}
	for _, i := range s.stashes.items {
		if state := &i.facts[0]; moved[i.name] && state.Value.Text == stateKept {
			state.Value = textValue("moved")
		}
	}
}

// set replaces a field, or adds it.
func (s *Subject) set(path string, v Value) {
	at, found := slices.BinarySearchFunc(s.fields, path, fieldPath)
	if !found {
		s.fields = slices.Insert(s.fields, at, field{path: path})
	}
	s.fields[at].value = v
}
