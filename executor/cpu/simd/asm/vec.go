package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vec is a register of eight float32s, or of four float64s.
type vec = reg.VecVirtual

// These write one instruction into a new register. b may be in memory.

func add(a vec, b Op) vec { d := YMM(); VADDPS(b, a, d); return d }
func sub(a vec, b Op) vec { d := YMM(); VSUBPS(b, a, d); return d }
func mul(a vec, b Op) vec { d := YMM(); VMULPS(b, a, d); return d }
func div(a vec, b Op) vec { d := YMM(); VDIVPS(b, a, d); return d }
func and(a vec, b Op) vec { d := YMM(); VANDPS(b, a, d); return d }
func or(a vec, b Op) vec  { d := YMM(); VORPS(b, a, d); return d }

// min is a if a < b, else b: b when either is NaN or both are zero. max likewise.
func min(a vec, b Op) vec { d := YMM(); VMINPS(b, a, d); return d }
func max(a vec, b Op) vec { d := YMM(); VMAXPS(b, a, d); return d }

// cmp sets the lanes where the comparison holds to all ones.
func cmp(predicate uint8, a vec, b Op) vec {
	d := YMM()
	VCMPPS(U8(predicate), b, a, d)
	return d
}

// Predicates of cmp.
const (
	equal     = 0 // false for NaN
	less      = 1 // false for NaN
	unordered = 3 // one is NaN
	notLess   = 5 // true for NaN
)

// blend is b where the sign bit of mask is set, else a.
func blend(a vec, b Op, mask vec) vec { d := YMM(); VBLENDVPS(mask, b, a, d); return d }

// Integer operations on lanes of 32 bits.

func addInt(a vec, b Op) vec { d := YMM(); VPADDD(b, a, d); return d }
func subInt(a vec, b Op) vec { d := YMM(); VPSUBD(b, a, d); return d }

func shiftLeft(a vec, n uint8) vec   { d := YMM(); VPSLLD(U8(n), a, d); return d }
func shiftRight(a vec, n uint8) vec  { d := YMM(); VPSRLD(U8(n), a, d); return d }
func shiftSigned(a vec, n uint8) vec { d := YMM(); VPSRAD(U8(n), a, d); return d }

// Operations on four float64s.

func add64(a vec, b Op) vec { d := YMM(); VADDPD(b, a, d); return d }
func sub64(a vec, b Op) vec { d := YMM(); VSUBPD(b, a, d); return d }
func mul64(a vec, b Op) vec { d := YMM(); VMULPD(b, a, d); return d }

// load copies memory to a register.
func load(m Op) vec { d := YMM(); VMOVUPS(m, d); return d }

// constants has the ones written to the file, by name.
var constants = map[string]Mem{}

// words is a constant of eight equal words in memory.
func words(bits uint32) Mem {
	name := fmt.Sprintf("w%08x", bits)
	m, ok := constants[name]
	if !ok {
		m = GLOBL(name, attributes)
		for i := range 8 {
			DATA(4*i, U32(bits))
		}
		constants[name] = m
	}
	return m
}

// num is a float32 constant.
func num(x float32) Mem { return words(math.Float32bits(x)) }

// num64 is a float64 constant.
func num64(x float64) Mem {
	bits := math.Float64bits(x)
	name := fmt.Sprintf("d%016x", bits)
	m, ok := constants[name]
	if !ok {
		m = GLOBL(name, attributes)
		for i := range 4 {
			DATA(8*i, U64(bits))
		}
		constants[name] = m
	}
	return m
}

var (
	signBit = uint32(1 << 31)
	absBits = uint32(1<<31 - 1)
)

// abs clears the sign.
func abs(x vec) vec { return and(x, words(absBits)) }

// tailTable has sixteen words of ones and sixteen zeros: the eight words that start at
// word 16-n are a mask of the first n lanes, and the next eight of the n-8 lanes after.
func tailTable() Mem {
	m, ok := constants["tail"]
	if !ok {
		m = GLOBL("tail", attributes)
		for i := range 32 {
			ones := uint32(0)
			if i < 16 {
				ones = math.MaxUint32
			}
			DATA(4*i, U32(ones))
		}
		constants["tail"] = m
	}
	return m
}
