package xla

import (
	"fmt"
	"strings"
)

// Caveats says in a line each why the memory of one device at run time is another than the program's: it was written
// before a pass of XLA that changes sizes.
func (p *Program) Caveats() (out []string) {
	m := p.Module
	if m.IsWhole() {
		out = append(out, fmt.Sprintf("was written before the partitioner: sizes are those of all %d devices "+
			"together; a compiled program has those of one", m.Devices()))
	}
	if !m.Scheduled && !p.hasFusions() {
		out = append(out, "was written before XLA's optimizations: values that fusions will not store count, and "+
			"workspaces do not, so that the compiled program has another peak")
	}
	return out
}

// hasFusions reports whether the compiler has fused instructions.
func (p *Program) hasFusions() bool {
	for _, c := range p.Module.Computations {
		for i := range c.Instructions {
			if op := c.Instructions[i].Opcode; op == "fusion" || strings.HasPrefix(op, "fusion-") {
				return true
			}
		}
	}
	return false
}
