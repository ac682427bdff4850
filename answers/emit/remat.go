package emit

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
)

// remat is a search for settings of torch_remat: blocks under checkpoints, and modules in them whose tensors are saved.
type remat struct {
	p       *pytorch.Plan
	blocks  []rematBlock
	classes [][]sibling // equal modules of equal blocks, those that save most time for a byte first
	state   int64       // bytes of the state of a generator
	lowest  torchsim.Usage
}

// rematBlock is a module that may go under a checkpoint.
type rematBlock struct {
	call   int32
	steps  []int32
	parts  []rematPart
	random bool
}

// rematPart is a module in a block that may be a region of its own.
type rematPart struct {
	candidate // whose name is that in the block
	call      int32
	steps     []int32
}

// rematSetting says which blocks are under checkpoints, and which of their parts are saved.
type rematSetting struct {
	on    []bool
	saved [][]bool // by block and part
	usage torchsim.Usage
}

// rematRegions chooses blocks, and modules in them that are saved.
func rematRegions(ctx context.Context, p *pytorch.Plan, a *Answer) error {
	s := newRemat(p)
	best := s.best(ctx, a.found)
	if a.Fits = best != nil; !a.Fits {
		a.Memory = memoryOf(p, s.lowest)
		return nil
	}
	a.Memory = memoryOf(p, best.usage)
	a.Text = s.text(a, best)
	return nil
}

// newRemat finds blocks and their parts: the modules of the plan and all blocks, none of them in another one.
func newRemat(p *pytorch.Plan) *remat {
	s := &remat{p: p, lowest: p.Baseline.Usage, state: generatorState(p)}
	calls := slices.Clone(p.Chosen.Calls)
	if p.Every != nil {
		calls = append(calls, p.Every.Calls...)
	}
	slices.Sort(calls)
	savable := p.Program.Savable()
	for _, c := range outermost(p, slices.Compact(calls)) {
		if steps := p.Program.Within(c); len(steps) > 0 {
			s.blocks = append(s.blocks, s.block(c, steps, savable))
		}
	}
	s.classes = classesOf(s.candidates())
	return s
}

// outermost leaves out calls that lie in others of the list.
func outermost(p *pytorch.Plan, calls []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(calls), func(c int32) bool {
		return slices.ContainsFunc(calls, func(o int32) bool { return o != c && p.Tree.Within(c, o) })
	})
}

// block lists the parts of a block: the modules in it that run once and may be saved.
func (s *remat) block(call int32, steps []int32, savable []bool) rematBlock {
	tree, program := s.p.Tree, s.p.Program
	b := rematBlock{call: call, steps: steps}
	for _, at := range steps {
		b.random = b.random || program.Steps[at].Random
	}
	around := callName(tree, call)
	times := map[string]int{}
	for c := call + 1; int(c) < len(tree.Calls) && tree.Within(c, call); c++ {
		name, ok := strings.CutPrefix(callName(tree, c), around+".")
		times[name]++
		if !ok || times[name] > 1 {
			continue
		}
		part := rematPart{candidate{name: name}, c, program.Within(c)}
		may := len(part.steps) > 0
		for _, at := range part.steps {
			part.seconds += program.Steps[at].Seconds
			may = may && savable[at]
			for _, id := range program.Steps[at].Makes {
				part.bytes += program.Storages[id].Bytes
			}
		}
		if may {
			b.parts = append(b.parts, part)
		}
	}
	b.parts = slices.DeleteFunc(b.parts, func(x rematPart) bool { return times[x.name] > 1 })
	return b
}

// candidates are the parts of each block.
func (s *remat) candidates() [][]candidate {
	out := make([][]candidate, len(s.blocks))
	for i := range s.blocks {
		for _, part := range s.blocks[i].parts {
			out[i] = append(out[i], part.candidate)
		}
	}
	return out
}

// best is the cheapest setting found; nil if none fits.
func (s *remat) best(ctx context.Context, tell func()) (best *rematSetting) {
	for _, calls := range s.starts() {
		if x := s.set(calls); s.fits(x) {
			tell()
			s.grow(ctx, x)
			if best == nil || x.usage.Seconds < best.usage.Seconds {
				best = x
			}
		}
	}
	return best
}

// starts are choices of blocks: none, those of the plan of modules, all, and as few of the first ones as fit.
func (s *remat) starts() [][]int32 {
	out := [][]int32{nil, outermost(s.p, s.p.Chosen.Calls)}
	if s.p.Every == nil {
		return out
	}
	all := outermost(s.p, s.p.Every.Calls)
	first := sort.Search(len(all), func(n int) bool { return s.fits(s.set(all[:n])) })
	return append(out, all, all[:first])
}

// set is a setting that saves no parts.
func (s *remat) set(calls []int32) *rematSetting {
	x := &rematSetting{on: make([]bool, len(s.blocks)), saved: make([][]bool, len(s.blocks))}
	for i := range s.blocks {
		x.on[i] = slices.Contains(calls, s.blocks[i].call)
		x.saved[i] = make([]bool, len(s.blocks[i].parts))
	}
	s.run(x)
	return x
}

// run simulates a setting.
func (s *remat) run(x *rematSetting) {
	var list []torchsim.Region
	for i := range s.blocks {
		if !x.on[i] {
			continue
		}
		b := &s.blocks[i]
		r := torchsim.Region{Mechanism: torchsim.Replayed, Steps: b.steps}
		for _, part := range s.regions(x, i) {
			r.Saved = append(r.Saved, part.steps)
		}
		if b.random {
			r.State, r.Aside = s.state*int64(1+len(r.Saved)), s.state
		}
		list = append(list, r)
	}
	x.usage, _ = s.p.Program.Rerun(list) // the error is one of other mechanisms
	if x.usage.Peak < s.lowest.Peak {
		s.lowest = x.usage
	}
}

// regions are the saved parts of a block that lie in no other saved one.
func (s *remat) regions(x *rematSetting, block int) (out []rematPart) {
	parts := s.blocks[block].parts
	for k, part := range parts {
		if x.saved[block][k] && !s.inSaved(x, block, k) {
			out = append(out, part)
		}
	}
	return out
}

// inSaved reports whether a part lies in another one that is saved.
func (s *remat) inSaved(x *rematSetting, block, k int) bool {
	parts := s.blocks[block].parts
	for o := range k {
		if x.saved[block][o] && s.p.Tree.Within(parts[k].call, parts[o].call) {
			return true
		}
	}
	return false
}

func (s *remat) fits(x *rematSetting) bool { return x.usage.Peak <= s.p.Limit }

// grow saves more, for as long as that fits and costs less: equal parts of many blocks at once, then of single ones.
func (s *remat) grow(ctx context.Context, x *rematSetting) {
	for better := true; better && ctx.Err() == nil; {
		better = false
		for _, class := range s.classes {
			if ctx.Err() != nil {
				return
			}
			better = s.save(x, class) || better
		}
	}
}

// save saves a part in as many of its blocks as fits, the last ones first: half of those that are left if not all do.
func (s *remat) save(x *rematSetting, class []sibling) (better bool) {
	var open []sibling
	for _, m := range slices.Backward(class) {
		if x.on[m.region] && !x.saved[m.region][m.item] {
			open = append(open, m)
		}
	}
	for n := len(open); n > 0 && len(open) > 0; {
		n = min(n, len(open))
		if s.try(x, open[:n]) {
			open, better = open[n:], true
			continue
		}
		n /= 2
	}
	return better
}

// try saves parts if that fits and costs less.
func (s *remat) try(x *rematSetting, list []sibling) bool {
	mark := func(with bool) {
		for _, m := range list {
			x.saved[m.region][m.item] = with
		}
	}
	old := x.usage
	mark(true)
	if s.run(x); s.fits(x) && x.usage.Seconds < old.Seconds {
		return true
	}
	mark(false)
	x.usage = old
	return false
}

// text is the Python of a setting: a function apply for a script that has its model.
func (s *remat) text(a *Answer, x *rematSetting) string {
	var b strings.Builder
	b.WriteString(a.header("#"))
	b.WriteString("# Blocks under checkpoints, and the modules in them that are saved: these do not run again.\n")
	b.WriteString(rematHead)
	var names []string // of groups: the parts that they save
	groups := map[string][]string{}
	random := false
	for i := range s.blocks {
		if !x.on[i] {
			continue
		}
		random = random || s.blocks[i].random
		key := ""
		for _, part := range s.regions(x, i) {
			key += "\n            " + pytorch.PythonString(part.name) + ","
		}
		if groups[key] == nil {
			names = append(names, key)
		}
		groups[key] = append(groups[key], callName(s.p.Tree, s.blocks[i].call))
	}
	for _, key := range names {
		b.WriteString("    (\n        [\n")
		for _, name := range groups[key] {
			fmt.Fprintf(&b, "            %s,\n", pytorch.PythonString(name))
		}
		if key != "" {
			key += "\n        "
		}
		fmt.Fprintf(&b, "        ],\n        [%s],\n    ),\n", key)
	}
	hooks := "()"
	if random {
		hooks = "(Generators(),)"
	}
	fmt.Fprintf(&b, rematTail, hooks)
	return b.String()
}

const rematHead = `import torch
import torch_remat as remat

REGIONS = [
`

const rematTail = `]


class Generators:
    def snapshot(self):
        return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore(self, state):
        torch.set_rng_state(state[0])
        if state[1]:
            torch.cuda.set_rng_state_all(state[1])


def saved(forward, name):
    def run(*args, **kwargs):
        out = remat.region(forward, name, recompute=False)(*args, **kwargs)
        for x in out if isinstance(out, (tuple, list)) else [out]:
            if x is not None:
                remat.recompute_needs_tensor(x)
        return out

    return run


def apply(model):
    for blocks, names in REGIONS:
        for block in blocks:
            module = model.get_submodule(block)
            for name in names:
                part = module.get_submodule(name)
                part.forward = saved(part.forward, name)
            module.forward = remat.checkpoint(region_name=block, recompute_state_hooks=%s)(module.forward)
`
