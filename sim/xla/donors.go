package xla

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/graph/hlo"
)

// array is an array in the result or in a parameter.
type array struct {
	parameter int64
	index     []int64
	bytes     int64
	space     int64
}

// pair gives outputs the memory of donors, as XLA does before it compiles
// (xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.h): by decreasing size, each output the first
// donor of its size in its memory space. It returns the aliases with those that the module has.
func pair(m *hlo.Module) ([]hlo.Alias, error) {
	if len(m.Donors) == 0 {
		return m.Aliases, nil
	}
	aliased := map[string]bool{}
	for _, a := range m.Aliases {
		aliased[fmt.Sprint("output", a.Output)] = true
		aliased[fmt.Sprint(a.Parameter, a.Index)] = true
	}
	donors := map[string]bool{}
	for _, d := range m.Donors {
		donors[fmt.Sprint(d.Parameter, d.Index)] = true
	}
	entry := m.Computations[m.Entry]
	var from, to []array
	for i := range entry.Instructions {
		in := &entry.Instructions[i]
		if in.Opcode != "parameter" {
			continue
		}
		if err := arrays(&in.Shape, nil, func(index []int64, a array) {
			if key := fmt.Sprint(in.Number, index); donors[key] && !aliased[key] {
				a.parameter = in.Number
				from = append(from, a)
			}
		}); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(from, func(a, b array) int { return cmp.Compare(a.parameter, b.parameter) })
	root := &entry.Instructions[entry.Root]
	if err := arrays(&root.Shape, nil, func(index []int64, a array) {
		if !aliased[fmt.Sprint("output", index)] {
			to = append(to, a)
		}
	}); err != nil {
		return nil, err
	}
	bySize := func(a, b array) int { return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(b.bytes, a.bytes)) }
	slices.SortStableFunc(from, bySize)
	slices.SortStableFunc(to, bySize)
	out := slices.Clone(m.Aliases)
	for len(from) > 0 && len(to) > 0 {
		switch c := bySize(from[0], to[0]); {
		case c < 0:
			from = from[1:]
		case c > 0:
			to = to[1:]
		default:
			out = append(out, hlo.Alias{Output: to[0].index, Parameter: from[0].parameter, Index: from[0].index})
			from, to = from[1:], to[1:]
		}
	}
	return out, nil
}

// arrays visits the arrays of a shape with the places in its tuples.
func arrays(s *hlo.Shape, index []int64, visit func(index []int64, a array)) error {
	if !s.IsTuple() {
		bytes, err := s.Bytes()
		if err == nil {
			visit(index, array{index: index, bytes: bytes, space: s.Space})
		}
		return err
	}
	for i := range s.Tuple {
		if err := arrays(&s.Tuple[i], append(slices.Clip(index), int64(i)), visit); err != nil {
			return err
		}
	}
	return nil
}
