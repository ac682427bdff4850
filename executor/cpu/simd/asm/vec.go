package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vec is a group of registers of eight float32s, or four float64s, that are worked on side
// by side: an operation writes one instruction for each, so that the processor finds
// independent instructions next to each other. A group of one serves with any other.
type vec []reg.VecVirtual

// two writes an instruction of two operands for every register of a group. b is a vec or
// memory, which a larger group loads once.
func two(a vec, b any, instruction func(b, a, d Op)) vec {
	bv, ok := b.(vec)
	m, _ := b.(Mem)
	if !ok && len(a) > 1 {
		bv, ok = load(m), true
	}
	var d vec
	n := len(a)
	if len(bv) > n {
		n = len(bv)
	}
	for u := range n {
		r := YMM()
		if ok {
			instruction(bv.of(u), a.of(u), r)
		} else {
			instruction(m, a.of(u), r)
		}
		d = append(d, r)
	}
	return d
}

// of is the register of a group that goes with register u of another.
func (v vec) of(u int) reg.VecVirtual {
	if len(v) == 1 {
		return v[0]
	}
	return v[u]
}

// one writes an instruction of one operand for every register of a group.
func one(a vec, instruction func(a, d Op)) vec {
	var d vec
	for _, r := range a {
		y := YMM()
		instruction(r, y)
		d = append(d, y)
	}
	return d
}

func add(a vec, b any) vec { return two(a, b, of3(VADDPS)) }
func sub(a vec, b any) vec { return two(a, b, of3(VSUBPS)) }
func mul(a vec, b any) vec { return two(a, b, of3(VMULPS)) }
func div(a vec, b any) vec { return two(a, b, of3(VDIVPS)) }
func and(a vec, b any) vec { return two(a, b, of3(VANDPS)) }
func or(a vec, b any) vec  { return two(a, b, of3(VORPS)) }

// min is a if a < b, else b: b when either is NaN or both are zero. max likewise.
func min(a vec, b any) vec { return two(a, b, of3(VMINPS)) }
func max(a vec, b any) vec { return two(a, b, of3(VMAXPS)) }

// cmp sets the lanes where the comparison holds to all ones.
func cmp(predicate uint8, a vec, b any) vec {
	return two(a, b, func(b, a, d Op) { VCMPPS(U8(predicate), b, a, d) })
}

// Predicates of cmp.
const (
	equal     = 0 // false for NaN
	less      = 1 // false for NaN
	unordered = 3 // one is NaN
	notLess   = 5 // true for NaN
)

// blend is b where the sign bit of mask is set, else a.
func blend(a vec, b any, mask vec) vec {
	u := -1
	return two(a, b, func(b, a, d Op) { u++; VBLENDVPS(mask.of(u), b, a, d) })
}

// Integer operations on lanes of 32 bits.

func addInt(a vec, b any) vec { return two(a, b, of3(VPADDD)) }
func subInt(a vec, b any) vec { return two(a, b, of3(VPSUBD)) }

func shiftLeft(a vec, n uint8) vec   { return one(a, func(a, d Op) { VPSLLD(U8(n), a, d) }) }
func shiftRight(a vec, n uint8) vec  { return one(a, func(a, d Op) { VPSRLD(U8(n), a, d) }) }
func shiftSigned(a vec, n uint8) vec { return one(a, func(a, d Op) { VPSRAD(U8(n), a, d) }) }

// Operations on float64s.

func add64(a vec, b any) vec { return two(a, b, of3(VADDPD)) }
func sub64(a vec, b any) vec { return two(a, b, of3(VSUBPD)) }
func mul64(a vec, b any) vec { return two(a, b, of3(VMULPD)) }

// load copies memory to a register.
func load(m Mem) vec { d := YMM(); VMOVUPS(m, d); return vec{d} }

// zero is a register of zeros.
func zero() vec { d := YMM(); VXORPS(d, d, d); return vec{d} }

// constants has the ones written to the file, by name.
var constants = map[string]Mem{}

// constant writes words to the file, once for each name.
func constant(name string, n int, word func(i int) uint32) Mem {
	m, ok := constants[name]
	if !ok {
		m = GLOBL(name, attributes)
		for i := range n {
			DATA(4*i, U32(word(i)))
		}
		constants[name] = m
	}
	return m
}

// words is a vector of equal words.
func words(bits uint32) Mem {
	return constant(fmt.Sprintf("w%08x", bits), 8, func(int) uint32 { return bits })
}

// num is a vector of equal float32s.
func num(x float32) Mem { return words(math.Float32bits(x)) }

// num64 is a vector of equal float64s.
func num64(x float64) Mem {
	bits := math.Float64bits(x)
	return constant(fmt.Sprintf("d%016x", bits), 8, func(i int) uint32 { return uint32(bits >> (32 * (i % 2))) })
}

const (
	signBit = uint32(1 << 31)
	absBits = uint32(1<<31 - 1)
)

// abs clears the sign.
func abs(x vec) vec { return and(x, words(absBits)) }

// tailTable has sixteen words of ones and sixteen zeros: the eight words that start at
// word 16-n are a mask of the first n lanes, and the next eight of the n-8 lanes after.
func tailTable() Mem {
	return constant("tail", 32, func(i int) uint32 {
		if i < 16 {
			return math.MaxUint32
		}
		return 0
	})
}

// avo's functions take any number of operands where a mask of AVX-512 may stand; these
// have the numbers that are used here.

func of3(f func(...Op)) func(b, a, d Op) { return func(b, a, d Op) { f(b, a, d) } }
func of2(f func(...Op)) func(a, d Op)    { return func(a, d Op) { f(a, d) } }
