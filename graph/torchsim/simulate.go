package torchsim

import "math"

// Usage is what a step takes in PyTorch with a choice of modules under torch.utils.checkpoint.
type Usage struct {
	Peak  int64 // bytes, those of parameters, buffers and inputs included
	Saved int64 // bytes that are live between the halves, without them
	// Blocks is Peak with every storage rounded up to 512 bytes and the whole to 2 MiB, as PyTorch's
	// allocator for GPUs hands out memory (c10/cuda/CUDACachingAllocator.cpp).
	Blocks  int64
	At      int     // the step of the peak
	Again   bool    // the step of the peak is one that runs again
	Seconds float64 // of the steps that run again
}

// GeneratorState is the bytes of the state of PyTorch's generator of random numbers on the CPU, which each
// checkpoint keeps.
const GeneratorState = 5056

// block and page are the units of PyTorch's allocator for GPUs.
const block, page = 512, 2 << 20

// place is a step where it runs: in its turn, or again.
type place struct {
	step  int32
	again int32 // the checkpoint whose steps run again, -1: none
}

// Simulator has what all simulations of a program share, and their memory.
type Simulator struct {
	p     *Program
	maker []int32 // by storage: the step that makes it, -1: none
	// of one simulation
	over         []int32 // by call: the checkpoint over it, an index of the selection; -1: none
	of           []int32 // by step: the checkpoint
	seq          []place
	last, again  []int32 // by storage: where it is read for the last time; the same of what was made again
	first, final []int32 // by checkpoint: the backward steps that need what was saved
	delta        []int64
	round        []int64
	top          []int64 // by place: what is live there, workspaces included
}

// Simulator returns a simulator of the program, for one goroutine.
func (p *Program) Simulator() *Simulator {
	s := &Simulator{p: p, maker: make([]int32, len(p.Storages)), over: make([]int32, len(p.Tree.Calls)),
		of: make([]int32, len(p.Steps)), last: make([]int32, len(p.Storages)), again: make([]int32, len(p.Storages))}
	for i := range s.maker {
		s.maker[i] = -1
	}
	for i := range p.Steps {
		for _, m := range p.Steps[i].Makes {
			s.maker[m] = int32(i)
		}
	}
	return s
}

// Simulate says what the step takes with calls of modules under checkpoints. A call in another one of the
// list has no effect.
func (p *Program) Simulate(calls []int32) Usage { return p.Simulator().Run(calls) }

// Run is Simulate.
func (s *Simulator) Run(calls []int32) Usage {
	s.cover(calls)
	s.sequence(len(calls))
	s.lifetimes(len(calls))
	return s.count(len(calls))
}

// cover notes which checkpoint each step is under: the outermost.
func (s *Simulator) cover(calls []int32) {
	for i := range s.over { // a call follows the one around it
		s.over[i] = -1
		if outer := s.p.Tree.Calls[i].Outer; outer >= 0 {
			s.over[i] = s.over[outer]
		}
		for c, call := range calls {
			if int(call) == i && s.over[i] < 0 {
				s.over[i] = int32(c)
			}
		}
	}
	for i := range s.p.Steps {
		s.of[i] = -1
		if call := s.p.Steps[i].Call; call >= 0 {
			s.of[i] = s.over[call]
		}
	}
}

// sequence puts the steps in the order in which they run: those of a checkpoint run again before the first
// backward step that needs what they save.
func (s *Simulator) sequence(n int) {
	s.first, s.final = fill(s.first, n, -1), fill(s.final, n, -1)
	s.seq = s.seq[:0]
	for i := range s.p.Steps {
		c := s.of[i]
		if c >= 0 && s.p.Steps[i].Backward && s.p.Steps[i].Saves {
			if s.first[c] < 0 {
				s.first[c] = int32(len(s.seq))
				s.rerun(c)
			}
			s.final[c] = int32(len(s.seq))
		}
		s.seq = append(s.seq, place{int32(i), -1})
	}
}

// rerun appends the forward steps of a checkpoint.
func (s *Simulator) rerun(c int32) {
	for i := range s.p.Steps[:s.p.Backward] {
		if s.of[i] == c {
			s.seq = append(s.seq, place{int32(i), c})
		}
	}
}

// fill makes a slice of n equal numbers.
func fill(list []int32, n int, with int32) []int32 {
	if cap(list) < n {
		list = make([]int32, n)
	}
	list = list[:n]
	for i := range list {
		list[i] = with
	}
	return list
}

// lifetimes notes where every storage is needed last. A checkpoint keeps what its module reads from outside
// until its last gradient is made; it keeps nothing of what the module makes, which what runs again makes
// anew. The results of what runs again live until all of it has run (torch/utils/checkpoint.py).
func (s *Simulator) lifetimes(n int) {
	s.last, s.again = fill(s.last, len(s.p.Storages), -1), fill(s.again, len(s.p.Storages), -1)
	for at, pl := range s.seq {
		step := &s.p.Steps[pl.step]
		c := s.of[pl.step]
		for _, list := range [2][]StorageID{step.Reads, step.Makes} {
			for _, id := range list {
				switch inside := c >= 0 && s.maker[id] >= 0 && s.of[s.maker[id]] == c; {
				case inside && pl.again >= 0, inside && step.Backward && int(s.maker[id]) < s.p.Backward:
					s.again[id] = max(s.again[id], int32(at))
				case inside || c < 0 || step.Backward:
					s.last[id] = max(s.last[id], int32(at))
				default:
					s.last[id] = max(s.last[id], int32(at), s.final[c])
				}
			}
		}
	}
	s.results()
}

// results keeps what other modules read of a checkpoint's until all of it has run again.
func (s *Simulator) results() {
	for i := range s.p.Steps[:s.p.Backward] {
		for _, id := range s.p.Steps[i].Reads {
			m := s.maker[id]
			if m < 0 || s.of[m] < 0 || s.of[m] == s.of[i] || s.again[id] < 0 {
				continue
			}
			c := s.of[m]
			end := s.first[c]
			for int(end)+1 < len(s.seq) && s.seq[end+1].again == c {
				end++
			}
			s.again[id] = max(s.again[id], end)
		}
	}
}

// count adds up what is live.
func (s *Simulator) count(n int) Usage {
	u := Usage{}
	if cap(s.delta) < len(s.seq)+1 {
		s.delta, s.round = make([]int64, len(s.seq)+1), make([]int64, len(s.seq)+1)
	}
	s.delta, s.round = s.delta[:len(s.seq)+1], s.round[:len(s.seq)+1]
	clear(s.delta)
	clear(s.round)
	for c := range n {
		if s.final[c] >= 0 { // the state of the generator
			s.live(GeneratorState, s.begins(int32(c)), s.final[c])
		}
	}
	for at, pl := range s.seq {
		for _, id := range s.p.Steps[pl.step].Makes {
			end := s.last[id]
			if pl.again >= 0 {
				end = s.again[id]
			}
			if s.p.Storages[id].Kept {
				end = int32(len(s.seq) - 1)
			}
			s.live(s.p.Storages[id].Bytes, int32(at), max(end, int32(at)))
		}
	}
	s.top = s.top[:0]
	var now, rounded, top int64
	for at, pl := range s.seq {
		step := &s.p.Steps[pl.step]
		now, rounded = now+s.delta[at], rounded+s.round[at]
		s.top = append(s.top, now+step.Work+s.p.Held)
		if now+step.Work > u.Peak {
			u.Peak, u.At, u.Again = now+step.Work, int(pl.step), pl.again >= 0
		}
		top = max(top, rounded+up(step.Work, block))
		if pl.again >= 0 {
			u.Seconds += step.Seconds
		}
		if int(pl.step) == s.p.Backward-1 && pl.again < 0 {
			u.Saved = now + s.delta[at+1]
		}
	}
	u.Peak += s.p.Held
	u.Blocks = up(top+s.p.Held, page)
	return u
}

// begins is where a checkpoint's first step runs.
func (s *Simulator) begins(c int32) int32 {
	for at, pl := range s.seq {
		if s.of[pl.step] == c {
			return int32(at)
		}
	}
	return 0
}

// live notes bytes that are live from one place to another.
func (s *Simulator) live(bytes int64, from, to int32) {
	s.delta[from] += bytes
	s.delta[to+1] -= bytes
	s.round[from] += up(bytes, block)
	s.round[to+1] -= up(bytes, block)
}

// up is n rounded up to a multiple of unit.
func up(n, unit int64) int64 {
	if n > math.MaxInt64-unit {
		return n
	}
	return (n + unit - 1) / unit * unit
}

// Live calls f with what is live at each step of the last run, in order; steps that run again come twice.
func (s *Simulator) Live(f func(step int, live int64)) {
	for at, pl := range s.seq {
		f(int(pl.step), s.top[at])
	}
}

// Between calls f with the storages of the last run that are live between the halves: the forward step that
// makes each, and its bytes.
func (s *Simulator) Between(f func(maker int, bytes int64)) {
	middle := int32(0)
	for at, pl := range s.seq {
		if int(pl.step) == s.p.Backward-1 && pl.again < 0 {
			middle = int32(at)
		}
	}
	for id, maker := range s.maker {
		if maker >= 0 && int(maker) < s.p.Backward && s.last[id] > middle {
			f(int(maker), s.p.Storages[id].Bytes)
		}
	}
}

// Ends are the steps of the last run at which storages were needed last, by storage; -1: never.
func (s *Simulator) Ends() []int {
	out := make([]int, len(s.last))
	for id, at := range s.last {
		if out[id] = -1; at >= 0 {
			out[id] = int(s.seq[at].step)
		}
	}
	return out
}
