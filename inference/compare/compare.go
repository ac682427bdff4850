// Package compare runs two forms of a model on the same data and says by how much their outputs
// differ.
package compare

import (
	"context"
	"fmt"
	"math"

	"memopt"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/internal/half"
)

// Options of Outputs.
type Options struct {
	Engine  verify.Engine
	Session executor.Options
	// Data are given inputs; the others are generated from Seed (memopt.Execution.Fill).
	Data *dataset.Set
	Seed uint64
	// Tolerance says which elements count as equal.
	Tolerance verify.Tolerance
}

// Output says how one output of the second model differs from the first one's.
type Output struct {
	Name  string
	Type  string // with the shape of the run
	Bits  bool   // whether all bits are equal
	Equal bool   // whether all elements are equal within the tolerance
	// MaxAbs is the largest absolute difference of two elements, and MaxValue the largest absolute
	// element of the first model's output; NaN where an element of one side alone is not a number.
	MaxAbs, MaxValue float64
	// RMS is the root of the mean square of the differences, RMSValue that of the first model's
	// elements.
	RMS, RMSValue float64
	First         string // the first difference beyond the tolerance, or ""
}

// Outputs runs two models that have the same inputs and outputs on the same data and compares the
// outputs that both have, in the order of the second. Random nodes draw the same in both. Symbols of
// inputs must be bound. The errors are
// those of memopt.Execution.Fill and verify.Execute.
func Outputs(ctx context.Context, a, b *memopt.Model, o Options) ([]Output, error) {
	a, b = seeded(a), seeded(b)
	x := a.Execution()
	if o.Data != nil {
		x.Give(o.Data)
	}
	if err := x.Fill(o.Seed); err != nil {
		return nil, err
	}
	session := verify.Options{Engine: o.Engine, Session: o.Session, Repeat: 1}
	want, err := verify.Execute(ctx, x.Planned, x.Inputs, session)
	if err != nil {
		return nil, fmt.Errorf("the model as it is: %w", err)
	}
	inputs := map[string]*executor.Tensor{}
	for _, d := range b.Graph.Inputs {
		name := b.Graph.ValueName(d.Value)
		if t, ok := x.Inputs[name]; ok {
			inputs[name] = t
		}
	}
	y := b.Execution()
	y.Planned.Dims = x.Planned.Dims
	got, err := verify.Execute(ctx, y.Planned, inputs, session)
	if err != nil {
		return nil, fmt.Errorf("the new model: %w", err)
	}
	var outputs []Output
	for _, g := range got.Outputs {
		for _, w := range want.Outputs {
			if w.Name == g.Name {
				outputs = append(outputs, output(g.Name, g.Tensor, w.Tensor, o.Tolerance))
			}
		}
	}
	return outputs, nil
}

// output compares one output.
func output(name string, got, want *executor.Tensor, tol verify.Tolerance) Output {
	out := Output{Name: name, Type: got.String(), Equal: true}
	exact := tol
	exact.Bitwise = true
	if d, _ := verify.Compare(name, got, want, exact); d == nil {
		out.Bits = true
	}
	d, most := verify.Compare(name, got, want, tol)
	if out.MaxAbs = most; d != nil {
		out.Equal, out.First = false, d.Text
	}
	g, ok := elements(got)
	w, ok2 := elements(want)
	if !ok || !ok2 || len(g) != len(w) || len(w) == 0 {
		return out
	}
	var sum, sumValue float64
	for i := range w {
		out.MaxValue = math.Max(out.MaxValue, math.Abs(w[i]))
		if g[i] != w[i] && !(math.IsNaN(g[i]) && math.IsNaN(w[i])) {
			sum += (g[i] - w[i]) * (g[i] - w[i])
		}
		sumValue += w[i] * w[i]
	}
	out.RMS, out.RMSValue = math.Sqrt(sum/float64(len(w))), math.Sqrt(sumValue/float64(len(w)))
	return out
}

// elements returns a tensor's elements as float64; ok is false for types without a conversion here.
func elements(t *executor.Tensor) (list []float64, ok bool) {
	switch t.DType {
	case graph.Float32:
		list = widened(executor.Of[float32](t), func(x float32) float64 { return float64(x) })
	case graph.Float64:
		list = executor.Of[float64](t)
	case graph.Float16:
		list = widened(executor.Of[half.Float16](t), func(x half.Float16) float64 { return float64(x.Float32()) })
	case graph.BFloat16:
		list = widened(executor.Of[half.BFloat16](t), func(x half.BFloat16) float64 { return float64(x.Float32()) })
	case graph.Int64:
		list = widened(executor.Of[int64](t), func(x int64) float64 { return float64(x) })
	case graph.Int32:
		list = widened(executor.Of[int32](t), func(x int32) float64 { return float64(x) })
	default:
		return nil, false
	}
	return list, true
}

func widened[T any](list []T, wide func(T) float64) []float64 {
	out := make([]float64, len(list))
	for i, x := range list {
		out[i] = wide(x)
	}
	return out
}
