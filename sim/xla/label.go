package xla

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"memopt/graph/hlo"
)

// Label is how reports name an instruction: by the path of its operator without that of the program, and its place in
// the source; "" where the compiler made it. For example "jvp(Net)/dot_general (train.py:69)".
func Label(in *hlo.Instruction) string {
	name := in.OpName
	if first, rest, ok := strings.Cut(name, "/"); ok && strings.HasPrefix(first, "jit(") {
		name = rest
	}
	if name != "" && in.File != "" {
		name += fmt.Sprintf(" (%s:%d)", path.Base(in.File), in.Line)
	}
	return name
}

// maxOrigins bounds the operands of operands that are followed for a name.
const maxOrigins = 8

// Label names a step. One that the compiler made has the name of the last operator in its fusion, else of the operator
// that it works on, for example "copy of jvp(Net)/add (train.py:7)", else its own in the module.
func (p *Program) Label(s int32) string {
	step := &p.Steps[s]
	at := step.Instruction
	for range maxOrigins {
		in := &step.Computation.Instructions[at]
		if name := p.ownLabel(in); name != "" {
			if at != step.Instruction {
				name = step.In().Opcode + " of " + name
			}
			return name
		}
		if len(in.Operands) == 0 {
			break
		}
		at = in.Operands[0]
	}
	return step.In().Name
}

// bufferLabel names a buffer by its maker, or where that is the compiler's by the first step with a name that has a
// value in it: the carry of a loop, for example, begins as a broadcast that the source does not have.
func (p *Program) bufferLabel(i int32) string {
	b := &p.Buffers[i]
	name := p.Label(b.Maker)
	if b.named >= 0 && name == p.Steps[b.Maker].In().Name {
		name = p.Label(b.named)
	}
	return name
}

// ownLabel is the label of an instruction, or of a fusion's body; "" without one.
func (p *Program) ownLabel(in *hlo.Instruction) string {
	name := Label(in)
	if name == "" && in.Opcode == "fusion" && len(in.Called) == 1 {
		name = p.fusedLabel(in.Called[0])
	}
	return name
}

// fusedLabel is the label of the last instruction of a fusion's body that has one.
func (p *Program) fusedLabel(k int32) string {
	name, known := p.labels[k]
	if !known {
		for _, in := range slices.Backward(p.Module.Computations[k].Instructions) {
			if name = Label(&in); name != "" {
				break
			}
		}
		p.labels[k] = name
	}
	return name
}
