package xla

import (
	"math"
	"slices"
	"strings"

	"memopt/graph/hlo"
)

// once are the opcodes that run no second time: they speak to other devices or to the host, run other computations
// step by step, or are unknown code.
var once = map[string]bool{"after-all": true, "all-gather": true, "all-reduce": true, "all-to-all": true,
	"async-start": true, "call": true, "collective-broadcast": true, "collective-permute": true, "conditional": true,
	"custom-call": true, "infeed": true, "outfeed": true, "partition-id": true, "ragged-all-to-all": true,
	"recv": true, "reduce-scatter": true, "replica-id": true, "send": true, "while": true}

// forwards are the opcodes that hand values on and make no data but tables of addresses.
var forwards = map[string]bool{"bitcast": true, "constant": true, "get-tuple-element": true, "opt-barrier": true,
	"parameter": true, "tuple": true}

// repeatable marks the steps that a plan may run a second time. Such a step is the entry's own, since a loop cannot be
// entered for one step of its body. Its opcode has no effects. It makes temporaries that no other step changes, in
// memory of their own. It may read memory that changes later, for example a donated argument, only if neither it nor a
// step that depends on it can be wanted again after that.
func (p *Program) repeatable() []bool {
	again := make([]bool, len(p.Steps))
	p.effects = map[int32]bool{}
	until := p.untouched()
	reach := make([]int32, len(p.Buffers)) // by buffer: a reader may run again before this step
	for s := len(p.Steps) - 1; s >= 0; s-- {
		step := &p.Steps[s]
		in := step.In()
		if step.frame != p.entry || forwards[in.Opcode] || p.hasEffects(in) {
			continue
		}
		latest, ok := int32(0), true
		p.each(step, step.Instruction, func(i int32) {
			b := &p.Buffers[i]
			ok = ok && b.Role == Temporary && b.Within < 0 && b.values == 1
			latest = max(latest, b.Spans[len(b.Spans)-1].To, reach[i])
		})
		read := func(visit func(i int32)) {
			for _, o := range in.Operands {
				p.each(step, o, visit)
			}
		}
		read(func(i int32) {
			if b := &p.Buffers[i]; b.Role != Constant && b.Role != Argument {
				ok = ok && until[i] >= latest && (b.values == 1 || b.Role == Donated && int32(s) <= b.Spans[0].To)
			}
		})
		if again[s] = ok; ok {
			read(func(i int32) { reach[i] = max(reach[i], latest) })
		}
	}
	return again
}

// each visits the buffers of an instruction's result.
func (p *Program) each(step *Step, instruction int32, visit func(i int32)) {
	first := step.frame.first[instruction]
	for j := range p.layout.width(&step.Computation.Instructions[instruction].Shape) {
		visit(p.buffer[first+j])
	}
}

// untouched has, by buffer, the last step that can have its first value if wanted: the one when another
// value takes its memory, for memory that several have one after the other.
func (p *Program) untouched() []int32 {
	begins := map[int32][]int32{} // by host: the first steps of all that lies there
	for i := range p.Buffers {
		b := &p.Buffers[i]
		host := int32(i)
		if b.Within >= 0 {
			host = b.Within
		} else if b.Role != Donated && b.Role != Result {
			continue
		}
		for _, s := range b.Spans {
			begins[host] = append(begins[host], s.From)
		}
	}
	for _, list := range begins {
		slices.Sort(list)
	}
	until := make([]int32, len(p.Buffers))
	for i := range p.Buffers {
		b := &p.Buffers[i]
		host := int32(i)
		if b.Within >= 0 {
			host = b.Within
		}
		until[i] = math.MaxInt32
		list := begins[host]
		at, _ := slices.BinarySearch(list, b.Spans[0].From+1)
		if at < len(list) {
			until[i] = list[at]
		}
	}
	return until
}

// hasEffects reports whether an instruction does more than to compute its result from its operands.
func (p *Program) hasEffects(in *hlo.Instruction) bool {
	if once[in.Opcode] || strings.HasPrefix(in.Opcode, "rng") || strings.HasSuffix(in.Opcode, "-start") ||
		strings.HasSuffix(in.Opcode, "-done") {
		return true
	}
	return slices.ContainsFunc(in.Called, func(k int32) bool {
		has, known := p.effects[k]
		if !known {
			has = slices.ContainsFunc(p.Module.Computations[k].Instructions, func(in hlo.Instruction) bool {
				return once[in.Opcode] || strings.HasPrefix(in.Opcode, "rng")
			})
			p.effects[k] = has
		}
		return has
	})
}
