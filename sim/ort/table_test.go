package ort

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"memopt/graph"
	"memopt/graph/op"
)

// TestTableIsComplete: the tables say in one place what ONNX Runtime does with an operator, or that
// it does nothing particular.
func TestTableIsComplete(t *testing.T) {
	times := [op.NumKinds]int{}
	count := func(kinds ...graph.Kind) {
		for _, k := range kinds {
			times[k]++
		}
	}
	count(plain...)
	count(unmeasured...)
	for i := range rows {
		count(rows[i].kind)
	}
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		assert.Equal(t, 1, times[k], "op %s: one row in sim/ort/table.go, among rows, plain or unmeasured",
			op.Of(k).Name)
	}
}

// TestTableAgreesWithOperators: the operators' definitions allow what the runtime writes in place,
// takes out or runs a body for.
func TestTableAgreesWithOperators(t *testing.T) {
	for i := range rows {
		r, info := &rows[i], op.Of(rows[i].kind)
		for _, slot := range r.inPlace {
			assert.True(t, info.Inputs.Max < 0 || slot < info.Inputs.Max, info.Name)
		}
		assert.False(t, r.expands && r.inPlace != nil, "%s: a body has no place to write into", info.Name)
		if r.expands {
			assert.True(t, info.Has(op.Loss) || info.Domain == "memopt", info.Name)
		}
	}
}
