package main

import . "github.com/mmcloughlin/avo/build"

// The functions of this file have the names of those in the package simd that they
// follow operation by operation, and the constants are the same.

const (
	log2e    = 0x1.715476p+0
	ln2High  = 0.693359375
	ln2Low   = -0x1.bd0106p-13
	round    = 0x1.8p23
	twoNeg64 = 0x1p-64
	expHigh  = 89
	expLow   = -104
)

var expC = []float32{0.49999994, 0.1666652, 0.041668408, 0.008368899, 0.0013814218}

// poly is the polynomial of the coefficients, lowest first, by Horner's rule.
func poly(x vec, c []float32) vec {
	p := mul(x, num(c[len(c)-1]))
	for i := len(c) - 2; i > 0; i-- {
		p = mul(add(p, num(c[i])), x)
	}
	return add(p, num(c[0]))
}

// all is a register of equal numbers, where an instruction wants one.
func all(x float32) vec { return load(num(x)) }

func split(x vec, bias float32) (r, k vec) {
	k = add(mul(x, num(log2e)), num(round+bias))
	n := sub(k, num(round+bias))
	r = sub(x, mul(n, num(ln2High)))
	r = sub(r, mul(n, num(ln2Low)))
	return r, k
}

func power(k vec) vec { return shiftLeft(k, 23) }

func expm1(r vec) vec { return add(mul(mul(r, r), poly(r, expC)), r) }

func exp(x vec) vec {
	c := max(all(expLow), x)
	c = min(all(expHigh), c)
	r, k := split(c, 126)
	// Far below, as where a mask has put the least number, the result is 0 by rounding; from 0 on
	// the way the processor gets there without its slow path for subnormal numbers.
	y := keep(add(expm1(r), num(1)), cmp(notLess, x, all(expLow)))
	if wide { // one instruction that rounds once, as the two products do
		return two(y, sub(k, num(round+126)), of3(VSCALEFPS))
	}
	t := shiftRight(and(x, words(signBit)), 2)
	s1 := addInt(shiftLeft(k, 23), t)
	s2 := subInt(load(words(0x40000000)), t)
	return mul(mul(y, s1), s2)
}

func sigmoid(x vec) vec {
	z := min(all(-expLow), abs(x))
	r, k := split(or(z, words(signBit)), 127+64)
	e := mul(mul(add(expm1(r), num(1)), power(k)), num(twoNeg64))
	return div(blend(all(1), e, negative(x)), add(e, num(1)))
}

func tanh(x vec) vec {
	z := min(all(10), abs(x))
	r, k := split(add(z, z), 127)
	s := power(k)
	m := add(mul(expm1(r), s), sub(s, num(1)))
	t := div(m, add(m, num(2)))
	return or(t, and(x, words(signBit)))
}

var logC = []float32{0.33333313, -0.25000009, 0.2000212, -0.16667996, 0.14219552, -0.12405589,
	0.11888162, -0.11675653, 0.06746642}

const (
	sqrtHalf  = 0x3f3504f3
	minNormal = 0x1p-126
)

func logarithm(x vec) vec {
	small := cmp(less, x, num(minNormal))
	v := blend(x, mul(x, num(0x1p23)), small)
	bias := keep(all(23), small)
	i := subInt(v, words(sqrtHalf))
	n := sub(one(shiftSigned(i, 23), of2(VCVTDQ2PS)), bias)
	f := sub(addInt(and(i, words(0x7fffff)), words(sqrtHalf)), num(1))
	p := poly(f, logC)
	ff := mul(f, f)
	y := add(mul(mul(ff, f), p), mul(n, num(ln2Low)))
	y = sub(y, mul(ff, num(0.5)))
	y = add(add(f, y), mul(n, num(ln2High)))
	y = orNaN(y, cmp(less, x, num(0)))
	y = blend(y, num(inf(-1)), cmp(equal, x, num(0)))
	return blend(y, x, cmp(notLess, x, num(inf(1))))
}
