package torch

import (
	"fmt"
	"slices"
)

// Mechanism is how a region of a step runs again.
type Mechanism int8

// The mechanisms.
const (
	// Reentrant is an autograd function that runs its region without a graph, and again with one when its backward
	// begins (CheckpointFunction in megatron/core/tensor_parallel/random.py). The results of the second run and
	// the gradients that come in stay until its backward is done.
	Reentrant Mechanism = iota
	// Discarding is Reentrant for a region whose results are freed once a later module, the consumer, is done. A hook
	// of the gradient of that module's result runs the region again (CheckpointWithoutOutput, ibid.), and the consumer
	// finds the results in their old places.
	Discarding
	// Replayed is torch.utils.checkpoint without an early stop (torch_remat.checkpoint): the graph of the forward half
	// stays, and a second run fills in the tensors that it saves, before the region's backward begins. Steps of
	// Region.Saved do not run again.
	Replayed
)

// Region is a part of the forward half that runs again. No step is in two regions of a run.
type Region struct {
	Mechanism
	Steps []int32 // forward steps, in order
	// Until are the steps of the consumer of a Discarding region.
	Until []int32
	// Saved are the parts of a Replayed region that do not run again: they keep their results and their own tensors
	// that their backward reads. Tensors of other steps of the region that it reads come from the second run, which
	// takes the kept results where it comes to the parts.
	Saved [][]int32
	// State is the bytes of generators' states that the region keeps from its first step on: to its last backward step
	// if it is Replayed, else to the end of the whole step. Aside are those that are kept while it runs again.
	State, Aside int64
	// Moved are the storages that come in and move to the host, and their copies, which the second run reads
	// (Program.Move). The region is Discarding.
	Moved map[StorageID]StorageID
}

// DiscardError means that the results of a Discarding region are read when they are gone.
type DiscardError struct{ Maker, Reader int } // forward steps

func (e *DiscardError) Error() string {
	return fmt.Sprintf("step %d reads what step %d makes when that is freed", e.Reader, e.Maker)
}

// regions has one simulation of Program.Rerun.
type regions struct {
	p           *Program
	list        []Region
	of          []int32 // by forward step: its region, or -1
	until       []int32 // by forward step: the region whose consumer it is of, or -1
	saved       []bool  // by forward step
	where       []int32 // by forward step: its place in the second run, or of a saved one that of the step before
	maker       []int32 // by storage, or -1
	bytes       []int64 // by storage; those of sums that are not in place any more are appended
	made        []int32 // by storage: the place that makes it
	kept        []bool  // by storage
	last, again []int32 // by storage: the last place of the first making, and of the second
	owner       []int32 // by storage: the region whose function has it as a gradient that came in, or -1
	now         []StorageID
	seq         []place
	first, end  []int32  // by region: the places of its second run; -1 if it has none
	start       []int32  // by region: the place of its first step
	begin       []int32  // by region: the place of its first backward step, or -1
	final       []int32  // by region: the place of its last backward step, or -1
	middle      int32    // the place of the last step of the forward half
	fresh       []parted // in the order of places
}

// parted is a sum of gradients that is not in place any more.
type parted struct {
	at int32 // its place
	id StorageID
}

// Rerun returns the memory of the step where regions run again. The error is a *DiscardError. Usage.Blocks is not
// set.
func (p *Program) Rerun(list []Region) (Usage, error) {
	s := &regions{p: p, list: list, of: fill(nil, p.Backward, -1), until: fill(nil, p.Backward, -1),
		saved: make([]bool, p.Backward), where: make([]int32, p.Backward), maker: fill(nil, len(p.Storages), -1),
		bytes: make([]int64, len(p.Storages)),
		made:  fill(nil, len(p.Storages), -1), kept: make([]bool, len(p.Storages)),
		now: make([]StorageID, len(p.Storages)), first: fill(nil, len(list), -1), end: fill(nil, len(list), -1),
		start: fill(nil, len(list), 0), begin: fill(nil, len(list), -1), final: fill(nil, len(list), -1),
		last: fill(nil, len(p.Storages), -1), again: fill(nil, len(p.Storages), -1),
		owner: fill(nil, len(p.Storages), -1)}
	for i := range list {
		for _, at := range list[i].Steps {
			s.of[at] = int32(i)
		}
		for _, at := range list[i].Until {
			s.until[at] = int32(i)
		}
		for _, at := range slices.Concat(list[i].Saved...) {
			s.saved[at] = true
		}
	}
	for i := range p.Storages {
		s.bytes[i], s.now[i], s.kept[i] = p.Storages[i].Bytes, StorageID(i), p.Storages[i].Kept
	}
	for i := range p.Steps {
		for _, id := range p.Steps[i].Makes {
			s.maker[id] = int32(i)
		}
	}
	s.sequence()
	s.taken()
	if err := s.lifetimes(); err != nil {
		return Usage{}, err
	}
	return s.count(), nil
}

// region is that of a step; a backward step has that of its forward step.
func (s *regions) region(step int32) int32 {
	if x := &s.p.Steps[step]; x.Backward {
		return s.of[x.Of]
	}
	return s.of[step]
}

// origin is the region whose steps make a storage, or -1.
func (s *regions) origin(id StorageID) int32 {
	if m := s.maker[id]; m >= 0 && int(m) < s.p.Backward {
		return s.of[m]
	}
	return -1
}

// home is the region whose second run makes a storage, or -1.
func (s *regions) home(id StorageID) int32 {
	if r := s.origin(id); r >= 0 && !s.saved[s.maker[id]] {
		return r
	}
	return -1
}

// sequence puts the steps in their order of execution.
func (s *regions) sequence() {
	for i := range s.p.Steps {
		if i == s.p.Backward {
			s.middle = int32(len(s.seq)) - 1
		}
		if s.p.Steps[i].Backward {
			s.trigger(int32(i))
		} else if r := s.of[i]; r >= 0 && s.list[r].Steps[0] == int32(i) {
			s.start[r] = int32(len(s.seq))
		}
		s.seq = append(s.seq, place{int32(i), -1})
	}
}

// trigger appends the second runs that come before a backward step, and notes the step as one of its region.
func (s *regions) trigger(step int32) {
	if r := s.until[s.p.Steps[step].Of]; r >= 0 {
		s.rerun(r)
	}
	r := s.region(step)
	if r < 0 {
		return
	}
	s.rerun(r)
	if s.begin[r] < 0 {
		s.begin[r] = int32(len(s.seq))
	}
	if s.list[r].Mechanism != Replayed || s.p.Steps[step].Saves {
		s.final[r] = int32(len(s.seq))
	}
}

// rerun appends a second run, unless there was one.
func (s *regions) rerun(r int32) {
	if s.first[r] >= 0 {
		return
	}
	s.first[r] = int32(len(s.seq))
	for _, at := range s.list[r].Steps {
		if !s.saved[at] {
			s.seq = append(s.seq, place{at, r})
		}
		s.where[at] = max(s.first[r], int32(len(s.seq))-1)
	}
	s.end[r] = int32(len(s.seq)) - 1
}

// taken keeps the results of saved parts for as long as the second run of their region has them: while a tensor is
// there that it has made of them, since the graph of that tensor leads to them.
func (s *regions) taken() {
	there := fill(nil, len(s.bytes), -1) // by storage: the last place in the second run where it is there
	for i := s.p.Backward - 1; i >= 0; i-- {
		step, r := &s.p.Steps[i], s.of[i]
		until := int32(-1)
		if r >= 0 {
			until = s.where[i]
			for _, id := range step.Makes {
				if !s.saved[i] {
					until = max(until, there[id])
				} else if there[id] >= 0 {
					s.last[id] = max(s.last[id], there[id])
				}
			}
		}
		for _, id := range step.Reads {
			switch home := s.origin(id); {
			case home < 0:
			case home == r:
				there[id] = max(there[id], until)
			default:
				there[id] = max(there[id], s.end[home])
			}
		}
	}
}

// lifetimes notes the last use of every making of a storage.
func (s *regions) lifetimes() error {
	for at, pl := range s.seq {
		step := &s.p.Steps[pl.step]
		r := s.region(pl.step)
		if s.apart(step, r) {
			s.split(step.Reads[0], int32(at), r)
		}
		for _, id := range step.Makes {
			s.made[id] = int32(at)
			if err := s.use(id, pl, r, int32(at)); err != nil {
				return err
			}
		}
		for _, id := range step.Reads {
			if to, moved := s.moved(id, pl.again); moved {
				id = to
			}
			if err := s.use(id, pl, r, int32(at)); err != nil {
				return err
			}
		}
		if pl.again < 0 {
			for _, id := range step.Holds {
				s.last[id] = max(s.last[id], int32(at))
			}
		}
	}
	return nil
}

// moved is the copy that the second run of a region reads in place of a storage.
func (s *regions) moved(id StorageID, again int32) (StorageID, bool) {
	if again < 0 {
		return id, false
	}
	to, moved := s.list[again].Moved[id]
	return to, moved
}

// apart reports whether a sum in place is not in place any more, since the region's function still has the gradient
// that came in: a sum onto a gradient that the region's backward reads otherwise, too.
func (s *regions) apart(step *Step, r int32) bool {
	if !step.Backward || r < 0 || s.list[r].Mechanism == Replayed || len(step.Reads) == 0 || len(step.Makes) > 0 {
		return false
	}
	return inPlace(step.Op) && slices.Contains(gradientSums, step.Op) && s.owner[s.now[step.Reads[0]]] == r
}

// incoming reports whether a region's backward got a storage from outside.
func (s *regions) incoming(id StorageID, r int32) bool {
	at := s.made[id]
	return at >= 0 && at < s.begin[r] && s.p.Steps[s.seq[at].step].Backward
}

// split gives a sum a storage of its own, which later steps read.
func (s *regions) split(old StorageID, at, r int32) {
	from := s.now[old]
	id := StorageID(len(s.bytes))
	s.bytes, s.made, s.kept = append(s.bytes, s.bytes[from]), append(s.made, at), append(s.kept, s.kept[from])
	s.last, s.owner = append(s.last, at), append(s.owner, -1)
	s.kept[from] = false
	s.last[from] = max(s.last[from], s.final[r])
	s.now[old] = id
	s.fresh = append(s.fresh, parted{at, id})
}

// use notes that a step has a storage.
func (s *regions) use(id StorageID, pl place, r, at int32) error {
	home, backward := s.home(id), s.p.Steps[pl.step].Backward
	if backward && int(s.maker[id]) >= s.p.Backward {
		s.gradient(s.now[id], pl.step, r, at)
		return nil
	}
	switch {
	case home < 0:
		s.last[id] = max(s.last[id], at)
	case s.second(pl, r, home):
		if s.first[home] < 0 || s.first[home] > at {
			return &DiscardError{int(s.maker[id]), int(pl.step)}
		}
		s.again[id] = max(s.again[id], at)
	default:
		s.last[id] = max(s.last[id], at)
		if err := s.discarded(id, pl, home); err != nil {
			return err
		}
	}
	if pl.again < 0 && !backward {
		s.given(id, pl.step, r)
		s.held(id, r, home)
	}
	if s.p.Storages[id].Cached {
		s.cached(id, pl)
	}
	return nil
}

// given keeps the operands of a saved part until the second run has come to its place.
func (s *regions) given(id StorageID, step, r int32) {
	switch {
	case !s.saved[step] || s.origin(id) != r:
	case s.saved[s.maker[id]]:
		s.last[id] = max(s.last[id], s.where[step])
	default:
		s.again[id] = max(s.again[id], s.where[step])
	}
}

// second reports whether a step finds the second making of a storage.
func (s *regions) second(pl place, r, home int32) bool {
	if pl.again < 0 && !s.p.Steps[pl.step].Backward {
		return false
	}
	return r == home || s.list[home].Mechanism == Discarding
}

// discarded checks that a forward step does not come too late for a storage that a region frees.
func (s *regions) discarded(id StorageID, pl place, home int32) error {
	x := &s.list[home]
	if x.Mechanism != Discarding || pl.step <= x.Until[len(x.Until)-1] {
		return nil
	}
	return &DiscardError{int(s.maker[id]), int(pl.step)}
}

// gradient notes that a step has a gradient; a region's function keeps those that came in.
func (s *regions) gradient(id StorageID, step, r, at int32) {
	s.last[id] = max(s.last[id], at)
	x := &s.p.Steps[step]
	if r < 0 || s.list[r].Mechanism == Replayed || !s.incoming(id, r) || slices.Contains(gradientSums, x.Op) {
		return
	}
	s.last[id] = max(s.last[id], s.final[r])
	s.owner[id] = r
}

// gradientSums are the operators by which autograd's engine may add up gradients.
var gradientSums = []string{"aten.add_.Tensor", "aten.add.Tensor"}

// held keeps an operand of a forward step that a region reads from outside or returns.
func (s *regions) held(id StorageID, r, home int32) {
	if _, moved := s.moved(id, r); r >= 0 && s.origin(id) != r && !moved { // it comes in
		if home >= 0 && s.list[home].Mechanism == Discarding {
			s.again[id] = max(s.again[id], s.final[r])
		} else {
			s.last[id] = max(s.last[id], s.final[r])
		}
	}
	if home >= 0 && r != home && s.first[home] >= 0 { // it is a result
		until := s.final[home]
		if s.list[home].Mechanism == Replayed {
			until = s.end[home]
		}
		s.again[id] = max(s.again[id], until)
	}
	if home >= 0 && r != home && s.list[home].Mechanism == Discarding { // the places of the forward half are its steps
		s.last[id] = max(s.last[id], s.list[home].Until[len(s.list[home].Until)-1])
	}
}

// cached keeps a storage that torch.autocast caches until its context ends.
func (s *regions) cached(id StorageID, pl place) {
	if pl.again >= 0 {
		s.again[id] = max(s.again[id], s.end[pl.again])
	} else if int(pl.step) < s.p.Backward {
		s.last[id] = max(s.last[id], s.middle)
	}
}

// count adds up the live bytes.
func (s *regions) count() Usage {
	u, delta := Usage{}, make([]int64, len(s.seq)+1)
	over := int64(0)
	live := func(bytes int64, from, to int32) {
		to = max(to, from)
		delta[from] += bytes
		delta[to+1] -= bytes
		if from <= s.middle && to > s.middle {
			over += bytes
		}
	}
	end := int32(len(s.seq)) - 1
	for r := range s.list {
		if s.first[r] >= 0 {
			until := end
			if s.list[r].Mechanism == Replayed {
				until = s.final[r]
			}
			live(s.list[r].State, s.start[r], until)
			live(s.list[r].Aside, s.first[r], s.end[r])
		}
	}
	ends := func(id StorageID) int32 {
		if s.kept[id] {
			return end
		}
		return s.last[id]
	}
	for _, x := range s.fresh {
		live(s.bytes[x.id], x.at, ends(x.id))
	}
	for at, pl := range s.seq {
		for _, id := range s.p.Steps[pl.step].Makes {
			if pl.again >= 0 {
				live(s.bytes[id], int32(at), s.again[id])
			} else {
				live(s.bytes[id], int32(at), ends(id))
			}
		}
	}
	now := s.p.Held
	for at, pl := range s.seq {
		now += delta[at]
		if top := now + s.p.Steps[pl.step].Work; top > u.Peak {
			u.Peak, u.At, u.Again = top, int(pl.step), pl.again >= 0
		}
		if pl.again >= 0 {
			u.Seconds += s.p.Steps[pl.step].Seconds
		}
	}
	u.Saved = over
	return u
}

// Within are the forward steps of a call, those of calls in it included.
func (p *Program) Within(call int32) (out []int32) {
	for i := range p.Steps[:p.Backward] {
		if c := p.Steps[i].Call; c >= 0 && p.Tree.Within(c, call) {
			out = append(out, int32(i))
		}
	}
	return out
}
