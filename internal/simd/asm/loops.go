package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// args are the arguments that most functions share.
type args struct {
	dst    reg.Register
	src    []reg.Register
	n      reg.GPVirtual
	scalar []vec // broadcast
}

func loadArgs(dst string, src []string, scalars []string) *args {
	a := &args{}
	if dst != "" {
		a.dst = Load(Param(dst), GP64())
	}
	for _, s := range src {
		a.src = append(a.src, Load(Param(s), GP64()))
	}
	a.n = Load(Param("n"), GP64()).(reg.GPVirtual)
	for _, s := range scalars {
		addr, err := Param(s).Resolve()
		if err != nil {
			panic(err)
		}
		v := register()
		VBROADCASTSS(addr.Addr, v)
		a.scalar = append(a.scalar, vec{v})
	}
	return a
}

// at is vector u from element i of a slice.
func at(p reg.Register, i reg.Register, u int) Mem {
	return Mem{Base: p, Index: i, Scale: 4, Disp: 4 * lanes() * u}
}

// loop writes: for n-i >= lanes { body; i += lanes }. Afterwards left is n-i.
func loop(label string, lanes int, i, left reg.GPVirtual, body func()) {
	JMP(LabelRef(label + "Test"))
	Label(label)
	body()
	ADDQ(Imm(uint64(lanes)), i)
	SUBQ(Imm(uint64(lanes)), left)
	Label(label + "Test")
	CMPQ(left, Imm(uint64(lanes)))
	JGE(LabelRef(label))
}

// loadGroup loads a group of vectors from element i on, and store writes one.
func loadGroup(p, i reg.Register, count int) vec {
	var x vec
	for u := range count {
		x = append(x, load(at(p, i, u))...)
	}
	return x
}

func store(x vec, p, i reg.Register) {
	for u, r := range x {
		VMOVUPS(r, at(p, i, u))
	}
}

// tailMasks returns masks of the first left lanes of count registers, which have more.
func tailMasks(left reg.GPVirtual, count int) mask {
	var m mask
	if wide {
		bits := GP64()
		MOVQ(I64(-1), bits)
		BZHIQ(left, bits, bits)
		for range count {
			k := K()
			KMOVW(bits.As32(), k)
			SHRQ(U8(16), bits)
			m.k = append(m.k, k)
		}
		return m
	}
	table, words := GP64(), GP64()
	LEAQ(tailTable(), table)
	MOVQ(left, words)
	NEGQ(words)
	for u := range count {
		m.v = append(m.v, load(Mem{Base: table, Index: words, Scale: 4, Disp: 64 + 32*u})...)
	}
	return m
}

// loadTail loads the lanes of the masks, and zeros; storeTail writes only those lanes.
func loadTail(p, i reg.Register, m mask) vec {
	var x vec
	for u, k := range m.k {
		d := register()
		VMOVUPS_Z(at(p, i, u), k, d)
		x = append(x, d)
	}
	for u, v := range m.v {
		d := register()
		VMASKMOVPS(at(p, i, u), v, d)
		x = append(x, d)
	}
	return x
}

func storeTail(x vec, m mask, p, i reg.Register) {
	for u, k := range m.k {
		VMOVUPS(x[u], k, at(p, i, u))
	}
	for u, v := range m.v {
		VMASKMOVPS(x[u], v, at(p, i, u))
	}
}

// each writes a function that maps vectors of the sources to one of dst: a group at a
// time, then one vector, then the rest under a mask.
func each(name, params string, src, scalars []string, dst string, group int, f func(a *args, x []vec) vec) {
	function(name, params+")")
	a := loadArgs(dst, src, scalars)
	i := GP64()
	XORQ(i, i)
	step := func(count int) {
		var x []vec
		for _, s := range a.src {
			x = append(x, loadGroup(s, i, count))
		}
		store(f(a, x), a.dst, i)
	}
	loop("many", lanes()*group, i, a.n, func() { step(group) })
	loop("one", lanes(), i, a.n, func() { step(1) })
	TESTQ(a.n, a.n)
	JE(LabelRef("done"))
	mask := tailMasks(a.n, 1)
	var x []vec
	for _, s := range a.src {
		x = append(x, loadTail(s, i, mask))
	}
	storeTail(f(a, x), mask, a.dst, i)
	Label("done")
	VZEROUPPER()
	RET()
}

// unary maps one slice.
func unary(name string, unroll int, f func(x vec) vec) {
	each(name, "dst, a *float32, n int", []string{"a"}, nil, "dst", unroll,
		func(_ *args, x []vec) vec { return f(x[0]) })
}

// binary maps two slices.
func binary(name string, f func(x, y vec) vec) {
	each(name, "dst, a, b *float32, n int", []string{"a", "b"}, nil, "dst", 4,
		func(_ *args, x []vec) vec { return f(x[0], x[1]) })
}

// reduce writes a function that adds to sixteen partial results, in one or two registers. term
// gives the addend for a vector of every source; it may write to dst at vector u. Lanes beyond the
// end add zero, which changes no partial result: these are never -0.
func reduce(name, params, dst string, src, scalars []string, term func(a *args, x []vec) vec) {
	function(name, params+") float32")
	a := loadArgs(dst, src, scalars)
	i := GP64()
	XORQ(i, i)
	var acc vec
	for range 16 / lanes() {
		acc = append(acc, zero()...)
	}
	accumulate := func(t vec) {
		for u, r := range t {
			s := acc[u%len(acc)]
			VADDPS(r, s, s)
		}
	}
	step := func(count int) {
		var x []vec
		for _, p := range a.src {
			x = append(x, loadGroup(p, i, count))
		}
		t := term(a, x)
		if dst != "" {
			store(t, a.dst, i)
		}
		accumulate(t)
	}
	if wide {
		loop("many", 64, i, a.n, func() { step(4) })
	}
	loop("sixteen", 16, i, a.n, func() { step(len(acc)) })
	TESTQ(a.n, a.n)
	JE(LabelRef("done"))
	masks := tailMasks(a.n, len(acc))
	var x []vec
	for _, p := range a.src {
		x = append(x, loadTail(p, i, masks))
	}
	t := term(a, x)
	if dst != "" {
		storeTail(t, masks, a.dst, i)
	}
	accumulate(keep(t, masks))
	Label("done")
	half := acc[0]
	if wide {
		upper := YMM()
		VEXTRACTF64X4(U8(1), acc[0], upper)
		half = acc[0].AsY().(reg.VecVirtual)
		VADDPS(upper, half, half)
	} else {
		VADDPS(acc[1], half, half)
	}
	fold(half, func(a, b, d reg.VecVirtual) { VADDPS(b, a, d) })
}

// fold combines the lanes of v in pairs, lower half with upper half, and returns the result.
func fold(v reg.VecVirtual, combine func(a, b, d reg.VecVirtual)) {
	high := XMM()
	VEXTRACTF128(U8(1), v, high)
	x := v.AsX().(reg.VecVirtual)
	combine(x, high, x)
	VMOVHLPS(x, high, high)
	combine(x, high, x)
	VMOVSHDUP(x, high)
	combine(x, high, x)
	VZEROUPPER() // keeps the lower quarter, and spares the store the change of state
	Store(x, ReturnIndex(0))
	RET()
}
