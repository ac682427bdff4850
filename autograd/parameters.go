package autograd

import (
	"fmt"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/roles"
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
	default:
		found = j.trained(opts.AllInputs)
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
		return nil, fmt.Errorf("no value to differentiate with respect to: the loss depends on no " +
			"float initializer and on no float input of static shape other than data; name inputs " +
			"with params")
	}
	return out, nil
}

// trained lists the parameters by their roles, and data too if they are asked for, and notes the
// tensors that are left out and those that are guessed.
func (j *joint) trained(data bool) (out []Value) {
	for _, v := range j.parameters() {
		switch r := j.roles.Of(v); r.Kind {
		case roles.Data:
			if data {
				out = append(out, v)
			} else if _, static := (&emitter{j}).constDims(v); static {
				j.out.DataInputs = append(j.out.DataInputs, j.g.ValueName(v))
			}
		case roles.Parameter:
			out = append(out, v)
			if !data && slices.Contains(j.roles.Guessed, v) {
				j.out.GuessedInputs = append(j.out.GuessedInputs, j.g.ValueName(v))
			}
		default:
			j.out.Untrained = append(j.out.Untrained, Untrained{j.g.ValueName(v), r})
		}
	}
	return out
}

// Untrained is a float tensor that the loss depends on and that is no parameter by its role.
type Untrained struct {
	Name string
	Role roles.Role
}

// named lists the float inputs and initializers that a glob matches, in the order of the file.
func (j *joint) named(globs []string) ([]Value, error) {
	var out []Value
	seen := map[Value]bool{}
	add := func(v Value) {
		if j.roles.Of(v).Kind != roles.None && !seen[v] && matchAny(globs, j.g.ValueName(v)) {
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
				glob, j.names(j.parameters()))
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
