package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// halves writes the conversions of n elements, a multiple of 8.
func halves() {
	convert("float16ToFloat32", "dst *float32, src *uint16, n int)", func(dst, src reg.Register, i reg.Register) {
		y := YMM()
		VCVTPH2PS(Mem{Base: src, Index: i, Scale: 2}, y)
		VMOVUPS(y, at(dst, i, 0))
	})
	convert("float32ToFloat16", "dst *uint16, src *float32, n int)", func(dst, src reg.Register, i reg.Register) {
		VCVTPS2PH(U8(0), load(at(src, i, 0))[0], Mem{Base: dst, Index: i, Scale: 2}) // 0: to nearest even
	})
	convert("bfloat16ToFloat32", "dst *float32, src *uint16, n int)", func(dst, src reg.Register, i reg.Register) {
		y := YMM()
		VPMOVZXWD(Mem{Base: src, Index: i, Scale: 2}, y)
		VMOVUPS(shiftLeft(vec{y}, 16)[0], at(dst, i, 0))
	})
	convert("float32ToBFloat16", "dst *uint16, src *float32, n int)", func(dst, src reg.Register, i reg.Register) {
		x := load(at(src, i, 0))
		upper := shiftRight(x, 16)
		odd := and(upper, words(1))
		y := shiftRight(addInt(addInt(x, words(0x7fff)), odd), 16)
		y = blend(y, or(upper, words(0x40)), cmp(unordered, x, x))
		high, low := XMM(), y[0].AsX().(reg.VecVirtual)
		VEXTRACTI128(U8(1), y[0], high)
		VPACKUSDW(high, low, low)
		VMOVDQU(low, Mem{Base: dst, Index: i, Scale: 2})
	})
}

func convert(name, signature string, body func(dst, src reg.Register, i reg.Register)) {
	function(name, signature)
	a := loadArgs("dst", []string{"src"}, nil)
	i := GP64()
	XORQ(i, i)
	loop("eight", 8, i, a.n, func() { body(a.dst, a.src[0], i) })
	VZEROUPPER()
	RET()
}
