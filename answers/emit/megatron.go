package emit

import (
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
	lowest := p.Baseline.Usage
	var best *megatronSetting
	var least torchsim.Usage
	for _, x := range megatronSettings(p.Program, layers, words) {
		if best != nil && ctx.Err() != nil {
			break
		}
		u, err := x.run(p)
		if err != nil {
			continue // one region frees what another one reads
		}
		if u.Peak < lowest.Peak {
			lowest = u
		}
		if u.Peak <= p.Limit && (best == nil || u.Seconds < least.Seconds) {
			best, least = &x, u
			a.found()
		}
	}
	if a.Fits = best != nil; !a.Fits {
		a.Memory = memoryOf(p, lowest)
		return nil
	}
	a.Memory = memoryOf(p, least)
	a.Text = a.header("#") + missing(words) + "RECOMPUTE_ARGS=(" + best.lines("\n    ") + "\n)\n"
	return nil
}

// lines are the arguments, each behind a break.
func (x *megatronSetting) lines(before string) (out string) {
	for _, words := range x.arguments {
		out += before + "--" + strings.Join(words, " ")
	}
	return out
}

// run simulates a step with the setting. The error is a *torchsim.DiscardError.
func (x *megatronSetting) run(p *pytorch.Plan) (torchsim.Usage, error) {
	state := generatorState(p)
	for i := range x.regions {
		x.regions[i].State, x.regions[i].Aside = state, state
	}
	return p.Program.Rerun(x.regions)
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
