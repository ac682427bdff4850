package pack

import (
	"cmp"
	"slices"
)

// job is a buffer as the stages see it: live in the sections [lo, hi). A section is a
// moment at which the set of live buffers cannot grow without one ending first, so two
// jobs are live at once exactly if their ranges of sections meet.
type job struct {
	lo, hi int32
	size   int64
}

// problem is a group of buffers whose live ranges are connected by overlaps.
type problem struct {
	jobs     []job
	ids      []int // jobs[i] is the caller's buffer ids[i]
	sections int
	bound    int64 // the largest sum of sizes live at once
	unit     int64 // sizes are counted in this many bytes
}

// event is a start (id >= 0) or an end (^id) of a buffer.
type event struct {
	time int64
	id   int
}

// split cuts the buffers into problems that do not meet in time. Buffers of size 0 are left out:
// they fit anywhere.
func split(buffers []Buffer) []*problem {
	events := make([]event, 0, 2*len(buffers))
	for i, b := range buffers {
		if b.Size > 0 {
			events = append(events, event{b.Lower, i}, event{b.Upper, ^i})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(min(a.id, 0), min(b.id, 0)), cmp.Compare(a.id, b.id))
	})
	var out []*problem
	var p *problem
	index := make([]int32, len(buffers))
	live, bytes, started := 0, int64(0), false
	for _, e := range events {
		if e.id >= 0 {
			if live == 0 {
				p = &problem{}
				out = append(out, p)
			}
			size := buffers[e.id].Size
			index[e.id] = int32(len(p.jobs))
			p.jobs = append(p.jobs, job{lo: int32(p.sections), size: size})
			p.ids = append(p.ids, e.id)
			p.unit = gcd(p.unit, size)
			bytes += size
			p.bound = max(p.bound, bytes)
			live, started = live+1, true
			continue
		}
		if started {
			p.sections++
			started = false
		}
		j := &p.jobs[index[^e.id]]
		j.hi = int32(p.sections)
		bytes -= j.size
		live--
	}
	for _, p := range out {
		for i := range p.jobs {
			p.jobs[i].size /= p.unit
		}
		p.bound /= p.unit
	}
	return out
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
