package torch

import "memopt/sim/allocator"

// Events are the requests of the last run, which had so many checkpoints, to an allocator: a block for each storage
// that it makes, from the step that makes it to the end of its life, and for workspaces. They do not give back the
// storages that the program keeps: gradients of parameters, and outputs. Steps are numbered from 0, blocks from next
// on; end is one past the last of them.
func (s *Simulator) Events(checkpoints int, next int32) (events []allocator.Event, kept []int32, end int32) {
	ends := make([][]int32, len(s.seq))
	take := func(at int, bytes int64, until int32) {
		events = append(events, allocator.Event{Block: next, Bytes: bytes, Step: int32(at)})
		if until < 0 {
			kept = append(kept, next)
		} else {
			ends[until] = append(ends[until], next)
		}
		next++
	}
	states := map[int32][]int32{}
	for c := range checkpoints {
		if s.state > 0 && s.final[c] >= 0 {
			at := s.begins(int32(c))
			states[at] = append(states[at], s.final[c])
		}
	}
	for at, pl := range s.seq {
		for _, until := range states[int32(at)] {
			take(at, s.state, until)
		}
		step := &s.p.Steps[pl.step]
		for _, id := range step.Makes {
			until := s.ends(id, pl, at)
			if s.p.Storages[id].Kept && pl.again < 0 {
				until = -1
			}
			if n := s.p.Storages[id].Bytes; n > 0 {
				take(at, n, until)
			}
		}
		if step.Work > 0 {
			take(at, step.Work, int32(at))
		}
		for _, b := range ends[at] {
			events = append(events, allocator.Event{Block: b, Bytes: allocator.Free, Step: int32(at)})
		}
	}
	return events, kept, next
}

// HeldSizes are the bytes of the storages that are there before the step and after it.
func (p *Program) HeldSizes() (list []int64) {
	for _, x := range p.Storages {
		if x.Held && x.Bytes > 0 {
			list = append(list, x.Bytes)
		}
	}
	return list
}

// GradientSizes are the bytes of the gradients that the backward half leaves, in the order of their making.
func (p *Program) GradientSizes() (list []int64) {
	for i := range p.Steps[p.Backward:] {
		for _, id := range p.Steps[p.Backward+i].Makes {
			if p.Storages[id].Kept {
				list = append(list, p.Storages[id].Bytes)
			}
		}
	}
	return list
}
