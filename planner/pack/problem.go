package pack

import (
	"cmp"
	"slices"

	"memopt/symbolic"
)

// job is a buffer as the stages see it: live in the sections [lo, hi). A section is a moment when
// the set of live buffers cannot grow without one ending first, so two jobs are live at once
// exactly if their ranges of sections meet.
//
// A job whose buffer has gaps is not live in some of its sections: those of problem.gaps[job.gaps].
type job struct {
	life
	size int64
}

// life is the live sections of a job.
type life struct {
	lo, hi int32
	gaps   int32 // 0 without gaps
}

// stretch is a run of sections [lo, hi).
type stretch struct{ lo, hi int32 }

// problem is a group of buffers whose live ranges are connected by overlaps.
type problem struct {
	jobs     []job
	ids      []int // jobs[i] is the caller's buffer ids[i]
	sections int
	bound    int64 // the largest sum of sizes live at once
	unit     int64 // sizes are counted in this many bytes

	gaps [][]stretch // of jobs that have some, from 1 on; nil where no job has
}

// live reports whether a job is live in one of its sections.
func (p *problem) live(j job, section int32) bool {
	if j.gaps == 0 {
		return true
	}
	for _, g := range p.gaps[j.gaps] {
		if g.lo <= section && section < g.hi {
			return false
		}
	}
	return true
}

// meet reports whether two jobs are live at once.
func (p *problem) meet(a, b life) bool {
	lo, hi := max(a.lo, b.lo), min(a.hi, b.hi)
	if a.gaps == 0 && b.gaps == 0 {
		return lo < hi
	}
	for lo < hi {
		next := min(p.resume(a, lo), hi)
		next = p.resume(b, next)
		if next == lo {
			return true
		}
		lo = next
	}
	return false
}

// resume returns the section itself, or the end of the job's gap that it lies in.
func (p *problem) resume(j life, section int32) int32 {
	if j.gaps != 0 {
		for _, g := range p.gaps[j.gaps] {
			if g.lo <= section && section < g.hi {
				return g.hi
			}
		}
	}
	return section
}

// event is a start (id >= 0) or an end (^id) of a piece of a buffer's lifetime.
type event struct {
	time int64
	id   int
	part part
}

// part says which piece of a buffer's time an event belongs to.
type part uint8

const (
	first part = 1 << iota
	last
)

// split cuts the buffers into problems that do not meet in time. Buffers of size 0 are left out:
// they fit anywhere.
func split(buffers []Buffer) []*problem {
	s := splitter{buffers: buffers, index: make([]int32, len(buffers))}
	for _, e := range eventsOf(buffers) {
		switch {
		case e.id < 0:
			s.end(^e.id, e.part&last != 0)
		case e.part&first != 0:
			s.start(e.id)
		default:
			s.resume(e.id)
		}
	}
	for _, p := range s.out {
		for i := range p.jobs {
			p.jobs[i].size /= p.unit
		}
		p.bound /= p.unit
	}
	return s.out
}

// eventsOf lists the events in order of time, ends before starts.
func eventsOf(buffers []Buffer) []event {
	events := make([]event, 0, 2*len(buffers))
	for i := range buffers {
		if buffers[i].Size == 0 {
			continue
		}
		from := len(events)
		buffers[i].pieces(func(lower, upper int64) {
			events = append(events, event{lower, i, 0}, event{upper, ^i, 0})
		})
		events[from].part |= first
		events[len(events)-1].part |= last
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(min(a.id, 0), min(b.id, 0)), cmp.Compare(a.id, b.id))
	})
	return events
}

// splitter makes problems of events.
type splitter struct {
	buffers []Buffer
	out     []*problem
	p       *problem // the last of out
	index   []int32  // by buffer: its job
	there   int      // buffers that have started and not ended, those in a gap included
	bytes   int64    // live
	started bool     // since the last section ended
}

func (s *splitter) start(id int) {
	if s.there == 0 {
		s.p = &problem{}
		s.out = append(s.out, s.p)
	}
	size := s.buffers[id].Size
	s.index[id] = int32(len(s.p.jobs))
	s.p.jobs = append(s.p.jobs, job{life{lo: int32(s.p.sections)}, size})
	s.p.ids = append(s.p.ids, id)
	s.p.unit = symbolic.GCD(s.p.unit, size)
	s.there++
	s.grow(size)
}

func (s *splitter) grow(size int64) {
	s.bytes += size
	s.p.bound = max(s.p.bound, s.bytes)
	s.started = true
}

// resume ends a gap.
func (s *splitter) resume(id int) {
	j := &s.p.jobs[s.index[id]]
	list := s.p.gaps[j.gaps]
	list[len(list)-1].hi = int32(s.p.sections)
	s.grow(j.size)
}

// end ends a job, or begins a gap of it.
func (s *splitter) end(id int, whole bool) {
	if s.started {
		s.p.sections++
		s.started = false
	}
	j := &s.p.jobs[s.index[id]]
	s.bytes -= j.size
	if whole {
		j.hi = int32(s.p.sections)
		s.there--
		return
	}
	if j.gaps == 0 {
		s.p.gaps = append(s.p.gaps, nil)
		if len(s.p.gaps) == 1 {
			s.p.gaps = append(s.p.gaps, nil) // of number 0 no job has any
		}
		j.gaps = int32(len(s.p.gaps) - 1)
	}
	s.p.gaps[j.gaps] = append(s.p.gaps[j.gaps], stretch{lo: int32(s.p.sections)})
}
