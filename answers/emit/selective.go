package emit

import (
	"context"
	"slices"

	"memopt/graph/modules"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
)

// region is a call of a module that may go under a checkpoint.
type region struct {
	call  int32
	items []item
}

// item is an operator of a region whose results its checkpoint may keep.
type item struct {
	candidate
	step int
	at   int // among the operators of that name in the region
}

// setting is a choice of the mechanism: regions under checkpoints, and the steps that these keep.
type setting struct {
	on    []bool
	kept  []bool
	usage torchsim.Usage
}

// selection searches settings of selective checkpoints within a budget.
type selection struct {
	p       *pytorch.Plan
	sim     *torchsim.Simulator
	regions []region
	classes [][]sibling // equal operators of equal regions, those that save most time for a byte first
	lowest  torchsim.Usage
}

// selective chooses modules, and for each the operators whose results its checkpoint keeps.
func selective(ctx context.Context, p *pytorch.Plan, a *Answer) error {
	s := newSelection(p)
	best := s.best(ctx, a.found)
	if a.Fits = best != nil; !a.Fits {
		a.Memory = memoryOf(p, s.lowest)
		return nil
	}
	a.Memory = memoryOf(p, best.usage)
	a.Text = s.text(a, best)
	return nil
}

// newSelection finds the regions: the modules of the plan and all blocks, none of them in another one.
func newSelection(p *pytorch.Plan) *selection {
	s := &selection{p: p, sim: p.Program.Simulator()}
	calls := slices.Clone(p.Chosen.Calls)
	if p.Every != nil {
		calls = append(calls, p.Every.Calls...)
	}
	slices.Sort(calls)
	keepable := p.Program.Keepable()
	for _, c := range slices.Compact(calls) {
		s.regions = append(s.regions, s.region(c, keepable))
	}
	s.classes = classesOf(s.candidates())
	s.lowest = p.Baseline.Usage
	return s
}

// region lists the operators of a call.
func (s *selection) region(call int32, keepable []bool) region {
	r := region{call: call}
	count := map[string]int{}
	program := s.p.Program
	for i := range program.Steps[:program.Backward] {
		step := &program.Steps[i]
		if step.Call < 0 || !program.Tree.Within(step.Call, call) {
			continue
		}
		it := item{candidate{name: step.Op, seconds: step.Seconds}, i, count[step.Op]}
		count[step.Op]++
		for _, id := range step.Makes {
			it.bytes += program.Storages[id].Bytes
		}
		if keepable[i] {
			r.items = append(r.items, it)
		}
	}
	return r
}

// candidates are the items of each region.
func (s *selection) candidates() [][]candidate {
	out := make([][]candidate, len(s.regions))
	for i := range s.regions {
		for _, it := range s.regions[i].items {
			out[i] = append(out[i], it.candidate)
		}
	}
	return out
}

// best is the cheapest setting found; nil if none fits.
func (s *selection) best(ctx context.Context, tell func()) (best *setting) {
	for _, start := range s.starts() {
		if x := s.set(start); s.fits(x) {
			tell()
			s.grow(ctx, x)
			if best == nil || x.usage.Seconds < best.usage.Seconds {
				best = x
			}
		}
	}
	return best
}

// starts are choices of regions: none, those of the plan of modules. Of modules in each other the outer one counts.
func (s *selection) starts() [][]int32 { return [][]int32{nil, s.outer(s.p.Chosen.Calls)} }

// outer leaves out calls that lie in others of the list.
func (s *selection) outer(calls []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(calls), func(c int32) bool {
		return slices.ContainsFunc(calls, func(o int32) bool { return o != c && s.p.Program.Tree.Within(c, o) })
	})
}

// set is a setting that keeps no results.
func (s *selection) set(calls []int32) *setting {
	x := &setting{on: make([]bool, len(s.regions)), kept: make([]bool, len(s.p.Program.Steps))}
	for i := range s.regions {
		x.on[i] = slices.Contains(calls, s.regions[i].call)
	}
	s.run(x)
	return x
}

// run simulates a setting.
func (s *selection) run(x *setting) {
	x.usage = s.sim.RunKeeping(s.calls(x), x.kept)
	if x.usage.Peak < s.lowest.Peak {
		s.lowest = x.usage
	}
}

// calls are those of the regions that are on.
func (s *selection) calls(x *setting) (out []int32) {
	for i, on := range x.on {
		if on {
			out = append(out, s.regions[i].call)
		}
	}
	return out
}

func (s *selection) fits(x *setting) bool { return x.usage.Peak <= s.p.Limit }

// try takes a change of a setting that fits and costs less; else undo takes it back.
func (s *selection) try(x *setting, change, undo func()) bool {
	old := x.usage
	change()
	if s.run(x); s.fits(x) && x.usage.Seconds < old.Seconds {
		return true
	}
	undo()
	x.usage = old
	return false
}

// grow keeps more, for as long as that fits: equal operators of many regions at once, then of single ones.
func (s *selection) grow(ctx context.Context, x *setting) {
	for better := true; better && ctx.Err() == nil; {
		better = false
		for _, class := range s.classes {
			if ctx.Err() != nil {
				return
			}
			better = s.keep(x, class) || better
		}
	}
}

// keep keeps an operator in as many of its regions as fits, the last ones first: half of those that are left if not
// all do.
func (s *selection) keep(x *setting, class []sibling) (better bool) {
	var open []int // steps
	for _, m := range slices.Backward(class) {
		if step := s.regions[m.region].items[m.item].step; x.on[m.region] && !x.kept[step] {
			open = append(open, step)
		}
	}
	for n := len(open); n > 0 && len(open) > 0; {
		n = min(n, len(open))
		if s.try(x, func() { mark(x.kept, open[:n], true) }, func() { mark(x.kept, open[:n], false) }) {
			open, better = open[n:], true
			continue
		}
		n /= 2
	}
	return better
}

func mark(list []bool, at []int, with bool) {
	for _, i := range at {
		list[i] = with
	}
}

// name is that of a call's module.
func (s *selection) name(call int32) string {
	tree := s.p.Program.Tree
	id := tree.Calls[call].Module
	if id == modules.None {
		return ""
	}
	return tree.Modules[id].Name
}
