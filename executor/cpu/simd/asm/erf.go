package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var (
	erfP = []float32{1.1283792, 0.18516877, 0.05427481, 0.0038433697, 0.00037794, 4.6405244e-06, -1.2967496e-08}
	erfQ = []float32{1, 0.49743497, 0.11391096, 0.015443727, 0.0013040667, 6.269337e-05}

	geluP = []float32{0.5, 0.43849736, 0.18338534, 0.040683925, 0.0041238545}
	geluQ = []float32{1, 1.6748798, 1.2031265, 0.4698672, 0.10198586, 0.010336852}
)

const (
	erfHigh      = 3.95
	geluHigh     = 14.5
	geluTanhHigh = 11
	geluTanhA    = 2.302208198144325
	geluTanhB    = 0.10294323958002349
	round64      = 0x1.8p52
	ln2          = 0x1.62e43p-1
)

func erf(x vec) vec {
	z := min(constant(erfHigh), abs(x))
	u := mul(z, z)
	uu := mul(u, u)
	t := div(mul(pairs(u, uu, erfP), z), pairs(u, uu, erfQ))
	t = min(constant(1), t)
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
	z := min(constant(geluHigh), abs(x))
	r, k := halfSquare(z, 127+64)
	e := mul(mul(add(expm1(r), num(1)), power(k)), poly(z, geluP))
	return lessTail(x, z, div(e, poly(z, geluQ)))
}

func lessTail(x, z, tail vec) vec {
	m := max(load(words(signBit)), x) // -0 for negative numbers
	y := sub(m, mul(mul(z, tail), num(twoNeg64)))
	return or(y, cmp(equal, x, num(inf(-1))))
}

func geluTanh(x vec) vec {
	z := min(constant(geluTanhHigh), abs(x))
	half := func(x reg.Register) (r reg.VecVirtual, k vec) {
		d := YMM()
		VCVTPS2PD(x, d)
		w := mul64(sub64(mul64(mul64(d, d), num64(-geluTanhB)), num64(geluTanhA)), d)
		k = add64(w, num64(round64+127+64))
		n := sub64(k, num64(round64+127+64))
		r = XMM()
		VCVTPD2PSY(sub64(w, n), r)
		return r, k
	}
	upper := XMM()
	VEXTRACTF128(U8(1), z, upper)
	r0, k0 := half(z.AsX())
	r1, k1 := half(upper)
	r := YMM()
	VINSERTF128(U8(1), r1, r0.AsY(), r)
	r = mul(r, num(ln2))
	// The low words of k0 and k1: the shuffle takes 0 1 4 5 and 2 3 6 7.
	k := YMM()
	VSHUFPS(U8(0x88), k1, k0, k)
	VPERMQ(U8(0xd8), k, k)
	e := mul(add(expm1(r), num(1)), power(k))
	return lessTail(x, z, div(e, add(mul(e, num(twoNeg64)), num(1))))
}
