package parts

import (
	"fmt"
	"slices"
	"strings"

	"memopt/graph"
)

// Precision is the types of a step's weights, gradients and states: a hypothesis about a graph whose
// types may be others.
type Precision string

// The precisions.
const (
	// AsIs is the graph's own types.
	AsIs Precision = ""
	// FP32 keeps everything in float32.
	FP32 Precision = "fp32"
	// BF16 computes in bfloat16, gradients included, and updates master weights in float32 by moments
	// in float32.
	BF16 Precision = "bf16"
	// BF16Pure keeps everything in bfloat16, moments included; there are no master weights.
	BF16Pure Precision = "bf16-pure"
	// FP16Mixed is BF16 with float16 in bfloat16's place, and a scale of the loss.
	FP16Mixed Precision = "fp16-mixed"
)

// Precisions lists the precisions that have a name.
var Precisions = []Precision{FP32, BF16, BF16Pure, FP16Mixed}

// ParsePrecision reads the name of a precision; "" is AsIs.
func ParsePrecision(text string) (Precision, error) {
	if text == "" || slices.Contains(Precisions, Precision(text)) {
		return Precision(text), nil
	}
	var names []string
	for _, p := range Precisions {
		names = append(names, string(p))
	}
	return AsIs, fmt.Errorf("precision %q: wanted one of %s", text, strings.Join(names, ", "))
}

// Types are the element types of a precision.
type Types struct {
	Weights     graph.DType // that the step computes with
	Activations graph.DType // and gradients of activations
	Gradients   graph.DType // of parameters, and their sums
	Master      graph.DType // graph.Undefined: there are no master weights
	Moments     graph.DType
}

// Types returns the types of a precision that is not AsIs.
func (p Precision) Types() Types {
	mixed := func(half graph.DType) Types { return Types{half, half, half, graph.Float32, graph.Float32} }
	switch p {
	case BF16:
		return mixed(graph.BFloat16)
	case FP16Mixed:
		return mixed(graph.Float16)
	case BF16Pure:
		t := mixed(graph.BFloat16)
		t.Master, t.Moments = graph.Undefined, graph.BFloat16
		return t
	}
	t := mixed(graph.Float32)
	t.Master = graph.Undefined
	return t
}

// PerParameter is the bytes of one parameter throughout a step.
type PerParameter struct{ Weight, Gradient, Master, Moments int64 }

// Total is the bytes of all.
func (p PerParameter) Total() int64 { return p.Weight + p.Gradient + p.Master + p.Moments }

// String writes the sum: "4 weight + 4 gradient + 8 moments = 16 bytes".
func (p PerParameter) String() string {
	var terms []string
	for _, t := range []struct {
		n    int64
		what string
	}{{p.Weight, "weight"}, {p.Gradient, "gradient"}, {p.Master, "master weight"}, {p.Moments, "moments"}} {
		if t.n > 0 {
			terms = append(terms, fmt.Sprintf("%d %s", t.n, t.what))
		}
	}
	return fmt.Sprintf("%s = %d bytes", strings.Join(terms, " + "), p.Total())
}

// PerParameter returns the bytes of a parameter with so many moments.
func (t Types) PerParameter(moments int) PerParameter {
	p := PerParameter{Weight: bytesOf(t.Weights), Gradient: bytesOf(t.Gradients),
		Moments: int64(moments) * bytesOf(t.Moments)}
	if t.Master != graph.Undefined {
		p.Master = bytesOf(t.Master)
	}
	return p
}

// bytesOf is the bytes of an element of one of the types above.
func bytesOf(d graph.DType) int64 { return int64(d.Bits()) / 8 }
