// Package simd has the inner loops of float32 kernels. On amd64 with AVX2 or AVX-512
// they are assembly; everywhere else, and as the reference, Go that gives the same bits.
//
// The slices of a call have the length of the first one. dst may be one of the sources,
// and must not overlap them otherwise. Results do not depend on addresses. Functions of
// one variable stay within 2 ulps (4 for Tanh, Erf, Sigmoid and Gelu) of the true value
// and handle infinities, NaN and subnormal numbers as package math does. The bounds that
// they document come from comparing a sample of all float32s with package math.
//
// Same bits means that the assembly does the operations of the Go code one by one, each
// rounded to its type: there are no fused multiply-adds, and the Go code converts each product
// explicitly, which keeps the compiler from fusing it. Only the sign and payload of a NaN are left
// open.
package simd

import "unsafe"

// ptr returns the address of the first element, after checking that there are n.
func ptr[T any](a []T, n int) *T {
	if len(a) < n {
		panic("simd: a source is shorter than the first slice")
	}
	return unsafe.SliceData(a)
}
