package cpu

// The loops of dropout in assembly with AVX2, for n elements, a positive multiple of 32. Each does
// the same as the Go function that calls it.

//go:noescape
func keepWordsWide(words *uint32, n int, threshold uint32)

//go:noescape
func selectScaledWide(y, x *float32, keep *uint32, n int, scale float32)

//go:noescape
func packBytesWide(dst *uint8, keep *uint32, n int)

//go:noescape
func unpackBytesWide(keep *uint32, src *uint8, n int)

//go:noescape
func packBitsWide(dst, keep *uint32, n int)
