package roles

import (
	"encoding/binary"
	"math"

	"memopt/graph"
	"memopt/internal/half"
)

// looked is how many elements of a tensor are looked at: the first rows of a mask show that it is one.
const looked = 1 << 16

// floats calls f with the first elements of a tensor until f returns false. It reports whether there are
// some, and f has returned true for all of them.
func floats(t *graph.TensorData, f func(i int, x float64) bool) bool {
	if t == nil || t.Source == nil {
		return false
	}
	raw, err := t.Source.Bytes()
	width := t.DType.Bits() / 8
	if err != nil || width < 2 || len(raw) < width {
		return false
	}
	for i := range min(len(raw)/width, looked) {
		if !f(i, float(t.DType, raw[i*width:])) {
			return false
		}
	}
	return true
}

// float reads a number.
func float(d graph.DType, raw []byte) float64 {
	switch d {
	case graph.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw))
	case graph.Float16:
		return float64(half.Float16(binary.LittleEndian.Uint16(raw)).Float32())
	case graph.BFloat16:
		return float64(half.BFloat16(binary.LittleEndian.Uint16(raw)).Float32())
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
}

// isZero reports whether all elements are zero.
func isZero(t *graph.TensorData) bool {
	return floats(t, func(_ int, x float64) bool { return x == 0 })
}

// penalty is the least amount that masks subtract from scores to rule them out: 1e4 fits into
// float16.
const penalty = 1e4

// isMask reports whether a tensor of several elements is a mask: it has zeros, or else ones, and
// otherwise penalties or infinities; or it has only zeros and ones, and both.
func isMask(t *graph.TensorData) bool {
	if t == nil || len(t.Dims) < 2 {
		return false
	}
	var zeros, ones, ruled bool
	only := floats(t, func(_ int, x float64) bool {
		switch {
		case x == 0:
			zeros = true
		case x == 1:
			ones = true
		case x <= -penalty, math.IsInf(x, 0):
			ruled = true
		default:
			return false
		}
		return true
	})
	return only && (ruled || zeros && ones)
}

// isAngles reports whether a tensor [..., positions, d] holds sines and cosines of positions times
// frequencies up to 1, as those of rotary and of sinusoidal embeddings do: row 0 is of zeros and
// ones, and row 1 begins with the sine or the cosine of 1.
func isAngles(t *graph.TensorData) bool {
	rank := len(t.Dims)
	if rank < 2 || t.Dims[rank-1] < 2 || t.Dims[rank-2] < 2 || t.Dims[rank-1] >= looked {
		return false
	}
	d := int(t.Dims[rank-1])
	found := false
	floats(t, func(i int, x float64) bool {
		if i < d {
			return x == 0 || x == 1
		}
		near := func(y float64) bool { return math.Abs(x-y) < 4e-3 }
		found = near(math.Sin(1)) || near(math.Cos(1))
		return false
	})
	return found
}
