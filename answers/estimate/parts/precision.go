package parts

import (
	"fmt"
	"strings"

	"memopt/graph"
	"memopt/graph/precision"
)

// Types are the element types of a precision.
type Types struct {
	Weights     graph.DType // that the step computes with
	Activations graph.DType // and gradients of activations
	Gradients   graph.DType // of parameters, and their sums
	Master      graph.DType // graph.Undefined: there are no master weights
	Moments     graph.DType
}

// TypesOf returns the types of a precision that is not AsIs.
func TypesOf(p precision.Precision) Types {
	mixed := func(half graph.DType) Types { return Types{half, half, half, graph.Float32, graph.Float32} }
	switch p {
	case precision.BF16:
		return mixed(graph.BFloat16)
	case precision.FP16Mixed:
		return mixed(graph.Float16)
	case precision.BF16Pure:
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
