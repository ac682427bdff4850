package xla

import (
	"strings"

	"memopt/graph/hlo"
)

// hostSpace is the memory space of the host (xla/layout.h, Layout::kHostMemorySpace).
const hostSpace = 5

// move is the direction of a custom-call that moves its operand to another memory.
type move uint8

const (
	noMove move = iota
	toHost
	toDevice
)

// moveOf reads the custom-calls that programs have before XLA's host offloader runs: its own annotations
// (xla/service/memory_annotations.h), and those of JAX (ConvertMemoryPlacementToInternalAnnotations).
func moveOf(in *hlo.Instruction) move {
	if in.Opcode != "custom-call" || len(in.Operands) != 1 {
		return noMove
	}
	switch {
	case in.Target == "MoveToHost":
		return toHost
	case in.Target == "MoveToDevice":
		return toDevice
	case in.Target != "annotate_device_placement":
		return noMove
	case strings.HasSuffix(in.Placement, "host"): // pinned_host, unpinned_host
		return toHost
	case in.Placement == "device":
		return toDevice
	}
	return noMove
}

// hasMoves reports whether a module has a custom-call that moves a value.
func hasMoves(m *hlo.Module) bool {
	for _, c := range m.Computations {
		for i := range c.Instructions {
			if moveOf(&c.Instructions[i]) != noMove {
				return true
			}
		}
	}
	return false
}

// carries are the opcodes whose results stay on the host where an operand lies there: they move elements and compute
// none (HostOffloader::WalkDownHostMemoryOffloadPaths).
var carries = map[string]bool{"bitcast": true, "copy": true, "dynamic-slice": true, "dynamic-update-slice": true,
	"opt-barrier": true, "reshape": true, "slice": true, "transpose": true}

// findHost marks the buffers that lie on the host: those whose layout says so, those that a step moves there, and
// those that steps make of them without arithmetic. A value that is written into another one on the way takes that one
// along, as loops stack the values of their turns. Loops hand memory to steps that stand before, so that it repeats
// until no more is found.
func (p *Program) findHost(moves bool) {
	for place, host := range p.layout.host {
		if host {
			p.Buffers[p.buffer[place]].Host = true
		}
	}
	for found := moves; found; {
		found = false
		for s := range p.Steps {
			step := &p.Steps[s]
			in := step.In()
			if moveOf(in) != toHost && !(carries[in.Opcode] && p.readsHost(step)) {
				continue
			}
			p.each(step, step.Instruction, func(i int32) {
				if b := &p.Buffers[i]; !b.Host && !b.table {
					b.Host, found = true, true
				}
			})
		}
	}
}

// readsHost reports whether the data that a step reads lie on the host: those of operand 0 or, of an update, of
// operand 1.
func (p *Program) readsHost(step *Step) bool {
	in := step.In()
	for k, o := range in.Operands[:min(len(in.Operands), 2)] {
		if k == 0 || in.Opcode == "dynamic-update-slice" {
			if p.Buffers[p.buffer[step.frame.first[o]]].Host {
				return true
			}
		}
	}
	return false
}

// onDevice lists the steps that move a value to the device that is there already: XLA removes them.
func (p *Program) onDevice() map[int32]bool {
	out := map[int32]bool{}
	for s := range p.Steps {
		step := &p.Steps[s]
		if in := step.In(); moveOf(in) == toDevice && !p.Buffers[p.buffer[step.frame.first[in.Operands[0]]]].Host {
			out[int32(s)] = true
		}
	}
	return out
}

// hostBytes adds up the memory of the host at its fullest step: that of arguments and results throughout.
func (p *Program) hostBytes() int64 {
	change := make([]int64, len(p.Steps)+2)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		switch {
		case !b.Host || b.Role == Constant:
		case b.Role == Temporary:
			for _, s := range b.Spans {
				change[s.From] += b.Bytes
				change[s.To+1] -= b.Bytes
			}
		default:
			change[0] += b.Bytes
		}
	}
	most, used := int64(0), int64(0)
	for _, d := range change {
		used += d
		most = max(most, used)
	}
	return most
}
