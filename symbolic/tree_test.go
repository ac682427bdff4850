package symbolic_test

import (
	"fmt"
	"math/big"
	"strings"

	"memopt/symbolic"

	"pgregory.net/rapid"
)

// tree is an expression as it was built, operation by operation. Evaluating it step by step in
// big integers is the oracle for everything that the package simplifies.
type tree struct {
	op   string // "const", "sym", or an operation
	c    int64
	name string
	args []*tree
}

var names = []string{"a", "b", "n", "seq", "x y", "S"}

// trees draws trees of up to size operations whose operators are among ops.
func trees(size int, ops ...string) *rapid.Generator[*tree] {
	return rapid.Custom(func(t *rapid.T) *tree { return drawTree(t, rapid.IntRange(0, size).Draw(t, "size"), ops) })
}

func drawTree(t *rapid.T, size int, ops []string) *tree {
	if size == 0 {
		if rapid.Bool().Draw(t, "leaf") {
			return &tree{op: "sym", name: rapid.SampledFrom(names).Draw(t, "name")}
		}
		return &tree{op: "const", c: drawConst(t)}
	}
	op := rapid.SampledFrom(ops).Draw(t, "op")
	switch op {
	case "neg":
		return &tree{op: op, args: []*tree{drawTree(t, size-1, ops)}}
	case "pow":
		return &tree{op: op, c: rapid.Int64Range(0, 4).Draw(t, "n"), args: []*tree{drawTree(t, size-1, ops)}}
	}
	left := rapid.IntRange(0, size-1).Draw(t, "left")
	return &tree{op: op, args: []*tree{drawTree(t, left, ops), drawTree(t, size-1-left, ops)}}
}

func drawConst(t *rapid.T) int64 {
	switch rapid.IntRange(0, 9).Draw(t, "const kind") {
	case 0:
		return rapid.Int64().Draw(t, "const")
	case 1:
		return rapid.SampledFrom([]int64{-1 << 63, 1<<63 - 1, 1 << 62, -1, 0}).Draw(t, "const")
	}
	return rapid.Int64Range(-12, 12).Draw(t, "const")
}

var allOps = []string{"add", "add", "sub", "mul", "mul", "neg", "pow", "floor", "floor", "ceil", "mod", "min", "max"}

// build computes the tree with the package.
func (t *tree) build() symbolic.Expr {
	args := make([]symbolic.Expr, len(t.args))
	for i, a := range t.args {
		args[i] = a.build()
	}
	switch t.op {
	case "const":
		return symbolic.Const(t.c)
	case "sym":
		return symbolic.Sym(t.name)
	case "add":
		return args[0].Add(args[1])
	case "sub":
		return args[0].Sub(args[1])
	case "mul":
		return args[0].Mul(args[1])
	case "neg":
		return args[0].Neg()
	case "pow":
		return args[0].Pow(uint(t.c))
	case "floor":
		return args[0].FloorDiv(args[1])
	case "ceil":
		return args[0].CeilDiv(args[1])
	case "mod":
		return args[0].Mod(args[1])
	case "min":
		return symbolic.Min(args[0], args[1])
	case "max":
		return symbolic.Max(args[0], args[1])
	}
	panic("no such operation: " + t.op)
}

// eval computes the tree in big integers; nil where it divides by zero.
func (t *tree) eval(env symbolic.Env) *big.Int {
	args := make([]*big.Int, len(t.args))
	for i, a := range t.args {
		if args[i] = a.eval(env); args[i] == nil {
			return nil
		}
	}
	z := new(big.Int)
	switch t.op {
	case "const":
		return z.SetInt64(t.c)
	case "sym":
		return z.SetInt64(env[t.name])
	case "add":
		return z.Add(args[0], args[1])
	case "sub":
		return z.Sub(args[0], args[1])
	case "mul":
		return z.Mul(args[0], args[1])
	case "neg":
		return z.Neg(args[0])
	case "pow":
		return z.Exp(args[0], big.NewInt(t.c), nil)
	case "floor", "ceil", "mod":
		return divideBig(t.op, args[0], args[1])
	case "min", "max":
		if (args[0].Cmp(args[1]) < 0) == (t.op == "min") {
			return args[0]
		}
		return args[1]
	}
	panic("no such operation: " + t.op)
}

// divideBig divides by Euclid's rule (remainder ≥ 0) and corrects from there, unlike the package.
func divideBig(op string, a, b *big.Int) *big.Int {
	if b.Sign() == 0 {
		return nil
	}
	q, r := new(big.Int).DivMod(a, b, new(big.Int)) // a = q*b + r, 0 <= r < |b|
	switch {
	case op == "mod" && b.Sign() < 0 && r.Sign() != 0:
		return r.Add(r, b)
	case op == "mod":
		return r
	case op == "floor" && b.Sign() < 0 && r.Sign() != 0:
		return q.Sub(q, big.NewInt(1))
	case op == "ceil" && b.Sign() > 0 && r.Sign() != 0:
		return q.Add(q, big.NewInt(1))
	}
	return q
}

// String shows the tree as nested calls.
func (t *tree) String() string {
	switch t.op {
	case "const":
		return fmt.Sprint(t.c)
	case "sym":
		return t.name
	case "pow":
		return fmt.Sprintf("pow(%v, %d)", t.args[0], t.c)
	}
	parts := make([]string, len(t.args))
	for i, a := range t.args {
		parts[i] = a.String()
	}
	return t.op + "(" + strings.Join(parts, ", ") + ")"
}

// drawEnv binds every name to a value that is mostly small, and from lo on.
func drawEnv(t *rapid.T, lo int64) symbolic.Env {
	env := symbolic.Env{}
	for _, name := range names {
		if rapid.IntRange(0, 19).Draw(t, "large") == 0 {
			env[name] = rapid.Int64Range(lo, 1<<63-1).Draw(t, name)
		} else {
			env[name] = rapid.Int64Range(lo, max(lo, 0)+14).Draw(t, name)
		}
	}
	return env
}
