package cpu

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
)

// newMod makes the kernel of Mod. With fmod 0 the result has the sign of the divisor, as with
// Python's %; otherwise that of the dividend, as in C. Floating-point numbers allow only the
// latter.
// https://onnx.ai/onnx/operators/onnx__Mod.html
func newMod(p *executor.Prep) (executor.Kernel, error) {
	if p.DType(0).IsFloat() && p.Node.Int("fmod", 0) != 1 {
		return nil, p.Errorf("attribute fmod is %d; for type %v it must be 1", p.Node.Int("fmod", 0), p.DType(0))
	}
	return newArithmetic(p)
}

// floorMod: the sign of the divisor. Divisors have been checked.
func floorMod[T elemInteger](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		r := a[i] % b[i]
		if r != 0 && (r < 0) != (b[i] < 0) {
			r += b[i]
		}
		dst[i] = r
	}
}

// truncMod: the sign of the dividend. Divisors have been checked.
func truncMod[T elemInteger](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] % b[i]
	}
}

// floatMod: the remainder is exact in float64, and so in float32.
func floatMod[T elemFloat](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Mod(float64(a[i]), float64(b[i])))
	}
}

// divisorCheck returns a check that no integer in operand 1 is zero. It is a pass over them before
// the division, and cheap compared to that.
func divisorCheck(d graph.DType) func(k *elemKernel) error {
	zero := zeroIndex[uint64]
	switch d.Bits() {
	case 8:
		zero = zeroIndex[uint8]
	case 16:
		zero = zeroIndex[uint16]
	case 32:
		zero = zeroIndex[uint32]
	}
	return func(k *elemKernel) error {
		if i := zero(k.in[1].data); i >= 0 {
			return &elemFault{k.in[1].slot, i, "division by zero"}
		}
		return nil
	}
}

// zeroIndex returns the index of the first element that is 0, or -1.
func zeroIndex[T elemInteger](data []byte) int {
	for i, v := range executor.Cast[T](data) {
		if v == 0 {
			return i
		}
	}
	return -1
}

// elemFault is the error for an element.
type elemFault struct {
	input, element int
	what           string
}

func (e *elemFault) Error() string {
	return fmt.Sprintf("input %d, element %d: %s", e.input, e.element, e.what)
}
