package torch

import "strings"

// Keepable reports by step whether a checkpoint may keep its results (Simulator.RunKeeping): the step is of the
// forward half, is an operator that PyTorch dispatches by its name (aten.mm.default), makes memory that no later
// operator writes over and that autocast does not cache, and draws no random numbers, since those that run again would
// find the generator in another state.
func (p *Program) Keepable() []bool {
	out := make([]bool, len(p.Steps))
	written := p.written()
	for i := range p.Steps[:p.Backward] {
		s := &p.Steps[i]
		out[i] = strings.Count(s.Op, ".") == 2 && !inPlace(s.Op) && !s.Random && len(s.Makes) > 0
		for _, id := range s.Makes {
			out[i] = out[i] && !written[id] && !p.Storages[id].Cached
		}
	}
	return out
}

// Savable reports by forward step whether it may be of a part of Region.Saved: it does not work in place, no other
// operator writes over its results, and autocast does not cache them.
func (p *Program) Savable() []bool {
	out := make([]bool, p.Backward)
	written := p.written()
	for i := range out {
		out[i] = !inPlace(p.Steps[i].Op)
		for _, id := range p.Steps[i].Makes {
			out[i] = out[i] && !written[id] && !p.Storages[id].Cached
		}
	}
	return out
}

// written are the storages that operators in place write over: their first operand, and all that they read where others
// may be written. A trace lists the storages that end with a step behind its operands.
func (p *Program) written() []bool {
	out := make([]bool, len(p.Storages))
	for i := range p.Steps {
		s := &p.Steps[i]
		if !inPlace(s.Op) {
			continue
		}
		reads := s.Reads
		if strings.Contains(s.Op, "_.") && !strings.Contains(s.Op, "._foreach") {
			reads = reads[:min(1, len(reads))]
		}
		for _, id := range reads {
			out[id] = true
		}
	}
	return out
}

// inPlace reports whether an operator writes over an operand, by the conventions of its name: aten.relu_.default,
// aten.mm.out.
func inPlace(op string) bool {
	base, overload, _ := strings.Cut(strings.TrimPrefix(op, "aten."), ".")
	return strings.HasSuffix(base, "_") || strings.HasSuffix(overload, "out")
}
