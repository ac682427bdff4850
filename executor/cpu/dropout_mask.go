package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// The inner loops of dropout. keep has a word for each element: all ones where it is kept, else
// 0. Where there is assembly, it does all whole blocks of 32 elements.

// dropoutWide returns how many of n elements the assembly does.
func dropoutWide(n int) int {
	if philoxWide {
		return n &^ 31
	}
	return 0
}

// keepWords turns random words into keep: words from the threshold on keep.
func keepWords(words []uint32, threshold uint64) {
	n := dropoutWide(len(words))
	if n > 0 {
		keepWordsWide(&words[0], n, uint32(threshold))
	}
	for i, w := range words[n:] {
		words[n+i] = uint32((uint64(w)-threshold)>>63) - 1
	}
}

// selectScaled sets y[i] = x[i]*scale where element i is kept, and 0 where it is not. There are no
// branches for a processor to mispredict.
func selectScaled[T chunkFloat](y, x []T, keep []uint32, scale T) {
	if chunkNative[T](graph.Float32) {
		selectScaled32(executor.Cast[float32](executor.Memory(y)), executor.Cast[float32](executor.Memory(x)), keep,
			float32(scale))
		return
	}
	selectScaled64(executor.Cast[float64](executor.Memory(y)), executor.Cast[float64](executor.Memory(x)), keep,
		float64(scale))
}

func selectScaled32(y, x []float32, keep []uint32, scale float32) {
	y, x = y[:len(keep)], x[:len(keep)]
	n := dropoutWide(len(keep))
	if n > 0 {
		selectScaledWide(&y[0], &x[0], &keep[0], n, scale)
	}
	for i := n; i < len(keep); i++ {
		y[i] = math.Float32frombits(math.Float32bits(x[i]*scale) & keep[i])
	}
}

func selectScaled64(y, x []float64, keep []uint32, scale float64) {
	y, x = y[:len(keep)], x[:len(keep)]
	for i, m := range keep {
		y[i] = math.Float64frombits(math.Float64bits(x[i]*scale) & uint64(int64(int32(m))))
	}
}

// packBytes turns keep into bools.
func packBytes(dst []uint8, keep []uint32) {
	dst = dst[:len(keep)]
	n := dropoutWide(len(keep))
	if n > 0 {
		packBytesWide(&dst[0], &keep[0], n)
	}
	for i := n; i < len(keep); i++ {
		dst[i] = uint8(keep[i] & 1)
	}
}

// unpackBytes turns bools into keep.
func unpackBytes(keep []uint32, src []uint8) {
	src = src[:len(keep)]
	n := dropoutWide(len(keep))
	if n > 0 {
		unpackBytesWide(&keep[0], &src[0], n)
	}
	for i := n; i < len(keep); i++ {
		keep[i] = -uint32(src[i] & 1)
	}
}

// packBits turns keep into bits, 32 to a word; bits that are left over are 0.
func packBits(dst, keep []uint32) {
	n := dropoutWide(len(keep))
	if n > 0 {
		packBitsWide(&dst[0], &keep[0], n)
	}
	for at := n; at < len(keep); at += 32 {
		var b uint32
		for i, w := range keep[at:min(at+32, len(keep))] {
			b |= w & 1 << i
		}
		dst[at/32] = b
	}
}

// unpackBits turns the bits that packBits makes into keep.
func unpackBits(keep, bits []uint32) {
	for at := 0; at < len(keep); at += 32 {
		b := bits[at/32]
		for i := range keep[at:min(at+32, len(keep))] {
			keep[at+i] = -(b >> i & 1)
		}
	}
}
