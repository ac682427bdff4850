package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// instructionRule: vectors of bytes, whose lengths the file states.
func instructionRule(c *Ctx) {
	for i := range c.Node.Outputs {
		c.OutTensor(i, graph.Uint8, graph.Shape{Ranked: true, Dims: []symbolic.Expr{symbolic.Unknown()}})
	}
}

// instructionFLOPs are those that the attribute says.
func instructionFLOPs(c *Ctx) symbolic.Expr { return symbolic.Const(max(0, c.Node.Int(FLOPsAttr, 0))) }

// instruction is a row of instructions with any opcode.
func instruction(k graph.Kind, name, in string, class RecomputeClass, opts ...option) Info {
	any := func(r *Info) { r.AnyName = true }
	return define(k, name, versions(1), Arity{0, -1}, Arity{0, -1}, class, instructionRule,
		append([]option{domain(in), any, flops(instructionFLOPs)}, opts...)...)
}
