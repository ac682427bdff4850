package emit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"memopt/planner/moduleplan"
	"memopt/python/pytorch"
)

// ErrNoLayers: a model has no blocks where torchtitan looks for them.
var ErrNoLayers = errors.New("the step has no module of the name layers.0 or the like: torchtitan puts checkpoints " +
	"around the children of `layers`; trace a model of torchtitan's")

// titanSelection searches the save set of torchtitan's SelectiveAC: operators whose results the checkpoints of all
// blocks keep, but for every second product of matrices.
type titanSelection struct {
	*selection
	ops   []string
	saved map[string]bool
}

// titanProducts are the operators of which torchtitan recomputes every second call (SelectiveAC._wrap_block in
// torchtitan/distributed/activation_checkpoint.py); it counts them together.
var titanProducts = []string{"aten.mm.default", "aten.linear.default"}

// titan chooses between no checkpoints, checkpoints around all blocks, and those with a save set.
func titan(ctx context.Context, p *pytorch.Plan, a *Answer) error {
	s := newTitanSelection(p)
	if len(s.regions) == 0 {
		return ErrNoLayers
	}
	none := s.set(nil)
	if a.Fits = s.fits(none); a.Fits {
		a.Memory = memoryOf(p, none.usage)
		a.Text = a.header("#") + "activation_checkpoint = None\n"
		return nil
	}
	best := s.best(ctx, a.found)
	if a.Fits = best != nil; !a.Fits {
		a.Memory = memoryOf(p, s.lowest)
		return nil
	}
	a.Memory = memoryOf(p, best.usage)
	a.Text = a.header("#") + s.text()
	return nil
}

// best is the cheapest save set found, with each operator as the first one; nil if none fits.
func (s *titanSelection) best(ctx context.Context, tell func()) (best *setting) {
	var found map[string]bool
	for _, first := range append([]string{""}, s.ops...) {
		if best != nil && ctx.Err() != nil {
			break
		}
		x := s.set(s.blocks())
		s.saved = map[string]bool{}
		if first != "" {
			s.saved[first] = true
			s.mark(x)
			s.run(x)
		}
		if !s.fits(x) {
			continue
		}
		tell()
		s.grow(ctx, x)
		if best == nil || x.usage.Seconds < best.usage.Seconds {
			best, found = x, s.saved
		}
	}
	s.saved = found
	return best
}

// newTitanSelection finds the blocks, and the operators that all of them may keep. Their checkpoints do not stop early.
func newTitanSelection(p *pytorch.Plan) *titanSelection {
	program := *p.Program
	program.Early = false
	s := &titanSelection{selection: &selection{p: p, sim: program.Simulator(), lowest: p.Baseline.Usage},
		saved: map[string]bool{}}
	keepable := program.Keepable()
	for c := range program.Tree.Calls {
		rest, ok := strings.CutPrefix(s.name(int32(c)), "layers.")
		if ok && !strings.Contains(rest, ".") {
			s.regions = append(s.regions, s.region(int32(c), slices.Repeat([]bool{true}, len(keepable))))
		}
	}
	worth := map[string]float64{}
	not := map[string]bool{}
	for i := range s.regions {
		for _, it := range s.kept(&s.regions[i], func(string) bool { return true }) {
			not[it.name] = not[it.name] || !keepable[it.step]
			worth[it.name] = max(worth[it.name], it.seconds/float64(max(it.bytes, 1)))
		}
	}
	for i := range s.regions {
		for _, it := range s.regions[i].items {
			if _, ok := worth[it.name]; ok && !not[it.name] && !slices.Contains(s.ops, it.name) {
				s.ops = append(s.ops, it.name)
			}
		}
	}
	slices.SortStableFunc(s.ops, func(a, b string) int { return cmp.Compare(worth[b], worth[a]) })
	return s
}

// blocks are the calls of all blocks.
func (s *titanSelection) blocks() (out []int32) {
	for i := range s.regions {
		out = append(out, s.regions[i].call)
	}
	return out
}

// kept are the items of a block that a save set keeps.
func (s *titanSelection) kept(r *region, saved func(op string) bool) (out []item) {
	products := 0
	for _, it := range r.items {
		if slices.Contains(titanProducts, it.name) {
			if products++; products%2 == 0 {
				continue
			}
		}
		if saved(it.name) {
			out = append(out, it)
		}
	}
	return out
}

// grow adds operators to the save set for as long as that fits and costs less.
func (s *titanSelection) grow(ctx context.Context, x *setting) {
	for better := true; better; {
		better = false
		for _, op := range s.ops {
			if s.saved[op] || ctx.Err() != nil {
				continue
			}
			s.saved[op] = true
			if s.try(x, func() { s.mark(x) }, func() { delete(s.saved, op); s.mark(x) }) {
				better = true
			}
		}
	}
}

// mark makes the steps that a setting keeps those of the save set.
func (s *titanSelection) mark(x *setting) {
	clear(x.kept)
	for i := range s.regions {
		for _, it := range s.kept(&s.regions[i], func(op string) bool { return s.saved[op] }) {
			x.kept[it.step] = true
		}
	}
}

// text is the Python of the save set.
func (s *titanSelection) text() string {
	random := pytorch.PythonBool(s.p.Random(&moduleplan.Plan{Calls: s.blocks()}))
	if len(s.saved) == 0 {
		return "from torchtitan.distributed.activation_checkpoint import FullAC\n\n" +
			"activation_checkpoint = FullAC.Config(preserve_rng_state=" + random + ")\n"
	}
	var ops strings.Builder
	for _, op := range s.ops {
		if s.saved[op] {
			fmt.Fprintf(&ops, "            torch.ops.%s,\n", op)
		}
	}
	return fmt.Sprintf(titanText, ops.String(), random)
}

const titanText = `from dataclasses import dataclass

import torch
from torchtitan.distributed.activation_checkpoint import SelectiveAC


class PlannedAC(SelectiveAC):
    @dataclass(kw_only=True, slots=True)
    class Config(SelectiveAC.Config):
        pass

    def get_save_ops(self):
        return {
%s        }


activation_checkpoint = PlannedAC.Config(preserve_rng_state=%s, force_recompute_mm_shapes_by_fqns=[])
`
