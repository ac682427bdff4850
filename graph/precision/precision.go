// Package precision has the precisions of a training step, and rewrites forward models so that they compute in one.
package precision

import (
	"fmt"
	"slices"
	"strings"

	"memopt/graph"
)

// Precision is the types of a step's weights, gradients and states.
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
	// BF16Pure is BF16 with weights and moments in bfloat16, which updates round stochastically; there are no master
	// weights.
	BF16Pure Precision = "bf16-pure"
	// FP16Mixed is BF16 with float16 in bfloat16's place, and a scale of the loss.
	FP16Mixed Precision = "fp16-mixed"
)

// Precisions lists the precisions that have a name.
var Precisions = []Precision{FP32, BF16, BF16Pure, FP16Mixed}

// Parse reads the name of a precision; "" is AsIs, and fp16 is FP16Mixed.
func Parse(text string) (Precision, error) {
	switch {
	case text == "fp16":
		return FP16Mixed, nil
	case text == "" || slices.Contains(Precisions, Precision(text)):
		return Precision(text), nil
	}
	var names []string
	for _, p := range Precisions {
		names = append(names, string(p))
	}
	return AsIs, fmt.Errorf("precision %q: wanted one of %s", text, strings.Join(names, ", "))
}

// Half is the type of 16 bits that a precision computes in beside float32; graph.Undefined if it has none.
func (p Precision) Half() graph.DType {
	switch p {
	case BF16, BF16Pure:
		return graph.BFloat16
	case FP16Mixed:
		return graph.Float16
	}
	return graph.Undefined
}
