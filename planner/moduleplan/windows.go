package moduleplan

import (
	"slices"

	torchsim "memopt/sim/torch"
)

// windows is the simulation of each unit.
type windows struct {
	usage torchsim.Usage
	reach []int64 // by unit: the most that is live while it runs
	kept  []int64 // by unit: the bytes that it keeps between the halves
}

// total is the bytes that all units keep.
func (w *windows) total() int64 {
	var n int64
	for _, k := range w.kept {
		n += k
	}
	return n
}

// windows simulates a choice and looks at every unit.
func (s *search) windows(choice []int) *windows {
	s.tried++
	calls := s.callsOf(choice)
	w := &windows{usage: s.sim.Run(calls), reach: make([]int64, len(s.units)), kept: make([]int64, len(s.units))}
	s.sim.Live(func(step int, live int64) {
		i := s.unitOf(step)
		w.reach[i] = max(w.reach[i], live)
	})
	s.sim.Between(func(maker int, bytes int64) {
		if maker >= 0 {
			w.kept[s.of[maker]] += bytes
		}
	})
	for i, o := range choice {
		w.kept[i] += int64(len(s.units[i].options[o].calls)) * s.sim.State()
	}
	return w
}

// unitOf is the unit of a step of either half.
func (s *search) unitOf(step int) int {
	if step < s.p.Backward {
		return s.of[step]
	}
	return s.of[s.p.Steps[step].Of]
}

// far lists the storages that a unit after the next one reads, and that are needed up to another place if units are
// recomputed, such as an attention mask that all layers add; and those that torch.autocast caches, which live while
// all later units run, though these do not read them.
func (s *search) far() []torchsim.StorageID {
	none := s.ends(make([]int, len(s.units)))
	choice := make([]int, len(s.units))
	for i := range s.units {
		choice[i] = max(s.units[i].whole, 0)
	}
	whole := s.ends(choice)
	last := make([]int, len(s.p.Storages)) // the last unit that reads it
	maker := make([]int, len(s.p.Storages))
	for i := range maker {
		maker[i] = -1
	}
	for i := range s.p.Steps {
		u := s.unitOf(i)
		for _, id := range s.p.Steps[i].Reads {
			last[id] = max(last[id], u)
		}
		if i < s.p.Backward {
			for _, id := range s.p.Steps[i].Makes {
				maker[id] = u
			}
		}
	}
	var out []torchsim.StorageID
	for id := range maker {
		next := maker[id] + 1
		if maker[id] >= 0 && s.p.Storages[id].Cached {
			out = append(out, torchsim.StorageID(id))
			continue
		}
		if maker[id] < 0 || last[id] <= next || none[id] == whole[id] {
			continue
		}
		// Units go back in the other order: no unit needs a storage later than the next unit does.
		if s.unitOf(none[id]) > next || s.unitOf(whole[id]) > next {
			out = append(out, torchsim.StorageID(id))
		}
	}
	return out
}

// extended is the program with storages living to the end, so that its units are a chain. Its peaks are no lower
// than those of the program itself.
func (s *search) extended(far []torchsim.StorageID) *torchsim.Program {
	p := *s.p
	p.Steps = slices.Clone(p.Steps)
	end := &p.Steps[len(p.Steps)-1]
	end.Reads = append(slices.Clone(end.Reads), far...)
	return &p
}

// ends are the last steps that need storages with a choice.
func (s *search) ends(choice []int) []int {
	s.tried++
	s.sim.Run(s.callsOf(choice))
	return s.sim.Ends()
}
