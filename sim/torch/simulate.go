package torch

import "math"

// Usage is the memory of a step in PyTorch with a choice of modules under torch.utils.checkpoint.
type Usage struct {
	Peak  int64 // bytes, those of parameters, buffers and inputs included
	Saved int64 // bytes that are live between the halves, without them
	// Blocks is Peak with every storage rounded up to 512 bytes and the whole to 2 MiB, as PyTorch's
	// allocator for GPUs hands out memory (c10/cuda/CUDACachingAllocator.cpp).
	Blocks  int64
	At      int     // the step of the peak
	Again   bool    // the step of the peak is a recomputed one
	Seconds float64 // of the recomputed steps
}

// GeneratorState is the bytes of the state of PyTorch's generator of random numbers on the CPU, which each
// checkpoint keeps where the forward half draws random numbers.
const GeneratorState = 5056

// block and page are the units of PyTorch's allocator for GPUs.
const block, page = 512, 2 << 20

// place is a step where it runs: in its turn, or again.
type place struct {
	step  int32
	again int32 // the checkpoint that is recomputed, or -1 in its own turn
}

// Simulator has the data that all simulations of a program share, and their memory.
type Simulator struct {
	p     *Program
	maker []int32 // by storage: the step that makes it, or -1
	state int64   // bytes of the state of the generator that each checkpoint keeps
	// of one simulation
	kept         []bool  // by step: its checkpoint keeps its results (RunKeeping); nil for none
	over         []int32 // by call: the innermost checkpoint over it, an index of the selection; -1 outside of all
	parent       []int32 // by checkpoint: the one around it, or -1
	depth        []int32 // by checkpoint: how many are around it
	of           []int32 // by step: the innermost checkpoint
	seq          []place
	last         []int32   // by storage: where it is read for the last time
	again        [][]int32 // by depth and storage: last for those recomputed at this depth, or -1
	first, final []int32   // by checkpoint: the backward steps that need its saved tensors
	end          []int32   // by checkpoint: its last recomputed step
	middle       int32     // the place of the last step of the forward half
	gone         int64     // bytes that are live there for the last time
	delta        []int64
	round        []int64
	top          []int64 // by place: the live bytes there, workspaces included
	peak         int     // the place of the peak
}

// Simulator returns a simulator of the program, for one goroutine.
func (p *Program) Simulator() *Simulator {
	s := &Simulator{p: p, maker: make([]int32, len(p.Storages)), over: make([]int32, len(p.Tree.Calls)),
		of: make([]int32, len(p.Steps)), last: make([]int32, len(p.Storages))}
	if p.random() {
		s.state = GeneratorState
	}
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

// Simulate returns the memory of the step with calls of modules under checkpoints, in any order. A call may
// lie in another one of the list (Program.Stacked).
func (p *Program) Simulate(calls []int32) Usage { return p.Simulator().Run(calls) }

// Run is Simulate.
func (s *Simulator) Run(calls []int32) Usage { return s.RunKeeping(calls, nil) }

// RunKeeping is Run with checkpoints that keep the results of steps, by step, as
// torch.utils.checkpoint.create_selective_checkpoint_contexts does: they are not run again, and their results of
// the forward half stay until the recomputation comes to them, and from there on as long as a recomputed result
// would. No call may lie in another one. A step whose results are written over, or that autocast caches, may not be
// kept (Keepable).
func (s *Simulator) RunKeeping(calls []int32, kept []bool) Usage {
	s.kept = kept
	s.cover(calls)
	s.sequence(len(calls))
	s.lifetimes()
	return s.count(len(calls))
}

// cover notes which checkpoint each step is under: the innermost.
func (s *Simulator) cover(calls []int32) {
	s.parent, s.depth = fill(s.parent, len(calls), -1), fill(s.depth, len(calls), 0)
	s.over = fill(s.over, len(s.over), -1)
	for c, call := range calls {
		s.over[call] = int32(c)
	}
	for i, c := range s.over { // a call follows the one around it
		around := int32(-1)
		if outer := s.p.Tree.Calls[i].Outer; outer >= 0 {
			around = s.over[outer]
		}
		switch {
		case c < 0:
			s.over[i] = around
		case around >= 0:
			s.parent[c], s.depth[c] = around, s.depth[around]+1
		}
	}
	for i := range s.p.Steps {
		s.of[i] = -1
		if call := s.p.Steps[i].Call; call >= 0 {
			s.of[i] = s.over[call]
		}
	}
}

// under reports whether a checkpoint is another one or lies in it. The checkpoint -1 lies in no
// other.
func (s *Simulator) under(inner, outer int32) bool {
	for ; inner >= 0; inner = s.parent[inner] {
		if inner == outer {
			return true
		}
	}
	return false
}

// makes is the checkpoint that makes a storage in the forward half; -1 if it is made outside of
// all.
func (s *Simulator) makes(id StorageID) int32 {
	if m := s.maker[id]; m >= 0 && int(m) < s.p.Backward {
		return s.of[m]
	}
	return -1
}

// sequence puts the steps in their order of execution: those of a checkpoint are recomputed before the
// first backward step that needs their saved tensors. Stacked checkpoints need the saved tensors of those
// around them.
func (s *Simulator) sequence(n int) {
	s.first, s.final, s.end = fill(s.first, n, -1), fill(s.final, n, -1), fill(s.end, n, -1)
	s.seq = s.seq[:0]
	for i := range s.p.Steps {
		if c := s.of[i]; c >= 0 && s.p.Steps[i].Backward && s.p.Steps[i].Saves {
			s.need(c)
			s.final[c] = int32(len(s.seq))
			for d := s.parent[c]; s.p.Stacked && d >= 0; d = s.parent[d] {
				s.final[d] = int32(len(s.seq))
			}
		}
		if i == s.p.Backward-1 {
			s.middle = int32(len(s.seq))
		}
		s.seq = append(s.seq, place{int32(i), -1})
	}
}

// State is the bytes that a checkpoint keeps beside storages: the state of the generator of random numbers.
func (s *Simulator) State() int64 { return s.state }

// need recomputes a checkpoint unless that is done.
func (s *Simulator) need(c int32) {
	if s.p.Stacked && s.parent[c] >= 0 {
		s.need(s.parent[c])
	}
	if s.first[c] >= 0 {
		return
	}
	s.first[c] = int32(len(s.seq))
	s.rerun(c)
	s.end[c] = int32(len(s.seq) - 1)
}

// rerun appends the forward steps of a checkpoint, those of checkpoints in it included.
func (s *Simulator) rerun(c int32) {
	for i := range s.p.Steps[:s.stop(c)] {
		if s.under(s.of[i], c) && !s.keeps(int32(i)) {
			s.seq = append(s.seq, place{int32(i), c})
		}
	}
}

// keeps reports whether a checkpoint keeps the results of a step.
func (s *Simulator) keeps(step int32) bool { return s.kept != nil && s.kept[step] && s.of[step] >= 0 }

// stop is the forward step that ends the recomputation of a checkpoint: all tensors that it saves itself are made
// by then, and the inputs of the checkpoints in it, whose own recomputation saves the rest.
func (s *Simulator) stop(c int32) int {
	end := s.p.Backward
	if !s.p.Early {
		return end
	}
	inner := int32(-1) // the inner checkpoint of the present step, going from the last step to the first
	first := 0
	for i := s.p.Backward - 1; i >= 0; i-- {
		of := s.of[i]
		if of < 0 || !s.under(of, c) {
			continue
		}
		if of != c {
			for s.parent[of] != c {
				of = s.parent[of]
			}
			if inner >= 0 && of != inner {
				break
			}
			inner, first = of, i
			continue
		}
		if inner >= 0 {
			break
		}
		switch s.p.Steps[i].Keeps {
		case KeepsResults:
			return i + 1
		case KeepsInputs:
			return i
		}
	}
	if inner >= 0 {
		return first
	}
	return end
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

// lifetimes notes the last use of every storage. A checkpoint keeps the live-ins of its module until its
// last gradient is made; it keeps no results of the module, which its recomputation makes anew. The results
// of a recomputation live until all of it is done (torch/utils/checkpoint.py).
func (s *Simulator) lifetimes() {
	s.last = fill(s.last, len(s.p.Storages), -1)
	for i := range s.again {
		s.again[i] = fill(s.again[i], len(s.p.Storages), -1)
	}
	for at, pl := range s.seq {
		step := &s.p.Steps[pl.step]
		for _, list := range [2][]StorageID{step.Reads, step.Makes} {
			for _, id := range list {
				s.used(id, pl, int32(at))
			}
		}
		for _, id := range step.Makes {
			s.cached(id, pl)
		}
	}
	s.results()
}

// cached keeps a storage that torch.autocast caches until its context ends.
func (s *Simulator) cached(id StorageID, pl place) {
	switch {
	case !s.p.Storages[id].Cached:
	case pl.again >= 0:
		s.hold(id, s.depth[pl.again], s.end[pl.again])
	case int(pl.step) < s.p.Backward:
		s.hold(id, -1, s.middle)
	}
}

// used notes that a step has a storage.
func (s *Simulator) used(id StorageID, pl place, at int32) {
	c, made := s.of[pl.step], s.makes(id)
	switch {
	case pl.again >= 0:
		s.hold(id, s.found(id, pl.again), at)
		// Inner checkpoints in a recomputation keep their live-ins for as long as its graph lives,
		// although no backward goes through that graph.
		for d := c; d != pl.again; d = s.parent[d] {
			if !s.under(made, d) {
				s.hold(id, s.found(id, pl.again), s.end[pl.again])
			}
		}
	case s.p.Steps[pl.step].Backward:
		s.hold(id, s.found(id, c), at)
	default:
		s.hold(id, -1, at)
		for d := c; d >= 0; d = s.parent[d] {
			if !s.under(made, d) {
				s.hold(id, s.found(id, s.parent[d]), s.final[d])
			}
		}
	}
}

// found says which of a storage's makings a checkpoint finds: that of the checkpoint itself, if the storage is made
// in it, else the first one, which the forward half made (-1); of stacked ones, that of the checkpoint around it.
func (s *Simulator) found(id StorageID, c int32) int32 {
	made := s.makes(id)
	if made >= 0 && s.keeps(s.maker[id]) {
		return -1
	}
	for ; c >= 0; c = s.parent[c] {
		if s.under(made, c) {
			return s.depth[c]
		}
		if !s.p.Stacked {
			break
		}
	}
	return -1
}

// hold notes that one making of a storage (found) is needed at a place.
func (s *Simulator) hold(id StorageID, making, at int32) {
	list := s.last
	if making >= 0 {
		for len(s.again) <= int(making) {
			s.again = append(s.again, fill(nil, len(s.p.Storages), -1))
		}
		list = s.again[making]
	}
	list[id] = max(list[id], at)
}

// results keeps the live-outs of a checkpoint until all of it is recomputed.
func (s *Simulator) results() {
	for i := range s.p.Steps[:s.p.Backward] {
		for _, id := range s.p.Steps[i].Reads {
			for a := s.makes(id); a >= 0 && !s.under(s.of[i], a); a = s.parent[a] {
				if s.first[a] >= 0 {
					s.hold(id, s.found(id, a), s.end[a])
				}
			}
		}
	}
	s.untaken()
}

// untaken keeps the results that a checkpoint keeps until its recomputation takes them; those behind its stop live as
// long as the checkpoint does (the storage in _CachingTorchDispatchMode, torch/utils/checkpoint.py).
func (s *Simulator) untaken() {
	for i := range s.kept {
		c := s.of[i]
		if !s.kept[i] || c < 0 || s.first[c] < 0 {
			continue
		}
		until := s.final[c]
		if i < s.stop(c) {
			until = s.taken(int32(i), c)
		}
		for _, id := range s.p.Steps[i].Makes {
			s.hold(id, -1, until)
		}
	}
}

// taken is the place in the recomputation of a checkpoint where it takes the results of a step that it keeps: the
// next step, or the last one; the step before where it has none.
func (s *Simulator) taken(step, c int32) int32 {
	at := s.first[c]
	for at < s.end[c] && s.seq[at].step < step {
		at++
	}
	return min(at, s.end[c])
}

// count adds up the live bytes.
func (s *Simulator) count(n int) Usage {
	u := Usage{}
	s.gone, s.peak = 0, 0
	if cap(s.delta) < len(s.seq)+1 {
		s.delta, s.round = make([]int64, len(s.seq)+1), make([]int64, len(s.seq)+1)
	}
	s.delta, s.round = s.delta[:len(s.seq)+1], s.round[:len(s.seq)+1]
	clear(s.delta)
	clear(s.round)
	for c := range n {
		if s.final[c] >= 0 { // the state of the generator
			s.live(s.state, s.begins(int32(c)), s.final[c])
		}
	}
	for at, pl := range s.seq {
		for _, id := range s.p.Steps[pl.step].Makes {
			s.live(s.p.Storages[id].Bytes, int32(at), s.ends(id, pl, at))
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
			s.peak = at
		}
		top = max(top, rounded+up(step.Work, block))
		if pl.again >= 0 {
			u.Seconds += step.Seconds
		}
		if int32(at) == s.middle {
			u.Saved = now - s.gone
		}
	}
	u.Peak += s.p.Held
	u.Blocks = up(top+s.p.Held, page)
	return u
}

// ends is the last place of the live range of a storage that a step makes at a place.
func (s *Simulator) ends(id StorageID, pl place, at int) int32 {
	end := s.last[id]
	switch {
	case pl.again >= 0 && int(s.depth[pl.again]) >= len(s.again): // no step reads what is made there
		end = int32(at)
	case pl.again >= 0:
		end = s.again[s.depth[pl.again]][id]
	case s.p.Storages[id].Kept:
		end = int32(len(s.seq) - 1)
	}
	return max(end, int32(at))
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
	if to == s.middle {
		s.gone += bytes
	}
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

// Live calls f with the live bytes of each step of the last run, in order; recomputed steps come twice.
func (s *Simulator) Live(f func(step int, live int64)) {
	for at, pl := range s.seq {
		f(int(pl.step), s.top[at])
	}
}

// Between calls f with the storages of the last run that are live between the halves: the forward step that
// makes each, and its bytes. Those that torch.autocast caches are among them, though they end with the forward half.
func (s *Simulator) Between(f func(maker int, bytes int64)) {
	for id, maker := range s.maker {
		if maker < 0 || int(maker) >= s.p.Backward {
			continue
		}
		if s.last[id] > s.middle || s.p.Storages[id].Cached {
			f(int(maker), s.p.Storages[id].Bytes)
		}
	}
}

// Ends are the steps of the last use of storages in the last run, by storage; -1 for a storage
// without use.
func (s *Simulator) Ends() []int {
	out := make([]int, len(s.last))
	for id, at := range s.last {
		if out[id] = -1; at >= 0 {
			out[id] = int(s.seq[at].step)
		}
	}
	return out
}
