package main

import (
	"fmt"
	"math"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"
)

// wide is set while functions for AVX-512 are written: registers have sixteen lanes, not
// eight, and comparisons go to mask registers.
var wide bool

// defines writes an instruction whose only effect is to define d, all of it, which avo does
// not see where the instruction names a part of d (the rest becomes zero) or a mask.
func defines(d Op) func(i *ir.Instruction, err error) {
	return func(i *ir.Instruction, err error) {
		if err != nil {
			panic(err)
		}
		i.Outputs = []Op{d}
		i.Inputs = slices.DeleteFunc(i.Inputs, func(in Op) bool { return in == d })
		Instruction(i)
	}
}

// lanes is the number of float32s of a register.
func lanes() int {
	if wide {
		return 16
	}
	return 8
}

// register is a new one of the width that is written.
func register() reg.VecVirtual {
	if wide {
		return ZMM()
	}
	return YMM()
}

// vec is a group of registers, of float32s or float64s, that are worked on side by side: an
// operation writes one instruction for each, so that the processor finds independent instructions
// next to each other. A group of one serves with any other.
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
		r := register()
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
		y := register()
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

// mask selects lanes: those of v with their sign bits set, or bits of k for AVX-512.
type mask struct {
	v vec
	k []reg.OpmaskVirtual
}

// cmp selects the lanes where the comparison holds; v has ones there.
func cmp(predicate uint8, a vec, b any) mask {
	if !wide {
		return mask{v: two(a, b, func(b, a, d Op) { VCMPPS(U8(predicate), b, a, d) })}
	}
	op, ok := b.(Op)
	if !ok {
		op = b.(vec)[0] // every comparison here is with one number
	}
	var m mask
	for _, r := range a {
		k := K()
		VCMPPS(U8(predicate), op, r, k)
		m.k = append(m.k, k)
	}
	return m
}

// negative selects the lanes whose sign is set.
func negative(a vec) mask {
	if !wide {
		return mask{v: a}
	}
	var m mask
	for _, r := range a {
		k := K()
		VPMOVD2M(r, k)
		m.k = append(m.k, k)
	}
	return m
}

// Predicates of cmp.
const (
	equal     = 0 // false for NaN
	less      = 1 // false for NaN
	unordered = 3 // one is NaN
	notLess   = 5 // true for NaN
)

// blend is b in the lanes of the mask, a in the others.
func blend(a vec, b any, m mask) vec {
	u := -1
	return two(a, b, func(b, a, d Op) {
		u++
		if wide {
			defines(d)(x86.VBLENDMPS(b, a, m.k[u], d))
		} else {
			VBLENDVPS(m.v[u], b, a, d)
		}
	})
}

// keep is a in the lanes of the mask of a comparison or a tail, zero in the others.
func keep(a vec, m mask) vec {
	if !wide {
		return and(a, m.v)
	}
	var kept vec
	for u, k := range m.k {
		d := register()
		VMOVAPS_Z(a.of(u), k, d)
		kept = append(kept, d)
	}
	return kept
}

// orNaN is NaN in the lanes of the mask of a comparison, a in the others.
func orNaN(a vec, m mask) vec {
	if !wide {
		return or(a, m.v)
	}
	return blend(a, words(0x7fc00000), m)
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
func load(m Mem) vec { d := register(); VMOVUPS(m, d); return vec{d} }

// zero is a register of zeros.
func zero() vec {
	d := register()
	VXORPS(d, d, d)
	return vec{d}
}

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
	return constant(fmt.Sprintf("w%08x", bits), 16, func(int) uint32 { return bits })
}

// num is a vector of equal float32s.
func num(x float32) Mem { return words(math.Float32bits(x)) }

// num64 is a vector of equal float64s.
func num64(x float64) Mem {
	bits := math.Float64bits(x)
	return constant(fmt.Sprintf("d%016x", bits), 16, func(i int) uint32 { return uint32(bits >> (32 * (i % 2))) })
}

const (
	signBit = uint32(1 << 31)
	absBits = uint32(1<<31 - 1)
)

// abs clears the sign.
func abs(x vec) vec { return and(x, words(absBits)) }

// tailTable, for AVX2, has sixteen words of ones and sixteen zeros: the eight words that start at
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
