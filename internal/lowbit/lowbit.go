// Package lowbit stores numbers as codes of few bits, with a float32 scale for each block of them. A code stands for a
// number from -1 to 1, or from 0 to 1, and an element is its code's number times the scale of its block. Codes, blocks
// and roundings are those of torchao 0.18 (torchao/optim), which follow Dettmers et al., "8-bit Optimizers via
// Block-wise Quantization" (arXiv:2110.02861), and Li et al., "Memory Efficient Optimizers with 4-bit States"
// (arXiv:2309.01507).
package lowbit

import (
	"math"
	"slices"
	"sync"
)

// leastScale is the scale of a block of zeros.
const leastScale = 1e-12

// signBit is that of a float32.
const signBit = 1 << 31

// least is the number of elements below which a tensor is not stored in codes, as in bitsandbytes.
const least = 4096

// Format is a way to store numbers.
type Format struct {
	Bits  int // of a code: 8 or 4
	Block int // elements that share a scale
	// Numbers are those that codes stand for, by code, in ascending order.
	Numbers []float32
	// from has, for each code but the first, the least number that is rounded to it or to a higher one; behind the last
	// is NaN, which no number reaches.
	from []float32
	// first has the code of the least number whose first 16 bits are the index.
	first func() *[1 << 16]byte
}

// MaxBlock is the largest Block of all formats.
const MaxBlock = 256

// Formats of signed numbers, such as a mean of gradients, and of numbers of at least 0, such as a mean of squares.
var (
	Signed8   = newFormat(8, 256, dynamic(true, 7, 8))
	Unsigned8 = newFormat(8, 256, dynamic(false, 7, 8))
	Signed4   = newFormat(4, 128, dynamic(true, 3, 4))
	Unsigned4 = newFormat(4, 128, linear(0, 1, 17)[1:]) // no code stands for 0
)

// FormatOf returns the format of so many bits, nil for any other number.
func FormatOf(bits int, signed bool) *Format {
	switch {
	case bits == 8 && signed:
		return Signed8
	case bits == 8:
		return Unsigned8
	case bits == 4 && signed:
		return Signed4
	case bits == 4:
		return Unsigned4
	}
	return nil
}

// Takes reports whether a tensor of n elements is stored in codes: one of few elements, or with a part of a block, is
// not.
func (f *Format) Takes(n int64) bool { return n >= least && n%int64(f.Block) == 0 }

// CodeBytes returns the bytes that the codes of n elements take. The first of two codes in a byte has the high bits.
func (f *Format) CodeBytes(n int64) int64 { return n * int64(f.Bits) / 8 }

// Bytes returns the bytes that n elements take, scales included.
func (f *Format) Bytes(n int64) int64 { return f.CodeBytes(n) + 4*(n/int64(f.Block)) }

// Decode writes the numbers of a block into dst: as many as it has elements.
func (f *Format) Decode(dst []float32, codes []byte, scale float32) {
	if f.Bits == 8 {
		for i, c := range codes[:len(dst)] {
			dst[i] = f.Numbers[c] * scale
		}
		return
	}
	for i, c := range codes[:len(dst)/2] {
		dst[2*i], dst[2*i+1] = f.Numbers[c>>4]*scale, f.Numbers[c&15]*scale
	}
}

// Encode writes the codes of a block and returns the block's scale: the largest magnitude. A block with an
// element that is not a number has NaN as its scale.
func (f *Format) Encode(codes []byte, block []float32) (scale float32) {
	largest := math.Float32bits(leastScale)
	for _, x := range block {
		largest = max(largest, math.Float32bits(x)&^signBit) // in the order of magnitudes, NaN behind all
	}
	scale = math.Float32frombits(largest)
	first := f.first()
	if f.Bits == 8 {
		for i, x := range block {
			codes[i] = f.code(first, x/scale)
		}
		return scale
	}
	for i := range codes[:len(block)/2] {
		codes[i] = f.code(first, block[2*i]/scale)<<4 | f.code(first, block[2*i+1]/scale)
	}
	return scale
}

// code is search with fewer steps.
func (f *Format) code(first *[1 << 16]byte, x float32) byte {
	at := first[math.Float32bits(x)>>16]
	for x >= f.from[int(at)+1] {
		at++
	}
	return at
}

// search returns the code of a number: of the two next to it that of the nearer one, the higher one halfway. NaN has
// the code 0.
func (f *Format) search(x float32) byte {
	at := 0
	for step := len(f.Numbers) / 2; step > 0; step /= 2 {
		if x >= f.from[at+step] {
			at += step
		}
	}
	return byte(at)
}

func newFormat(bits, block int, numbers []float32) *Format {
	f := &Format{Bits: bits, Block: block, Numbers: numbers, from: make([]float32, len(numbers)+1)}
	for i := 1; i < len(numbers); i++ {
		f.from[i] = halfway(numbers[i-1], numbers[i])
	}
	f.from[len(numbers)] = float32(math.NaN())
	f.first = sync.OnceValue(f.firsts)
	return f
}

// firsts makes first. The least of the negative numbers with equal first bits is the one whose other bits are set.
func (f *Format) firsts() *[1 << 16]byte {
	var codes [1 << 16]byte
	for i := range codes {
		b := uint32(i) << 16
		if b&signBit != 0 {
			b |= 1<<16 - 1
		}
		codes[i] = f.search(math.Float32frombits(b))
	}
	return &codes
}

// halfway returns the least x with x - low >= (high - low)/2 in float32, by bisection: rounding is monotone.
func halfway(low, high float32) float32 {
	half := (high - low) * 0.5
	below, above := order(low), order(high) // the first is too low, the second is not
	for above-below > 1 {
		mid := below + (above-below)/2
		if fromOrder(mid)-low >= half {
			above = mid
		} else {
			below = mid
		}
	}
	return fromOrder(above)
}

// order numbers the floats in ascending order.
func order(x float32) int64 {
	b := int64(int32(math.Float32bits(x)))
	if b < 0 {
		return math.MinInt32 - b
	}
	return b
}

func fromOrder(n int64) float32 {
	if n < 0 {
		return math.Float32frombits(uint32(math.MinInt32 - n))
	}
	return math.Float32frombits(uint32(n))
}

// dynamic makes the numbers of codes whose first set bit says how many tenths the number is multiplied by: the bits
// behind it are a fraction, which has the fewer bits the smaller the number is.
func dynamic(signed bool, exponents, bits int) []float32 {
	numbers := []float32{0, 1}
	for i := range exponents {
		items := 1<<(i+bits-1-exponents) + 1
		if !signed {
			items = 1<<(i+bits-exponents) + 1
		}
		power := float32(math.Pow(10, float64(i+1-exponents)))
		bounds := linear(0.1, 1, items)
		for k := range items - 1 {
			x := (bounds[k] + bounds[k+1]) / 2 * power
			if numbers = append(numbers, x); signed {
				numbers = append(numbers, -x)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

// linear returns n numbers at equal distances with the roundings of PyTorch's linspace: from both ends, each a product
// and a sum that are rounded once.
func linear(from, to float32, n int) []float32 {
	out := make([]float32, n)
	step := (to - from) / float32(n-1)
	for i := range out {
		base, times := from, i
		if i >= n/2 {
			base, times = to, i-(n-1)
		}
		out[i] = float32(float64(step)*float64(times) + float64(base))
	}
	return out
}
