package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"
)

var (
	erfC = []float32{1.1283792, 0.6366194, 0.10277783, -0.019153064, -0.00016039617, 0.0016670277,
		-0.00063283707, 0.00011764134, -9.256273e-06}

	geluQ = []float32{0.75, 0.6861938, 0.29648894, 0.06833408, 0.0072937054}
	geluP = []float32{1.5, 0.68924487, 0.17286566, 0.018201131, 1.7832782e-06}
)

const (
	erfHigh      = 3.95
	geluHigh     = 14.5
	sqrt2Pi      = 2.5066283
	geluTanhHigh = 11
	geluTanhA    = 2.302208198144325
	geluTanhB    = 0.10294323958002349
	round64      = 0x1.8p52
	ln2          = 0x1.62e43p-1
)

func erf(x vec) vec {
	z := min(all(erfHigh), abs(x))
	g := mul(poly(z, erfC), z)
	r, k := split(or(g, words(signBit)), 127)
	p := power(k)
	t := sub(sub(all(1), p), mul(expm1(r), p))
	return or(t, and(x, words(signBit)))
}

func halfSquare(z vec, bias float32) (r, k vec) {
	h := and(z, words(0xfffff000))
	low := mul(sub(z, h), add(z, h))
	k = add(mul(mul(z, z), num(-log2e/2)), num(round+bias))
	n := sub(k, num(round+bias))
	r = sub(mul(mul(h, h), num(-0.5)), mul(n, num(ln2High)))
	r = sub(r, add(mul(n, num(ln2Low)), mul(low, num(0.5))))
	return r, k
}

func gelu(x vec) vec {
	z := min(all(geluHigh), abs(x))
	r, k := halfSquare(z, 127+64)
	q, p := poly(z, geluQ), poly(z, geluP)
	zq := mul(z, q)
	d := add(mul(zq, num(sqrt2Pi)), p)
	t := add(mul(expm1(r), zq), zq)
	return lessTail(x, div(mul(t, power(k)), d))
}

func lessTail(x, tail vec) vec {
	m := max(load(words(signBit)), x) // -0 for negative numbers
	y := sub(m, mul(tail, num(twoNeg64)))
	return orNaN(y, cmp(equal, x, num(inf(-1))))
}

func geluTanh(x vec) vec {
	z := min(all(geluTanhHigh), abs(x))
	r0, k0 := halfTanh(one(z, func(z, d Op) { VCVTPS2PD(half(z), d) }))
	r1, k1 := halfTanh(one(z, func(z, d Op) {
		if wide {
			VEXTRACTF64X4(U8(1), z, half(d))
		} else {
			VEXTRACTF128(U8(1), z, half(d))
		}
		VCVTPS2PD(half(d), d)
	}))
	r := mul(join(r0, r1), num(ln2))
	k := join(lowWords(k0), lowWords(k1))
	e := mul(add(expm1(r), num(1)), power(k))
	return lessTail(x, div(mul(z, e), add(mul(e, num(twoNeg64)), num(1))))
}

// halfTanh does the part of geluTanh in float64, for half of the lanes. r has float32s in
// its lower half.
func halfTanh(d vec) (r, k vec) {
	w := mul64(sub64(mul64(mul64(d, d), num64(-geluTanhB)), num64(geluTanhA)), d)
	k = add64(w, num64(round64+127+64))
	n := sub64(k, num64(round64+127+64))
	r = one(sub64(w, n), func(f, d Op) {
		if wide {
			defines(d)(x86.VCVTPD2PS(f, half(d)))
		} else {
			defines(d)(x86.VCVTPD2PSY(f, half(d)))
		}
	})
	return r, k
}

// half is the lower half of a register.
func half(r Op) reg.Register {
	if wide {
		return r.(reg.Vec).AsY()
	}
	return r.(reg.Vec).AsX()
}

// join has the lower half of a, then that of b.
func join(a, b vec) vec {
	return two(a, b, func(b, a, d Op) {
		if wide {
			VINSERTF64X4(U8(1), half(b), a, d)
		} else {
			VINSERTF128(U8(1), half(b), a, d)
		}
	})
}

// lowWords gathers the low words of float64s in the lower half.
func lowWords(k vec) vec {
	return one(k, func(k, d Op) {
		if wide {
			defines(d)(x86.VPMOVQD(k, half(d)))
			return
		}
		VPSHUFD(U8(0x08), k, d) // words 0 and 2 of each half
		VPERMQ(U8(0x08), d, d)
	})
}
