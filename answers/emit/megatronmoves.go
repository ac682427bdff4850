package emit

import (
	"slices"
	"strconv"

	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
)

// Moves says whether values may move to the host.
type Moves struct {
	HostBudget int64   // the most bytes there; 0: no moves
	Link       float64 // bytes per second each way
}

// offloadNames are the words of --offload-modules (TransformerConfig.offload_modules in
// megatron/core/transformer/transformer_config.py), less those of fused kernels that PyTorch's operators do not show.
var offloadNames = []string{"attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"}

// minElements is Megatron-LM's default of --min-offloaded-tensor-size.
const minElements = 1 << 20

// groups are the parts of a layer whose saved tensors Megatron-LM moves, by their words. maker is the forward step that
// makes a storage.
func (x *parts) groups(p *torchsim.Program, maker map[torchsim.StorageID]int32) map[string]torchsim.Group {
	out := map[string]torchsim.Group{}
	add := func(name string, steps []int32, commit, hold int32, released func(maker int32) bool) {
		if len(steps) > 0 {
			out[name] = torchsim.Group{Name: name, Steps: steps, Commit: commit, Hold: hold,
				Releases: incoming(p, maker, steps, released)}
		}
	}
	if len(x.core) == 0 || len(x.norms[1]) == 0 {
		return out
	}
	before := x.norms[1][0] - 1 // the mlp's norm
	end, core := x.attention[len(x.attention)-1], x.core[len(x.core)-1]
	all := func(int32) bool { return true }
	within := func(at int32) bool { return at >= x.attention[0] }
	add("attn_norm", x.norms[0], before, before, all)
	if x.up != nil {
		first := slices.IndexFunc(x.attention, func(at int32) bool { return at >= x.core[0] })
		outside := func(at int32) bool { return at < x.attention[0] }
		add("qkv_linear", x.attention[:max(first, 0)], x.core[0]-1, end, outside)
	} else if len(x.qkv) > 0 {
		add("qkv_linear", x.qkv, x.qkv[len(x.qkv)-1], before, func(int32) bool { return false })
	}
	add("core_attn", x.core, core, core, within)
	add("attn_proj", x.attention[indexAfter(x.attention, core):], end, end, within)
	add("mlp_norm", x.norms[1], x.last, x.last, all)
	if len(x.acts) > 0 {
		products := x.fc1[len(x.fc1)-1]
		add("expert_fc1", x.fc1, products, products, all)
		var steps []int32
		for i := range x.acts {
			steps = append(steps, x.acts[i].Steps...)
		}
		last := x.acts[len(x.acts)-1].Until[0]
		add("moe_act", steps, last, last, func(at int32) bool { return slices.Contains(x.fc1, at) })
	}
	return out
}

// indexAfter is the index of the first step behind another one.
func indexAfter(steps []int32, at int32) int {
	i, found := slices.BinarySearch(steps, at)
	if found {
		i++
	}
	return i
}

// incoming are the storages that steps save and that come from steps outside, of which the maker is chosen.
func incoming(p *torchsim.Program, maker map[torchsim.StorageID]int32, steps []int32, chosen func(at int32) bool) (
	out []torchsim.StorageID) {
	for _, at := range steps {
		for _, x := range p.Steps[at].Packed {
			made, ok := maker[x.Storage]
			if ok && !slices.Contains(steps, made) && chosen(made) && !slices.Contains(out, x.Storage) {
				out = append(out, x.Storage)
			}
		}
	}
	return out
}

// offload is a choice of --offload-modules.
type offload struct {
	names []string
	moves torchsim.Moves
}

// offloads lists the choices of modules whose inputs move, the empty one first: each is in all layers that have such a
// part, and the last of each name stays (PipelineOffloadManager.post_warmup_callback). missing are the words that the
// model has no parts for.
func offloads(p *pytorch.Plan, layers []int32, o Moves) (out []offload, missing []string) {
	out = []offload{{}}
	if o.HostBudget == 0 || o.Link == 0 {
		return out, nil
	}
	if !packed(p.Program) {
		return out, offloadNames
	}
	maker := map[torchsim.StorageID]int32{}
	for i := range p.Program.Steps[:p.Program.Backward] {
		for _, id := range p.Program.Steps[i].Makes {
			maker[id] = int32(i)
		}
	}
	groups := map[string][]torchsim.Group{}
	for _, call := range layers {
		x := partsOf(p.Program, call)
		for name, g := range x.groups(p.Program, maker) {
			groups[name] = append(groups[name], g)
		}
	}
	var there []string
	for _, name := range offloadNames {
		if list := groups[name]; len(list) > 1 {
			list[len(list)-1].Stays = true
			there = append(there, name)
		} else {
			missing = append(missing, name)
		}
	}
	elements := threshold(p.Program, groups)
	for bits := 1; bits < 1<<len(there); bits++ {
		x := offload{moves: torchsim.Moves{Elements: elements, Link: o.Link}}
		for i, name := range there {
			if bits>>i&1 == 1 {
				x.names = append(x.names, name)
				x.moves.Groups = append(x.moves.Groups, groups[name]...)
			}
		}
		if slices.Contains(x.names, "attn_proj") && !slices.Contains(x.names, "core_attn") {
			continue
		}
		out = append(out, x)
	}
	return out, missing
}

// packed reports whether a step lists the tensors that autograd saves.
func packed(p *torchsim.Program) bool {
	return slices.ContainsFunc(p.Steps, func(s torchsim.Step) bool { return s.Packed != nil })
}

// threshold is the least elements of a tensor that moves: Megatron-LM's default, or 1 where no tensor has as many.
func threshold(p *torchsim.Program, groups map[string][]torchsim.Group) int64 {
	for _, list := range groups {
		for i := range list {
			for _, at := range list[i].Steps {
				for _, x := range p.Steps[at].Packed {
					if x.Elements >= minElements {
						return minElements
					}
				}
			}
		}
	}
	return 1
}

// beside reports whether Megatron-LM takes a choice of modules that move beside a setting of recomputation; whole
// layers under checkpoints are not tried.
func (x *offload) beside(s *megatronSetting) bool {
	if len(x.names) == 0 || len(s.arguments) == 0 {
		return true
	}
	if s.arguments[0][1] != "selective" {
		return false
	}
	core, moe := slices.Contains(s.arguments[1], "core_attn"), slices.Contains(s.arguments[1], "moe")
	return !slices.ContainsFunc(x.names, func(name string) bool {
		return core && name == "core_attn" || moe && (name == "expert_fc1" || name == "moe_act")
	})
}

// arguments are those of the choice.
func (x *offload) arguments() [][]string {
	if len(x.names) == 0 {
		return nil
	}
	out := [][]string{{"fine-grained-activation-offloading"}, append([]string{"offload-modules"}, x.names...)}
	if x.moves.Elements != minElements {
		out = append(out, []string{"min-offloaded-tensor-size", strconv.FormatInt(x.moves.Elements, 10)})
	}
	return out
}
