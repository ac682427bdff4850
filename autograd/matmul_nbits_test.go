package autograd_test

import (
	"fmt"
	"testing"

	"memopt/executor"
	"memopt/graph"
)

// TestMatMulNBits: the gradients for A and the bias, whatever the bits and the zero points.
func TestMatMulNBits(t *testing.T) {
	bytes := func(shape ...int) *executor.Tensor {
		data := make([]byte, shape[0]*shape[1]*max(shape[len(shape)-1]*(len(shape)-2), 1))
		for i := range data {
			data[i] = byte(i*i*31 + i*7 + 5)
		}
		return executor.NewTensor(graph.Uint8, shape, data...)
	}
	var list []float32
	for i := range 15 {
		list = append(list, 0.01*float32(1+i))
	}
	scales := executor.NewTensor(graph.Float32, []int{15}, list...)
	const text = `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
		g (double[2, 3, 40] a, uint8[5, 3, %[2]d] w, float[15] s, uint8[5, %[3]d] z, double[5] c) => (double[2, 3, 5] y) {
		x = Cast<to = 1>(a)  b = Cast<to = 1>(c)
		p = com.microsoft.MatMulNBits<N = 5, K = 40, bits = %[1]d, block_size = 16>(x, w, s, %[4]s, , b)  y = Cast<to = 11>(p) }`
	var cases []gradCase
	for _, bits := range []int{2, 4, 8} {
		for _, zeros := range []string{"", "z"} {
			zeroBytes := (3*bits + 7) / 8
			cases = append(cases, gradCase{Name: fmt.Sprintf("%d bits, zeros %q", bits, zeros),
				Graph: fmt.Sprintf(text, bits, 2*bits, zeroBytes, zeros), Wrt: []string{"a", "c"},
				Tol: 0.05, Range: [2]float64{-0.06, 0.06}, // small: so are the roundings of float32
				In: map[string]*executor.Tensor{"w": bytes(5, 3, 2*bits), "s": scales, "z": bytes(5, zeroBytes)}})
		}
	}
	checkGradients(t, cases)
}
