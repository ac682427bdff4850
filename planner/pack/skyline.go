package pack

import "math"

// skyline builds packings from below. The jobs placed so far end, over each section, at a skyline;
// a job rests on the highest point of it over its sections, since space underneath is never filled
// any more. The job that would rest lowest is placed next; among several, the first in a given
// order.
//
// That alone leaves holes where they hurt most: a job of some quiet section is placed first and so
// lifts one that lives through the most crowded section, which has no byte to lose. So jobs wait:
// they take part as if they rested higher, by a share of the goal's free bytes in their most
// crowded section.
type skyline struct {
	*problem
	goal  int64
	crowd []int64 // by job: the largest sum of sizes in one of its sections
	sky   *roof
	load  []int64 // by section: the sum of sizes
	open  []int64 // by section: that of jobs not placed
	wait  []int64 // by job: how much higher it takes part than it rests; below 0, lower
	top   []int64 // by section: the skyline
	crews []crew
	crew  []int32   // by job: its number among the crews
	queue []waiting // of crews
	order []int32   // of the pass
	over  []int32   // the jobs that were open in the first section to miss the goal
	looks int64     // that are left
	pause int64     // looks left when halt is next asked
}

// crew is the jobs that share a most crowded section. All of them rest at least at the skyline
// there, so that lifts all of them at once: only those found to rest higher are kept with their
// levels.
type crew struct {
	section int32
	low     []waiting // on that skyline, as far as known; their levels count from it
	high    []waiting // above it when last looked at
}

// The limits of packing below a skyline.
const (
	skylineEntries = 1 << 24            // of sections and their jobs
	skylineBytes   = math.MaxInt64 / 16 // of all jobs: so that heights can be added
	skylineLooks   = 1 << 20            // looks at jobs, in all packings of a problem
	skylineEach    = 1 << 8             // such looks for each job, if that is less
	skylineSection = 64                 // sections that can be gone over in the time of one look
	skylinePause   = 1 << 13            // looks between two checks whether the search must end
)

// newSkyline prepares packing, or returns nil if the problem is too large for it.
func newSkyline(p *problem, goal int64) *skyline {
	entries, bytes := 0, int64(0)
	for _, j := range p.jobs {
		entries += int(j.hi - j.lo)
		if entries > skylineEntries || j.size > skylineBytes-bytes {
			return nil
		}
		bytes += j.size
	}
	s := &skyline{problem: p, goal: goal, sky: newRoof(p.sections), wait: make([]int64, len(p.jobs)),
		open: make([]int64, p.sections), top: make([]int64, p.sections), crew: make([]int32, len(p.jobs)),
		looks: min(skylineLooks, skylineEach*int64(len(p.jobs)))}
	s.pause = s.looks - skylinePause
	s.load, s.crowd = p.crowds()
	numbers := make([]int32, p.sections)
	for i, j := range p.jobs {
		section := j.lo
		for s.load[section] != s.crowd[i] {
			section++
		}
		if numbers[section] == 0 {
			s.crews = append(s.crews, crew{section: section})
			numbers[section] = int32(len(s.crews))
		}
		s.crew[i] = numbers[section] - 1
	}
	return s
}

// waitFor lets jobs wait for so many eighths of the goal's free bytes in their most crowded
// sections.
func (s *skyline) waitFor(eighths int64) {
	for i, c := range s.crowd {
		s.wait[i] = (s.goal - c) / 8 * eighths
	}
}

// pass packs the jobs; the first in the order goes first if several take part at one height. It
// gives up, and says so, if the packing will be as high as the limit, if it has looked at too many
// jobs, or if it is halted.
func (s *skyline) pass(order []int32, limit int64, halt halt) (answer, bool) {
	a := answer{offsets: make([]int64, len(s.jobs)), method: "skyline"}
	for i := range a.offsets {
		a.offsets[i] = -1
	}
	s.order = order
	s.start()
	q := s.queue
	for len(q) > 0 {
		if s.looks--; s.looks < s.pause {
			if s.pause -= skylinePause; s.looks < 0 || halt(skylinePause/looked) {
				return answer{}, false
			}
		}
		c := &s.crews[q[0].crew]
		first, half := s.first(c)
		if half == nil {
			pop(&q)
			continue
		}
		if q[0].before(first) {
			q[0] = first
			sink(q, 0)
			continue
		}
		i := order[first.rank]
		level := s.sky.height(s.jobs[i].lo, s.jobs[i].hi)
		pop(half)
		if level+s.wait[i] > first.level {
			first.level = level + s.wait[i]
			push(&c.high, first)
			continue
		}
		if top, section := s.place(i, level); top > s.goal {
			if len(s.over) == 0 {
				s.note(section, a.offsets)
			}
			if top >= limit {
				return answer{}, false
			}
		}
		a.offsets[i] = level
		a.height = max(a.height, level+s.jobs[i].size)
	}
	return a, a.height < limit
}

// start puts all jobs into the lower halves of their crews.
func (s *skyline) start() {
	clear(s.sky.whole)
	clear(s.sky.best)
	clear(s.top)
	copy(s.open, s.load)
	s.over = s.over[:0]
	for c := range s.crews {
		s.crews[c].low, s.crews[c].high = s.crews[c].low[:0], s.crews[c].high[:0]
	}
	for rank, i := range s.order {
		c := &s.crews[s.crew[i]]
		c.low = append(c.low, waiting{s.wait[i], int32(rank), s.crew[i]})
	}
	s.queue = s.queue[:0]
	for c := range s.crews {
		low := s.crews[c].low
		for at := len(low)/2 - 1; at >= 0; at-- {
			sink(low, at)
		}
		s.queue = append(s.queue, low[0])
	}
	for at := len(s.queue)/2 - 1; at >= 0; at-- {
		sink(s.queue, at)
	}
}

// first returns the first job of a crew, with the lowest level that lets it take part, and its
// heap; nil if the crew is placed.
func (s *skyline) first(c *crew) (waiting, *[]waiting) {
	floor := s.top[c.section]
	for len(c.high) > 0 {
		i := s.order[c.high[0].rank]
		if c.high[0].level >= floor+s.wait[i] {
			break
		}
		w := c.high[0]
		pop(&c.high)
		push(&c.low, waiting{s.wait[i], w.rank, w.crew})
	}
	if len(c.low) == 0 {
		if len(c.high) == 0 {
			return waiting{}, nil
		}
		return c.high[0], &c.high
	}
	first := c.low[0]
	first.level += floor
	if len(c.high) > 0 && c.high[0].before(first) {
		return c.high[0], &c.high
	}
	return first, &c.low
}

// place puts a job on the skyline, at the height given, and returns the least height that the
// packing will have, and its section: all open jobs in a section of the job will lie above it.
func (s *skyline) place(i int32, level int64) (top int64, section int32) {
	j := s.jobs[i]
	above := int64(0)
	for k := j.lo; k < j.hi; k++ {
		if s.open[k] > above {
			above, section = s.open[k], k
		}
		s.open[k] -= j.size
		s.top[k] = level + j.size
	}
	s.sky.raise(j.lo, j.hi, level+j.size)
	s.looks -= int64(j.hi-j.lo) / skylineSection
	return level + above, section
}

// note lists the jobs of a section that have no offsets yet.
func (s *skyline) note(section int32, offsets []int64) {
	for i, j := range s.jobs {
		if j.lo <= section && section < j.hi && offsets[i] < 0 {
			s.over = append(s.over, int32(i))
		}
	}
}
