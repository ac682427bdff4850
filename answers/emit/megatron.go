package emit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
)

// ErrNoRepeated: a model has no layers that Megatron-LM's settings could be about.
var ErrNoRepeated = errors.New("the step has no two modules that are called once each and have the names layers.0, " +
	"layers.1 or the like: Megatron-LM decides about all layers at once")

// megatronSetting is one choice of Megatron-LM's arguments, each a name and its values.
type megatronSetting struct {
	arguments [][]string
	regions   []torchsim.Region
}

// megatron tries all settings of Megatron-LM's recomputation: lists of modules, and whole layers.
func megatron(ctx context.Context, p *pytorch.Plan, a *Answer) error {
	layers := layersOf(p.Program)
	if len(layers) == 0 {
		return ErrNoRepeated
	}
	words := megatronWords(p.Program, layers)
	settings := megatronSettings(p.Program, layers, words)
	choices, absent := offloads(p, layers, a.moves)
	best, lowest := megatronSearch(ctx, p, a, settings, choices)
	if a.Fits = best != nil; !a.Fits {
		best = lowest
	}
	a.Memory = memoryOf(p, best.usage)
	a.movesTo(best.moved, best.waited/p.Step)
	if !a.Fits {
		return nil
	}
	a.Text = a.header("#") + missing(words) + absence(p, absent) + "RECOMPUTE_ARGS=(" +
		best.lines("\n    ") + "\n)\n"
	return nil
}

// megatronRun is a setting, modules whose inputs move, and the memory of both.
type megatronRun struct {
	arguments [][]string
	usage     torchsim.Usage // with the time of waiting for copies
	moved     int64
	waited    float64
}

// megatronSearch returns the cheapest of all settings that fits, of those the one that moves the fewest bytes, or nil;
// and the lowest memory.
func megatronSearch(ctx context.Context, p *pytorch.Plan, a *Answer, settings []megatronSetting, choices []offload) (
	best, lowest *megatronRun) {
	lowest = &megatronRun{usage: p.Baseline.Usage}
	for i := range choices {
		for k := range settings {
			if ctx.Err() != nil && (best != nil || i > 0) {
				return best, lowest
			}
			x, least := &settings[k], 0.0
			for _, r := range x.regions {
				for _, at := range r.Steps {
					least += p.Program.Steps[at].Seconds
				}
			}
			if !choices[i].beside(x) || best != nil && least > best.usage.Seconds {
				continue
			}
			run, err := x.run(p, &choices[i])
			if err != nil || run.moved > a.moves.HostBudget {
				continue // one region frees a tensor that another one reads, or moves
			}
			if run.usage.Peak < lowest.usage.Peak {
				lowest = run
			}
			if run.usage.Peak <= p.Limit && run.cheaper(best) {
				best = run
				a.found()
			}
		}
	}
	return best, lowest
}

// cheaper compares the times, then the bytes that move. nil is dearer than all.
func (x *megatronRun) cheaper(than *megatronRun) bool {
	return than == nil || cmp.Or(cmp.Compare(x.usage.Seconds, than.usage.Seconds), cmp.Compare(x.moved, than.moved)) < 0
}

// lines are the arguments, each behind a break.
func (x *megatronRun) lines(before string) (out string) {
	for _, words := range x.arguments {
		out += before + "--" + strings.Join(words, " ")
	}
	return out
}

// run simulates a step with the setting. The error is a *torchsim.DiscardError, or a *torchsim.MoveError.
func (x *megatronSetting) run(p *pytorch.Plan, o *offload) (*megatronRun, error) {
	state := generatorState(p)
	for i := range x.regions {
		x.regions[i].State, x.regions[i].Aside = state, state
	}
	out := &megatronRun{arguments: slices.Concat(x.arguments, o.arguments())}
	moved := &torchsim.Moved{Program: p.Program, Regions: x.regions}
	if len(o.names) > 0 {
		var err error
		if moved, err = p.Program.Move(&o.moves, x.regions); err != nil {
			return nil, err
		}
		out.moved, out.waited = moved.Bytes, moved.Seconds
	}
	u, err := moved.Rerun(moved.Regions)
	u.Seconds += out.waited
	out.usage = u
	return out, err
}

// generatorState is the bytes on the step's device of a generator's state, which checkpoints keep whether or not the
// step draws.
func generatorState(p *pytorch.Plan) int64 {
	if p.Source.Device == "cpu" {
		return torchsim.GeneratorState
	}
	return 0
}

// missing is a line of comment on the words that the model has no parts for.
func missing(words []word) string {
	moe := slices.ContainsFunc(words, func(w word) bool { return w.name == "moe" && w.regions != nil })
	var out []string
	for _, w := range words {
		usual := w.name == "core_attn" || w.name == "layernorm" || w.name == "mlp" && !moe
		if w.regions == nil && (usual || w.there) {
			out = append(out, w.name)
		}
	}
	if out == nil {
		return ""
	}
	return "# Not tried, since not every layer has such a part that could run again: " + strings.Join(out, ", ") + ".\n"
}

// absence is a line of comment on the modules whose inputs cannot move.
func absence(p *pytorch.Plan, absent []string) string {
	if absent != nil && !packed(p.Program) {
		return "# No moves were tried, since the file does not list the tensors that autograd saves: " +
			"trace the step anew.\n"
	}
	if len(absent) == 0 {
		return ""
	}
	return "# Not moved, since less than two layers have such a part: " + strings.Join(absent, ", ") + ".\n"
}

// megatronSettings lists all settings, those without recomputation first.
func megatronSettings(p *torchsim.Program, layers []int32, words []word) []megatronSetting {
	var there []word
	for _, w := range words {
		if w.regions != nil {
			there = append(there, w)
		}
	}
	out := []megatronSetting{{}}
	for bits := 1; bits < 1<<len(there); bits++ {
		x := megatronSetting{}
		list := []string{"recompute-modules"}
		for i, w := range there {
			if bits>>i&1 == 1 {
				list = append(list, w.name)
				x.regions = append(x.regions, w.regions...)
			}
		}
		x.arguments = [][]string{{"recompute-granularity", "selective"}, list}
		if disjoint(x.regions) {
			out = append(out, x)
		}
	}
	steps := make([][]int32, len(layers))
	for i, call := range layers {
		steps[i] = p.Within(call)
	}
	for n := 1; n <= len(layers); n++ {
		block, uniform := fullSetting("block", n), fullSetting("uniform", n)
		for _, list := range steps[:n] {
			block.regions = append(block.regions, whole(list)...)
		}
		for chunk := range slices.Chunk(steps, n) {
			uniform.regions = append(uniform.regions, whole(slices.Concat(chunk...))...)
		}
		out = append(out, block, uniform)
	}
	return out
}

// fullSetting has the arguments of checkpoints around whole layers.
func fullSetting(method string, n int) megatronSetting {
	return megatronSetting{arguments: [][]string{{"recompute-granularity", "full"}, {"recompute-method", method},
		{"recompute-num-layers", strconv.Itoa(n)}}}
}

// disjoint reports whether no step is in two regions.
func disjoint(list []torchsim.Region) bool {
	seen := map[int32]bool{}
	for _, r := range list {
		for _, at := range r.Steps {
			if seen[at] {
				return false
			}
			seen[at] = true
		}
	}
	return true
}
