package offload

import (
	"fmt"

	"memopt/planner/remat"
)

// Outcome is the outcome of a schedule.
type Outcome struct {
	Cost     float64 // of its computes
	Makespan float64 // its end, with all that computations wait for
	Peak     int64   // bytes on the device
	HostPeak int64   // bytes of copies on the host
}

// Replay executes the steps by the rules of the package and returns their outcome. The error names the
// first step that is not allowed. Budgets play no part.
func Replay(p *remat.Problem, link Link, steps []Step) (*Outcome, error) {
	c, err := link.clock(p.Unit)
	if err != nil {
		return nil, err
	}
	values := p.Values()
	r := &replay{Simulation: remat.NewSimulation(p), p: p, link: c, values: values,
		copies: make([]copies, len(values.Maker)), ends: hostEnds(p, values, steps)}
	for i, s := range steps {
		r.at = int32(i)
		if err := r.step(s); err != nil {
			return nil, fmt.Errorf("offload: step %d (%s): %w", i, s.Kind, err)
		}
		r.hosted -= r.ends[i]
	}
	cost, err := r.End()
	if err != nil {
		return nil, err
	}
	for u, kept := range values.Kept {
		if kept && !r.Live(int32(u)) {
			return nil, fmt.Errorf("offload: value %d must be live at the end", u)
		}
	}
	return &Outcome{Cost: cost, Makespan: r.now, Peak: r.Peak, HostPeak: r.hostPeak}, nil
}

// copies is the state of a value's copies.
type copies struct {
	out, in   float64 // when the newest ones end
	onHost    bool    // there is one, be it under way
	going     bool    // the copy out has not been waited for
	returning bool    // nor the copy back
}

// replay is the state of Replay.
type replay struct {
	*remat.Simulation
	p        *remat.Problem
	link     clock
	values   remat.Values
	copies   []copies // by value
	ends     []int64  // by step: bytes on the host that go behind it
	at       int32
	now      float64 // the clocks
	out, in  float64
	hosted   int64
	hostPeak int64
}

func (r *replay) step(s Step) error {
	if s.Kind == Compute {
		return r.compute(s.Of)
	}
	if s.Of < 0 || int(s.Of) >= len(r.copies) {
		return fmt.Errorf("there is no value at position %d", s.Of)
	}
	u, c := s.Of, &r.copies[s.Of]
	size := r.size(u)
	switch s.Kind {
	case Free:
		if c.going || c.returning {
			return fmt.Errorf("value %s is freed while a copy of it is under way", r.name(u))
		}
		return r.Free(u)
	case Offload:
		switch {
		case !r.Live(u) || c.returning:
			return fmt.Errorf("value %s is not on the device", r.name(u))
		case r.node(u).Stay || r.node(u).View:
			return fmt.Errorf("value %s must not move", r.name(u))
		case c.onHost:
			return fmt.Errorf("value %s is on the host already", r.name(u))
		}
		r.out = max(r.out, r.now) + r.link.duration(size)
		*c = copies{out: r.out, onHost: true, going: true}
		r.hosted += size
		r.hostPeak = max(r.hostPeak, r.hosted)
	case Reload:
		if !c.onHost {
			return fmt.Errorf("value %s has no copy on the host", r.name(u))
		}
		if err := r.Return(u); err != nil {
			return err
		}
		r.in = max(r.in, r.now, c.out) + r.link.duration(size)
		c.in, c.returning = r.in, true
	case Wait:
		switch {
		case c.returning:
			r.now, c.returning, c.going = max(r.now, c.in), false, false
		case c.going:
			r.now, c.going = max(r.now, c.out), false
		default:
			return fmt.Errorf("no copy of value %s is under way", r.name(u))
		}
	}
	return nil
}

func (r *replay) compute(v int32) error {
	if v >= 0 && int(v) < len(r.p.Nodes) {
		for _, u := range r.p.Nodes[v].Inputs {
			if r.copies[r.values.Root[u]].returning {
				return fmt.Errorf("value %s is read before its copy back has ended", r.name(u))
			}
		}
		for u := r.values.First[v]; u < r.values.First[v+1]; u++ {
			if c := &r.copies[u]; !r.Live(u) && c.onHost {
				c.onHost = false // its host copy is of the memory before
			}
		}
	}
	if err := r.Compute(v); err != nil {
		return err
	}
	r.now += r.p.Nodes[v].Cost
	return nil
}

func (r *replay) node(u int32) *remat.Computation { return &r.p.Nodes[r.values.Maker[u]] }

func (r *replay) size(u int32) int64 {
	m := r.values.Maker[u]
	return r.p.Nodes[m].Outputs[u-r.values.First[m]].Size
}

// name is the name of a value in messages.
func (r *replay) name(u int32) string {
	m := r.values.Maker[u]
	if id := r.p.Nodes[m].Outputs[u-r.values.First[m]].ID; id != "" {
		return fmt.Sprintf("%q", id)
	}
	return fmt.Sprint(u)
}

// hostEnds lists by step the bytes on the host that no step behind it reads: those of copies whose last
// reload has been waited for, or that are never read back and have been waited for.
func hostEnds(p *remat.Problem, values remat.Values, steps []Step) []int64 {
	ends := make([]int64, len(steps))
	last := make([]int32, len(values.Maker)) // one past the newest wait for a value that has a host copy
	size := make([]int64, len(values.Maker)) // of the copy there is, or 0
	finish := func(u int32) {
		if size[u] > 0 && last[u] > 0 {
			ends[last[u]-1] += size[u]
		}
		size[u], last[u] = 0, 0
	}
	for i, s := range steps {
		switch {
		case s.Kind == Compute && s.Of >= 0 && int(s.Of) < len(p.Nodes):
			for u := values.First[s.Of]; u < values.First[s.Of+1]; u++ {
				finish(u)
			}
		case s.Kind == Compute || s.Of < 0 || int(s.Of) >= len(last):
		case s.Kind == Offload:
			m := values.Maker[s.Of]
			finish(s.Of)
			size[s.Of] = p.Nodes[m].Outputs[s.Of-values.First[m]].Size
		case s.Kind == Wait && size[s.Of] > 0:
			last[s.Of] = int32(i) + 1
		}
	}
	for u := range last {
		finish(int32(u))
	}
	return ends
}
