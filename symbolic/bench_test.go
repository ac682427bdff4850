package symbolic_test

import (
	"testing"

	"memopt/symbolic"
)

// sink keeps results from being optimised away.
var sink symbolic.Expr

func BenchmarkOperation(b *testing.B) {
	batch, seq := symbolic.Sym("batch"), symbolic.Sym("seq")
	mono := batch.Mul(seq).Mul(symbolic.Const(1024))
	sum := mono.Add(batch).Add(symbolic.Const(1))
	four := symbolic.Const(4)
	for _, bb := range []struct {
		name string
		f    func() symbolic.Expr
	}{
		{"const*const", func() symbolic.Expr { return four.Mul(four) }},
		{"const+const", func() symbolic.Expr { return four.Add(four) }},
		{"mono*const", func() symbolic.Expr { return mono.Mul(four) }},
		{"mono*sym", func() symbolic.Expr { return mono.Mul(seq) }},
		{"mono+mono", func() symbolic.Expr { return mono.Add(mono) }},
		{"sum+mono", func() symbolic.Expr { return sum.Add(mono) }},
		{"sum*sum", func() symbolic.Expr { return sum.Mul(sum) }},
		{"floor(sum÷const)", func() symbolic.Expr { return sum.FloorDiv(four) }},
		{"floor(mono÷mono)", func() symbolic.Expr { return mono.FloorDiv(batch) }},
		{"max", func() symbolic.Expr { return symbolic.Max(batch, seq) }},
		{"sym", func() symbolic.Expr { return symbolic.Sym("batch") }},
	} {
		b.Run("op="+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = bb.f()
			}
		})
	}
}

func BenchmarkEval(b *testing.B) {
	e := symbolic.MustParse("1024*batch*seq**2 + 64*batch*seq + floor(seq/8)")
	env := symbolic.Env{"batch": 8, "seq": 512}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Eval(env); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	x, y := symbolic.MustParse("1024*batch*seq**2 + 64*batch*seq"), symbolic.MustParse("batch*seq")
	for b.Loop() {
		if symbolic.Compare(x, y, nil) != symbolic.Greater {
			b.Fatal("not greater")
		}
	}
}

func BenchmarkString(b *testing.B) {
	e := symbolic.MustParse("1024*batch*seq**2 + 64*batch*seq + floor(seq/8)")
	b.ReportAllocs()
	for b.Loop() {
		_ = e.String()
	}
}
