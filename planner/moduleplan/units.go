package moduleplan

import (
	"cmp"
	"slices"
	"strings"

	"memopt/graph/modules"
	torchsim "memopt/sim/torch"
)

// unit is a stretch of the forward half: a call of a module, or the steps between two of them.
type unit struct {
	call    int32 // -1 for steps between calls
	options []option
	whole   int  // the option that recomputes all of it, or -1
	block   bool // it has modules in it
}

// option is a way to run a unit.
type option struct {
	calls   []int32 // under checkpoints
	seconds float64 // recomputed
}

// Limits of the search for options of one unit.
const (
	maxParts   = 8  // parts whose subsets are all tried
	maxOptions = 16 // options that are kept
	// Programs whose pairs of options take more simulated steps than quickSteps, about a second, are searched with
	// quickOptions of each unit first.
	quickSteps, quickOptions = 1 << 23, 5
	freeSteps                = 1 << 20 // simulated steps for options of units that are found in any case
)

// finder finds the units of a program.
type finder struct {
	p        *torchsim.Program
	children [][]int32 // by call
	shape    []string  // by call: the operators of its steps
	steps    []int     // by call: how many forward steps it has, those of inner calls included
}

func newFinder(p *torchsim.Program) *finder {
	calls := p.Tree.Calls
	f := &finder{p: p, children: make([][]int32, len(calls)), shape: make([]string, len(calls)),
		steps: make([]int, len(calls))}
	for i, c := range calls {
		if c.Outer >= 0 {
			f.children[c.Outer] = append(f.children[c.Outer], int32(i))
		}
	}
	names := make([]strings.Builder, len(calls))
	for i := range p.Steps[:p.Backward] {
		s := &p.Steps[i]
		for c := s.Call; c >= 0; c = calls[c].Outer {
			names[c].WriteString(s.Op)
			names[c].WriteByte(' ')
			f.steps[c]++
		}
	}
	for i := range names {
		f.shape[i] = names[i].String()
	}
	return f
}

// Usable returns why a call cannot be put under a checkpoint, or "".
func Usable(t *modules.Tree, call int32) string {
	m := &t.Modules[t.Calls[call].Module]
	switch {
	case m.Refusal != "":
		return m.Refusal
	case m.Calls > 1:
		return "a step calls it more than once"
	case !m.Training:
		return "it is in evaluation mode"
	}
	return ""
}

// blocks lists the calls that become units, in order: for a container, those in it. If coarse is set, a container
// without another container and with few parts is a unit itself, and its parts are its options.
func (f *finder) blocks(calls []int32, coarse bool) []int32 {
	var out []int32
	for _, c := range calls {
		if f.steps[c] == 0 {
			continue
		}
		if f.container(c) && !(coarse && f.small(c)) {
			out = append(out, f.blocks(f.children[c], coarse)...)
		} else if Usable(f.p.Tree, c) == "" {
			out = append(out, c)
		}
	}
	return out
}

// small reports whether a container can be a unit: it is no large part of the model.
func (f *finder) small(c int32) bool {
	for _, k := range f.children[c] {
		if f.container(k) {
			return false
		}
	}
	return len(f.children[c]) <= maxParts && 2*f.steps[c] <= f.p.Backward && Usable(f.p.Tree, c) == ""
}

// container reports whether a call is of a module that holds others rather than computing itself: nearly all of its
// steps are of calls in it, and these are the items of a list, or, unless the module is an item itself, some of
// them repeat each other, or one is such a container. A module without modules in it is no item.
func (f *finder) container(c int32) bool {
	if Usable(f.p.Tree, c) != "" {
		return len(f.children[c]) > 0
	}
	inner, items, shapes, nested, repeats := 0, 0, map[string]bool{}, false, false
	for _, k := range f.children[c] {
		inner += f.steps[k]
		if len(f.children[k]) > 0 {
			if f.item(k) {
				items++
			}
			repeats = repeats || shapes[f.shape[k]]
			shapes[f.shape[k]] = true
		}
		nested = nested || f.container(k)
	}
	return (items > 1 || repeats && !f.item(c) || nested || f.stacked(c)) && 3*inner >= 2*f.steps[c]
}

// item reports whether a call runs an item of a Sequential, whose name is its number.
func (f *finder) item(c int32) bool {
	name := f.p.Tree.Modules[f.p.Tree.Calls[c].Module].Name
	return strings.Trim(name[strings.LastIndexByte(name, '.')+1:], "0123456789") == ""
}

// stacked reports whether a call only runs others one after the other, each a single layer, and more than a
// block of a few layers: a model that is one Sequential of them.
func (f *finder) stacked(c int32) bool {
	const few = 8
	inner := 0
	for _, k := range f.children[c] {
		inner += f.steps[k]
	}
	return len(f.children[c]) > few && inner == f.steps[c]
}

// units cuts the program.
func (f *finder) units(coarse bool) []unit {
	var top []int32
	for i, c := range f.p.Tree.Calls {
		if c.Outer < 0 {
			top = append(top, int32(i))
		}
	}
	blocks := f.blocks(top, coarse)
	first := make([]int, len(f.p.Tree.Calls)) // the first step of a call
	for i := range first {
		first[i] = len(f.p.Steps)
	}
	for i := f.p.Backward - 1; i >= 0; i-- {
		for c := f.p.Steps[i].Call; c >= 0; c = f.p.Tree.Calls[c].Outer {
			first[c] = i
		}
	}
	slices.SortFunc(blocks, func(a, b int32) int { return cmp.Compare(first[a], first[b]) })
	units := []unit{between()}
	for _, c := range blocks {
		units = append(units, unit{call: c, whole: -1, options: []option{{}}}, between())
	}
	return units
}

// between is a unit of steps outside all blocks: it cannot be recomputed.
func between() unit { return unit{call: -1, whole: -1, options: []option{{}}} }

// candidates lists the sets of calls that a unit may have under checkpoints: all of it, subsets of its parts, and
// these in all of it, where the parts are recomputed once more but need not all be live at the same time.
func (f *finder) candidates(call int32) [][]int32 {
	sets := [][]int32{{call}}
	var parts []int32
	for _, k := range f.children[call] {
		if f.steps[k] > 1 && Usable(f.p.Tree, k) == "" {
			parts = append(parts, k)
		}
	}
	if len(parts) > maxParts {
		slices.SortStableFunc(parts, func(a, b int32) int { return cmp.Compare(f.steps[b], f.steps[a]) })
		parts = parts[:maxParts]
		slices.Sort(parts)
	}
	for mask := 1; mask < 1<<len(parts); mask++ {
		var set []int32
		for i, k := range parts {
			if mask>>i&1 != 0 {
				set = append(set, k)
			}
		}
		sets = append(sets, set)
	}
	for _, set := range sets[1:] {
		sets = append(sets, append([]int32{call}, set...))
	}
	return sets
}
