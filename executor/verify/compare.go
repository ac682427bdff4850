package verify

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"memopt/executor"
	"memopt/executor/small"
	"memopt/graph"
	"memopt/internal/half"
)

// Tolerance is the condition for two elements to count as equal: |a-b| ≤ Abs + Rel*|b|, NaN equal
// to NaN; integers and bools are exact. Bitwise wants equal bits.
type Tolerance struct {
	Abs, Rel float64
	Bitwise  bool
}

// DefaultTolerance is that of comparisons that need not be bitwise.
var DefaultTolerance = Tolerance{Abs: 1e-5, Rel: 1e-3}

// Difference describes how two tensors differ.
type Difference struct {
	Value    string
	Text     string // describes the first difference
	Elements int    // how many elements differ
	MaxAbs   float64
}

// String describes the place and the difference.
func (d *Difference) String() string {
	return fmt.Sprintf("value %q: %s", d.Value, d.Text)
}

// Compare returns how got differs from want, nil if it does not, and the largest absolute
// difference of two elements.
func Compare(name string, got, want *executor.Tensor, tol Tolerance) (*Difference, float64) {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return &Difference{
			Value: name, Text: fmt.Sprintf("is %v, wanted %v", got, want), MaxAbs: math.Inf(1),
		}, math.Inf(1)
	}
	if bytes.Equal(got.Data, want.Data) {
		return nil, 0
	}
	d := &Difference{Value: name}
	for i := range want.Len() {
		g, w := element(got, i), element(want, i)
		if bytes.Equal(g, w) {
			continue
		}
		gf, wf, equal := closeTo(got.DType, g, w, tol)
		if abs := math.Abs(gf - wf); abs > d.MaxAbs || math.IsNaN(abs) && !equal {
			d.MaxAbs = abs
		}
		if equal {
			continue
		}
		if d.Elements++; d.Elements == 1 {
			d.Text = fmt.Sprintf("element %d of %v is %v, wanted %v", i, got, gf, wf)
		}
	}
	if d.Elements == 0 {
		return nil, d.MaxAbs
	}
	d.Text += fmt.Sprintf("; %d of %d elements differ, by at most %.3g", d.Elements, want.Len(), d.MaxAbs)
	return d, d.MaxAbs
}

// closeTo compares two elements that are not the same bits.
func closeTo(d graph.DType, g, w []byte, tol Tolerance) (gf, wf float64, equal bool) {
	gf, wf = number(d, g), number(d, w)
	switch {
	case tol.Bitwise || !d.IsFloat():
		return gf, wf, false
	case math.IsNaN(gf) && math.IsNaN(wf) || gf == wf:
		return 0, 0, true
	}
	return gf, wf, math.Abs(gf-wf) <= tol.Abs+tol.Rel*math.Abs(wf)
}

// element returns the memory of element i, of a packed one a byte that holds it as the type small.Unpacked.
func element(t *executor.Tensor, i int) []byte {
	if small.IsPacked(t.DType) {
		var b [1]byte
		small.Unpack(t.DType, b[:], t.Data, i)
		return b[:]
	}
	size := t.DType.Bits() / 8
	return t.Data[i*size : (i+1)*size]
}

// number returns an element as a float64.
func number(d graph.DType, b []byte) float64 {
	if small.IsFloat(d) {
		return float64(small.Values(d)[b[0]])
	}
	var word [8]byte
	copy(word[:], b)
	switch small.Unpacked(d) {
	case graph.Float32:
		return float64(executor.Cast[float32](word[:])[0])
	case graph.Float64:
		return executor.Cast[float64](word[:])[0]
	case graph.Float16:
		return float64(executor.Cast[half.Float16](word[:])[0].Float32())
	case graph.BFloat16:
		return float64(executor.Cast[half.BFloat16](word[:])[0].Float32())
	case graph.Uint64:
		return float64(executor.Cast[uint64](word[:])[0])
	case graph.Int8:
		return float64(int8(b[0]))
	case graph.Int16:
		return float64(executor.Cast[int16](word[:])[0])
	case graph.Int32:
		return float64(executor.Cast[int32](word[:])[0])
	}
	return float64(executor.Cast[int64](word[:])[0])
}
