package operand

import (
	"math"

	"memopt/executor"
)

// maxSpan is more elements than any memory holds.
const maxSpan = 1 << 48

// IntSpan is the length of a Range from start to limit by delta, which is not 0: max(0,
// ceil((limit-start)/delta)). For example, 0 to 10 by 3 has 4 elements. It is computed in integers,
// since float64 cannot represent every int64. ok is false if no memory holds that many elements.
func IntSpan(start, limit, delta int64) (n int, ok bool) {
	if start < limit != (delta > 0) || start == limit {
		return 0, true
	}
	distance, step := uint64(limit)-uint64(start), uint64(delta) // the distance fits uint64
	if delta < 0 {
		distance, step = -distance, -step
	}
	length := (distance-1)/step + 1
	return int(length), length < maxSpan
}

// FloatSpan is IntSpan for floats. ok is false also if the length is NaN.
func FloatSpan(start, limit, delta float64) (n int, ok bool) {
	length := math.Ceil((limit - start) / delta)
	if math.IsNaN(length) || length > maxSpan {
		return 0, false
	}
	return int(max(length, 0)), true
}

// CheckSpan refuses inputs 0, 1 and 2 of a Range (start, limit and delta) unless each is one
// element.
func CheckSpan(c *executor.Ctx) error {
	for i := range 3 {
		if c.In(i).Len() != 1 {
			return c.Errorf("input %d is %v, wanted one element", i, c.In(i))
		}
	}
	return nil
}
