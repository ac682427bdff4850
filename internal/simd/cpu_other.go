//go:build !amd64

package simd

const (
	useAVX2   = false
	useAVX512 = false
)
