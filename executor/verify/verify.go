package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"memopt/executor"
	"memopt/graph"
)

// Verdict is how two runs compare.
type Verdict struct {
	Equal bool
	First *Difference // the first value in graph order that differs
	// MaxAbs is the largest absolute difference of two elements of outputs: not a number or infinite
	// where elements or shapes are.
	MaxAbs   float64
	Baseline *Run
	Planned  *Run
	// Alternated means that measured steps of the two ran in turn, so that a step of one can be
	// compared with the steps of the other that ran right before and after it.
	Alternated bool
}

// ErrOutputs means that two models cannot be compared because one lacks an output of the other.
var ErrOutputs = errors.New("the models have different outputs")

// Verify executes both sides on the same inputs, measured steps in turn, and compares every output.
func Verify(
	ctx context.Context, baseline, planned Side, inputs map[string]*executor.Tensor, opts Options, tol Tolerance,
) (*Verdict, error) {
	if err := sameOutputs(baseline.Model.Graph, planned.Model.Graph); err != nil {
		return nil, err
	}
	v := &Verdict{Equal: true}
	var err error
	if v.Baseline, v.Planned, v.Alternated, err = executeBoth(ctx, baseline, planned, inputs, opts); err != nil {
		return nil, err
	}
	for _, want := range v.Baseline.Outputs {
		d, most := Compare(want.Name, v.Planned.output(want.Name), want.Tensor, tol)
		v.MaxAbs = max(v.MaxAbs, most)
		if d != nil && v.Equal {
			v.Equal, v.First = false, d
		}
	}
	if v.Equal || !tol.Bitwise || opts.Engine.Traits().Reorders {
		return v, nil
	}
	first, err := firstDifference(ctx, baseline, planned, inputs, opts)
	if err == nil && first != nil {
		v.First = first
	}
	return v, err
}

// sameOutputs requires the planned graph to have every output of the baseline.
func sameOutputs(a, b *graph.Graph) error {
	for _, d := range a.Outputs {
		name := a.Values[d.Value].Name
		if !slices.ContainsFunc(b.Outputs, func(e graph.Decl) bool { return b.Values[e.Value].Name == name }) {
			return fmt.Errorf("%w: output %q of the first model is not an output of the second, "+
				"which has %s",
				ErrOutputs, name, outputNames(b))
		}
	}
	return nil
}

func outputNames(g *graph.Graph) string {
	var names []string
	for _, d := range g.Outputs {
		names = append(names, g.Values[d.Value].Name)
	}
	return strings.Join(names, ", ")
}

// firstDifference runs both sides once more and compares every value: it returns the first one, in
// the baseline's order of execution, whose bits differ in the planned graph.
func firstDifference(
	ctx context.Context, baseline, planned Side, inputs map[string]*executor.Tensor, opts Options,
) (*Difference, error) {
	opts.Repeat, opts.Warmup, opts.Progress = 1, 0, nil
	seed := maphash.MakeSeed()
	type seen struct {
		name string
		sum  uint64
	}
	var order []seen
	opts.Session.Probe = func(v graph.ValueID, t *executor.Tensor) {
		order = append(order, seen{baseline.Model.Graph.Values[v].Name, maphash.Bytes(seed, t.Data)})
	}
	if _, err := Execute(ctx, baseline, inputs, opts); err != nil {
		return nil, err
	}
	sums := map[string]uint64{}
	opts.Session.Probe = func(v graph.ValueID, t *executor.Tensor) {
		sums[planned.Model.Graph.Values[v].Name] = maphash.Bytes(seed, t.Data)
	}
	if _, err := Execute(ctx, planned, inputs, opts); err != nil {
		return nil, err
	}
	for _, s := range order {
		if sum, ok := sums[s.name]; ok && sum != s.sum {
			return &Difference{Value: s.name, Text: "is the first value in the order of execution that differs"}, nil
		}
	}
	return nil, nil
}
