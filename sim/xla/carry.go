package xla

import "memopt/graph/hlo"

// fixed has the parameters of the entry whose memory no result has.
func fixed(m *hlo.Module) map[int64]bool {
	out := map[int64]bool{}
	for _, in := range m.Computations[m.Entry].Instructions {
		if in.Opcode == "parameter" {
			out[in.Number] = true
		}
	}
	for _, a := range m.Aliases {
		delete(out, a.Parameter)
	}
	return out
}

// enter finds the memory that a while hands from turn to turn. In a scheduled module it is the operand's. In one
// before XLA's copy insertion (xla/service/copy_insertion.cc), the operand can have one value at several places that
// the body overwrites, for example the zeros that all stacked residuals of a scan begin with; each but the first gets a
// copy, made where the operand is. So does a value that the entry's caller keeps.
func (s *setter) enter() error {
	f, a := s.f, s.operand(0)
	s.carry = a
	made := s.fr.steps[s.in.Operands[0]]
	if f.m.Scheduled || !a.shape.IsTuple() || f.program.Steps[made].In().Opcode == "parameter" {
		return nil
	}
	taken := map[int32]bool{}
	for _, p := range f.shared {
		taken[f.find(p)] = true
	}
	same := unchanged(f.m.Computations[s.in.Called[1]], len(a.shape.Tuple))
	for k := range a.shape.Tuple {
		if same[k] {
			f.eachOf(a, k, func(p int32) { taken[f.find(p)] = true })
		}
	}
	first := int32(len(f.parent))
	if err := f.places(a.shape); err != nil {
		return err
	}
	s.carry = argument{first, a.shape}
	f.join(first, a.place, 1)
	for k := range a.shape.Tuple {
		f.eachOf(a, k, func(p int32) {
			at := first + p - a.place
			if !same[k] && taken[f.find(p)] {
				f.add(at, isDefined, made, made)
				f.touch(p, 1, made)
				return
			}
			taken[f.find(p)] = true
			f.join(at, p, 1)
			f.touch(at, 1, made)
		})
	}
	return nil
}

// eachOf visits the places of an element of a tuple.
func (f *flattener) eachOf(a argument, k int, visit func(place int32)) {
	at := a.place + f.layout(a.shape)[k]
	for j := range f.width(&a.shape.Tuple[k]) {
		visit(at + j)
	}
}

// unchanged marks the elements of a tuple that the body of a while hands on as it got them.
func unchanged(body *hlo.Computation, n int) []bool {
	out := make([]bool, n)
	root := &body.Instructions[body.Root]
	if root.Opcode != "tuple" || len(root.Operands) != n {
		return out
	}
	for k, o := range root.Operands {
		in := &body.Instructions[o]
		out[k] = in.Opcode == "get-tuple-element" && in.Number == int64(k) && len(in.Operands) == 1 &&
			body.Instructions[in.Operands[0]].Opcode == "parameter"
	}
	return out
}
