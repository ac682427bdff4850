package autograd_test

import (
	"fmt"
	"testing"

	"memopt/executor"
	"memopt/symbolic"
)

// TestFourier: both ways, one-sided ones, lengths beside the axis's, axes as attribute and as input.
func TestFourier(t *testing.T) {
	var cases []gradCase
	n := symbolic.Env{"N": 2, "T": 6, "K": 4, "L": 5, "U": 10}
	add := func(name, attrs, in, out, more string, length int64) {
		for _, opset := range []int64{17, 20} {
			call, inits := "DFT<axis = 1"+attrs+">(x"+more+")", ""
			if opset == 20 {
				if more == "" {
					more = ", "
				}
				call, inits = "DFT<"+attrs[min(2, len(attrs)):]+">(x"+more+", a)", "int64 a = {1}"
				if attrs == "" {
					call = "DFT(x" + more + ", a)"
				}
			}
			if length != 0 {
				if inits != "" {
					inits += ", "
				}
				inits += fmt.Sprintf("int64 n = {%d}", length)
			}
			if inits != "" {
				inits = "<" + inits + ">"
			}
			cases = append(cases, gradCase{Name: fmt.Sprint(name, ", set ", opset), Opset: opset, Dims: n,
				Graph: `g (double` + in + ` x) => (double` + out + ` y) ` + inits + ` { y = ` + call + ` }`})
		}
	}
	add("real", "", "[2, 5, 1]", "[2, 5, 2]", "", 0)
	add("complex", "", "[2, 6, 3, 2]", "[2, 6, 3, 2]", "", 0)
	add("inverse", ", inverse = 1", "[2, 5, 2]", "[2, 5, 2]", "", 0)
	add("inverse of real numbers", ", inverse = 1", "[2, 4, 1]", "[2, 4, 2]", "", 0)
	add("one-sided, even", ", onesided = 1", "[2, 6, 1]", "[2, 4, 2]", "", 0)
	add("one-sided, odd", ", onesided = 1", "[2, 5, 2, 1]", "[2, 3, 2, 2]", "", 0)
	add("one-sided back", ", inverse = 1, onesided = 1", "[2, 4, 2]", "[2, 6, 1]", "", 0)
	add("one-sided back, odd", ", inverse = 1, onesided = 1", "[2, 3, 2, 2]", "[2, 5, 2, 1]", ", n", 5)
	add("longer", "", "[2, 4, 1]", "[2, 7, 2]", ", n", 7)
	add("shorter", "", "[2, 6, 2]", "[2, 4, 2]", ", n", 4)
	add("one-sided, shorter", ", onesided = 1", "[2, 6, 1]", "[2, 3, 2]", ", n", 5)
	add("one-sided back, longer", ", inverse = 1, onesided = 1", "[2, 3, 2]", "[2, 8, 1]", ", n", 8)
	add("one-sided back, shorter", ", inverse = 1, onesided = 1", "[2, 6, 2]", "[2, 4, 1]", ", n", 4)
	add("symbolic", "", "[N, T, 2]", "[N, T, 2]", "", 0)
	add("symbolic, one-sided", ", onesided = 1", "[N, T, 1]", "[N, K, 2]", "", 0)
	add("symbolic, one-sided back", ", inverse = 1, onesided = 1", "[N, T, 2]", "[N, U, 1]", "", 0)
	add("symbolic, longer", "", "[N, T, 2]", "[N, 9, 2]", ", n", 9)
	cases = append(cases, gradCase{Name: "last signal axis", Opset: 20,
		Graph: `g (double[2, 3, 4, 2] x) => (double[2, 3, 4, 2] y) { y = DFT(x) }`},
		gradCase{Name: "raised from 17 by what reads it", Opset: 17,
			Graph: `g (double[2, 4, 2] x) => (double[2, 4, 2] y) { y = DFT<axis = -2>(x) }`})
	checkGradients(t, cases)
}

// TestFourierFrames: frames that overlap and that do not, windows, complex signals, signals without a last axis.
func TestFourierFrames(t *testing.T) {
	n := symbolic.Env{"B": 2, "T": 12, "F": 4, "K": 3, "W": 5}
	checkGradients(t, []gradCase{
		{Name: "window", Graph: `g (double[2, 11, 1] x, double[5] w) => (double[2, 4, 3, 2] y) <int64 s = {2}> { y = STFT(x, s, w) }`},
		{Name: "window and length",
			Graph: `g (double[2, 11, 1] x, double[4] w) => (double[2, 2, 3, 2] y) <int64 s = {5}, int64 n = {4}> { y = STFT(x, s, w, n) }`},
		{Name: "length", Graph: `g (double[1, 8, 1] x) => (double[1, 3, 4, 2] y) <int64 s = {2}, int64 n = {4}> { y = STFT<onesided = 0>(x, s, , n) }`},
		{Name: "complex",
			Graph: `g (double[1, 8, 2] x, double[4] w) => (double[1, 2, 4, 2] y) <int64 s = {4}> { y = STFT<onesided = 0>(x, s, w) }`},
		{Name: "one frame", Graph: `g (double[1, 6, 1] x) => (double[1, 1, 4, 2] y) <int64 s = {4}> { y = STFT(x, s) }`},
		{Name: "no last axis", Graph: `g (double[2, 8] x, double[4] w) => (double[2, 3, 3, 2] y) <int64 s = {2}> { y = STFT(x, s, w) }`},
		{Name: "symbolic", Dims: n, In: map[string]*executor.Tensor{"s": nnInts([]int{}, 2)},
			Graph: `g (double[B, T, 1] x, double[W] w, int64 s) => (double[B, F, K, 2] y) { y = STFT(x, s, w) }`},
	})
}
