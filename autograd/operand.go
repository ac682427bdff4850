package autograd

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// Operand describes one input of an operator besides its rule. Inputs that cannot hold
// floats by the operator's schema, indices or shapes, have no gradient and need no entry.
type Operand struct {
	Slot int
	// None is the mathematical reason why an input that may hold floats has no gradient: the output is
	// constant between the places where it jumps, as that of Ceil, for example, or does not depend on
	// the input's elements. "" means that it has a gradient.
	None string
	// Why says why the rule does not make a gradient that exists. Where it is wanted, the model
	// cannot be differentiated. "" means that the rule makes it.
	Why string
	// Setting says that the input sets how the operator works: a bound, a scale, a table of cosines. It
	// has a gradient, and initializers that are only settings are parameters where they are named, but
	// not by default.
	Setting bool
}

// Operand returns the entry of an input; the zero value with its slot if it has no entry.
func (r *Row) Operand(slot int) Operand {
	for _, o := range r.Operands {
		if o.Slot == slot {
			return o
		}
	}
	return Operand{Slot: slot}
}

// settings lists inputs that have a gradient, but are no parameters by default.
func settings(slots ...int) []Operand {
	var out []Operand
	for _, slot := range slots {
		out = append(out, Operand{Slot: slot, Setting: true})
	}
	return out
}

// differentiable reports whether a gradient can flow into a node's input.
func (j *joint) differentiable(n *graph.Node, slot int) bool {
	v, row := n.Input(slot), Of(n.Kind)
	if v == None || row.None != "" || row.Operand(slot).None != "" {
		return false
	}
	info := op.Of(n.Kind)
	switch t := j.g.Values[v].Type; {
	case j.isQuantized(v): // not as an index
		return info.MayHold(slot, graph.Int8) || info.MayHold(slot, graph.Uint8)
	case t.Form != graph.FormSequence && t.Form != graph.FormOptional && t.DType == graph.Undefined:
		return info.MayHold(slot, graph.Float32)
	default:
		return carriesFloat(t)
	}
}

// trainable is differentiable without the inputs that are settings.
func (j *joint) trainable(n *graph.Node, slot int) bool {
	return j.differentiable(n, slot) && !Of(n.Kind).Operand(slot).Setting
}

// carries reports whether a gradient can flow through a value: one that may hold floats, or a
// quantized one.
func (j *joint) carries(v Value) bool { return carriesFloat(j.g.Values[v].Type) || j.isQuantized(v) }

// refuseMissing ends the rule if the gradient of an input is wanted that the rule does not make.
func (j *joint) refuseMissing(c *Ctx) {
	row := Of(c.Node.Kind)
	for _, o := range row.Operands {
		if o.Why != "" && c.Wants(o.Slot) {
			panic(failure{j.noRule(c.Node, o.Slot, o.Why)})
		}
	}
	if row.Quantized {
		return
	}
	for slot, v := range c.Node.Inputs {
		if c.Wants(slot) && j.isQuantized(v) {
			panic(failure{j.noRule(c.Node, slot, whyQuantized)})
		}
	}
	for _, v := range c.Node.Captures() {
		if j.isQuantized(v) && j.requires[v] {
			panic(failure{&NoRule{Node: j.labelOf(c.Node), Op: c.Node.Op, Value: j.g.ValueName(v), Why: whyQuantized}})
		}
	}
}

// whyQuantized is why operators without Row.Quantized make no gradient of quantized numbers.
const whyQuantized = "a gradient through quantized numbers is written for QuantizeLinear, DequantizeLinear, " +
	"Cast, and operators that change their shape"

// noRule is the error about an input whose gradient is wanted and not made.
func (j *joint) noRule(n *graph.Node, slot int, why string) *NoRule {
	return &NoRule{Node: j.labelOf(n), Op: n.Op, Value: j.g.ValueName(n.Input(slot)), Operand: fmt.Sprint(slot),
		Why: why}
}

// account notes which gradients a rule has read and made.
type account struct {
	read  []int // outputs
	given []int // inputs
}

// refuseGaps ends the rule if it has left out the gradient of an output, or has not given one to an
// input, so that no gradient is a sum that lacks a term.
func (j *joint) refuseGaps(c *Ctx) {
	if op.Of(c.Node.Kind).Control != op.NoControl {
		return // no result depends on a state without a gradient
	}
	for slot, v := range c.Node.Outputs {
		if v != None && j.hasGrad(v) && !slices.Contains(c.account.read, slot) {
			panic(failure{&NoRule{Node: j.labelOf(c.Node), Op: c.Node.Op, Value: j.firstWanted(c.Node),
				Why: fmt.Sprintf("the loss depends on output %d (%q), whose gradient the rule does not take",
					slot, j.g.ValueName(v))}})
		}
	}
	for slot := range c.Node.Inputs {
		if c.Wants(slot) && !slices.Contains(c.account.given, slot) {
			panic(failure{j.noRule(c.Node, slot, "the rule makes no gradient of this input")})
		}
	}
}
