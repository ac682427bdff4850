package autograd

import (
	"fmt"
	"strings"

	"memopt/graph"
)

func matchAny(globs []string, name string) bool {
	for _, g := range globs {
		if graph.MatchGlob(g, name) {
			return true
		}
	}
	return false
}

// choose applies the globs of the options to the parameters. Params may also name inputs and
// initializers that are not parameters by default.
func (j *joint) choose(opts Options) ([]Value, error) {
	var found []Value
	var err error
	switch {
	case len(opts.Params) > 0:
		if found, err = j.named(opts.Params); err != nil {
			return nil, err
		}
	case opts.AllInputs:
		found = j.parameters(true)
	default:
		found = j.withoutData(j.parameters(false))
	}
	used := make([]bool, len(opts.NoGrad))
	out := found[:0]
	for _, v := range found {
		name := j.g.ValueName(v)
		skip := false
		for i, glob := range opts.NoGrad {
			if graph.MatchGlob(glob, name) {
				skip, used[i] = true, true
			}
		}
		if !skip {
			out = append(out, v)
		}
	}
	for i, glob := range opts.NoGrad {
		if !used[i] {
			return nil, &UnmatchedError{glob, j.names(found)}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("nothing to differentiate with respect to: the loss depends on no " +
			"float initializer and on no float input of static shape other than data; name inputs " +
			"with params")
	}
	return out, nil
}

// withoutData leaves out the inputs of static shape that are data: those whose first dim is that of
// an input that is certainly data. It notes what is left out, and what is taken although no symbol
// in another input shows that the file's shapes tell data from parameters.
func (j *joint) withoutData(found []Value) []Value {
	batches, dynamic := j.batches()
	var out, inputs []Value
	for _, v := range found {
		value := &j.g.Values[v]
		if rows, ok := firstDim(value.Type); ok && value.Data == nil && batches[rows] {
			j.out.DataInputs = append(j.out.DataInputs, value.Name)
			continue
		}
		if value.Data == nil {
			inputs = append(inputs, v)
		}
		out = append(out, v)
	}
	if !dynamic {
		for _, v := range inputs {
			j.out.GuessedInputs = append(j.out.GuessedInputs, j.g.ValueName(v))
		}
	}
	return out
}

// batches has the first dims, where they are numbers, of the inputs that are data: those that are
// not floats or have a symbol. dynamic says that one has a symbol.
func (j *joint) batches() (first map[int64]bool, dynamic bool) {
	first = map[int64]bool{}
	for _, d := range j.g.Inputs {
		v := &j.g.Values[d.Value]
		_, static := (&emitter{j}).constDims(d.Value)
		dynamic = dynamic || !static
		if v.Data != nil || static && v.Type.DType.IsFloat() {
			continue
		}
		if rows, ok := firstDim(v.Type); ok {
			first[rows] = true
		}
	}
	return first, dynamic
}

// firstDim returns the first dim of a type where it is a number.
func firstDim(t graph.Type) (int64, bool) {
	if len(t.Shape.Dims) == 0 {
		return 0, false
	}
	return t.Shape.Dims[0].Const()
}

// named lists the float inputs and initializers that a glob matches, in the order of the file.
func (j *joint) named(globs []string) ([]Value, error) {
	var out []Value
	seen := map[Value]bool{}
	add := func(v Value) {
		if j.g.Values[v].Type.DType.IsFloat() && !seen[v] && matchAny(globs, j.g.ValueName(v)) {
			seen[v] = true
			out = append(out, v)
		}
	}
	for _, d := range j.g.Inputs {
		add(d.Value)
	}
	for _, v := range j.g.Initializers {
		add(v)
	}
	for _, glob := range globs {
		hit := false
		for _, v := range out {
			hit = hit || graph.MatchGlob(glob, j.g.ValueName(v))
		}
		if !hit {
			return nil, fmt.Errorf("params %q matches no float input or initializer; those that reach the loss are %s",
				glob, j.names(j.parameters(true)))
		}
	}
	return out, nil
}

// names lists values for messages.
func (j *joint) names(vs []Value) string {
	const shown = 8
	var list []string
	for _, v := range vs[:min(shown, len(vs))] {
		list = append(list, j.g.ValueName(v))
	}
	if len(vs) > shown {
		list = append(list, fmt.Sprintf("… (%d in all)", len(vs)))
	}
	return strings.Join(list, ", ")
}
