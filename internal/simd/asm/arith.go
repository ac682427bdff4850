package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func arith() {
	binary("add", func(x, y vec) vec { return add(x, y) })
	binary("sub", func(x, y vec) vec { return sub(x, y) })
	binary("mul", func(x, y vec) vec { return mul(x, y) })
	binary("div", func(x, y vec) vec { return div(x, y) })
	// For two zeros max and min take the second operand: both orders are computed and the signs
	// combined. The patterns of equal numbers that are not zero are the same.
	binary("maxOf", func(x, y vec) vec {
		return or(and(max(x, y), max(y, x)), cmp(unordered, x, y).v)
	})
	binary("minOf", func(x, y vec) vec {
		return or(or(min(x, y), min(y, x)), cmp(unordered, x, y).v)
	})

	scalar := func(name string, f func(x, s vec) vec) {
		each(name, "dst, a *float32, n int, s float32", []string{"a"}, []string{"s"}, "dst", 4,
			func(a *args, x []vec) vec { return f(x[0], a.scalar[0]) })
	}
	scalar("addScalar", func(x, s vec) vec { return add(x, s) })
	scalar("mulScalar", func(x, s vec) vec { return mul(x, s) })
	each("scaleShift", "dst, a *float32, n int, s, t float32", []string{"a"}, []string{"s", "t"}, "dst", 4,
		func(a *args, x []vec) vec { return add(mul(x[0], a.scalar[0]), a.scalar[1]) })
	each("mulAdd", "dst, a, b, c *float32, n int", []string{"a", "b", "c"}, nil, "dst", 4,
		func(_ *args, x []vec) vec { return add(mul(x[0], x[1]), x[2]) })
	each("axpy", "y, x *float32, n int, s float32", []string{"y", "x"}, []string{"s"}, "y", 4,
		func(a *args, x []vec) vec { return add(mul(x[1], a.scalar[0]), x[0]) })

	unary("relu", 4, func(x vec) vec {
		return add(max(zero(), x), zero()) // the sum makes -0 +0
	})
	unary("sqrt", 4, func(x vec) vec { return one(x, of2(VSQRTPS)) })
}

func sums() {
	reduce("sum", "a *float32, n int", "", []string{"a"}, nil,
		func(_ *args, x []vec) vec { return x[0] })
	reduce("sumAbs", "a *float32, n int", "", []string{"a"}, nil,
		func(_ *args, x []vec) vec { return abs(x[0]) })
	reduce("dot", "a, b *float32, n int", "", []string{"a", "b"}, nil,
		func(_ *args, x []vec) vec { return mul(x[0], x[1]) })
	reduce("sumSquares", "a *float32, n int, m float32", "", []string{"a"}, []string{"m"},
		func(a *args, x []vec) vec { d := sub(x[0], a.scalar[0]); return mul(d, d) })
	maximum()
}

func expSum() {
	reduce("expSum", "dst, a *float32, n int, m float32", "dst", []string{"a"}, []string{"m"},
		func(a *args, x []vec) vec { return exp(sub(x[0], a.scalar[0])) })
}

// maximum writes max, of a slice that is not empty. Lanes that saw NaN are all ones in seen.
func maximum() {
	function("max", "a *float32, n int) float32")
	a := loadArgs("", []string{"a"}, nil)
	i := GP64()
	XORQ(i, i)
	first := YMM()
	VBROADCASTSS(Mem{Base: a.src[0]}, first)
	acc, seen := vec{YMM(), YMM()}, vec{YMM(), YMM()}
	for u := range acc {
		VMOVAPS(first, acc[u])
		VXORPS(seen[u], seen[u], seen[u])
	}
	step := func(x vec) {
		nan, p, q := cmp(unordered, x, x).v, max(x, acc), max(acc, x)
		for u := range acc {
			VORPS(nan[u], seen[u], seen[u])
			VANDPS(p[u], q[u], acc[u])
		}
	}
	loop("sixteen", 16, i, a.n, func() { step(loadGroup(a.src[0], i, 2)) })
	TESTQ(a.n, a.n)
	JE(LabelRef("done"))
	masks := tailMasks(a.n, 2)
	step(blend(vec{first}, loadTail(a.src[0], i, masks), masks))
	Label("done")
	acc = or(acc, seen)
	low, high := vec{acc[0]}, vec{acc[1]}
	m := or(and(max(low, high), max(high, low)), cmp(unordered, low, high).v)
	fold(m[0], func(a, b, d reg.VecVirtual) {
		p, q, nan := XMM(), XMM(), XMM()
		VMAXPS(a, b, p)
		VMAXPS(b, a, q)
		VCMPPS(U8(unordered), a, b, nan)
		VANDPS(p, q, d)
		VORPS(nan, d, d)
	})
}

// inf returns infinity.
func inf(sign int) float32 { return float32(math.Inf(sign)) }
