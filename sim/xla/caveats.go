package xla

import "fmt"

// Caveats says in a line each why the memory of one device at run time is another than the program's: it was written
// before a pass of XLA that changes sizes.
func (p *Program) Caveats() (out []string) {
	m := p.Read
	if m.IsWhole() {
		out = append(out, fmt.Sprintf("was written before the partitioner: sizes are those of all %d devices "+
			"together; a compiled program has those of one", m.Devices()))
	}
	if isEarly(m) {
		out = append(out, "was written before XLA's optimizations: fusions are guessed by rules and workspaces of "+
			"kernels do not count, so that the compiled program has another peak")
	}
	return out
}
