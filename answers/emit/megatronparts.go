package emit

import (
	"slices"
	"strconv"
	"strings"

	"memopt/graph/modules"
	torchsim "memopt/sim/torch"
)

// layersOf are the calls of the model's layers, in order: the largest set of modules with numbers as names beside each
// other that lie in no other numbered module, each called once.
func layersOf(p *torchsim.Program) []int32 {
	tree := p.Tree
	size := make([]int, len(tree.Calls))
	for i := range p.Steps[:p.Backward] {
		for c := p.Steps[i].Call; c >= 0; c = tree.Calls[c].Outer {
			size[c]++
		}
	}
	groups, sizes, calls := map[string][]int32{}, map[string]int{}, map[modules.ID]int{}
	for _, c := range tree.Calls {
		calls[c.Module]++
	}
	var best string
	for i, c := range tree.Calls {
		list, ok := numbered(callName(tree, int32(i)))
		if !ok || calls[c.Module] != 1 || inNumbered(tree, c.Outer) {
			continue
		}
		groups[list] = append(groups[list], int32(i))
		sizes[list] += size[i]
		if len(groups[list]) > 1 && (len(groups[best]) == 0 || sizes[list] > sizes[best]) {
			best = list
		}
	}
	return groups[best]
}

// numbered is the name of the list that a module of a number lies in.
func numbered(name string) (list string, ok bool) {
	at := strings.LastIndexByte(name, '.')
	_, err := strconv.ParseUint(name[at+1:], 10, 32)
	return name[:max(at, 0)], at > 0 && err == nil
}

// inNumbered reports whether a call or one around it is of a numbered module.
func inNumbered(tree *modules.Tree, call int32) bool {
	for ; call >= 0; call = tree.Calls[call].Outer {
		if _, ok := numbered(callName(tree, call)); ok {
			return true
		}
	}
	return false
}

// callName is the name of a call's module.
func callName(tree *modules.Tree, call int32) string {
	if id := tree.Calls[call].Module; id != modules.None {
		return tree.Modules[id].Name
	}
	return ""
}

// className is the class of a call's module, without its package.
func className(tree *modules.Tree, call int32) string {
	id := tree.Calls[call].Module
	if id == modules.None {
		return ""
	}
	class := tree.Modules[id].Class
	return class[strings.LastIndexByte(class, '.')+1:]
}

// word is a name of --recompute-modules with the regions that it means in all layers; nil if it means no part of them.
type word struct {
	name    string
	there   bool // a layer has such a part, which may be none that Megatron-LM could run again
	regions []torchsim.Region
}

// megatronWords finds the parts of layers that Megatron-LM has words for. A layer has an mlp or experts, and experts
// may be in some layers only; each layer has the other parts, or the word is none of the model's. Results that a step
// reads which comes too late are none that Megatron-LM could free.
func megatronWords(p *torchsim.Program, layers []int32) []word {
	out := []word{{name: "core_attn"}, {name: "layernorm"}, {name: "mla_up_proj"}, {name: "mlp"}, {name: "moe"},
		{name: "moe_act"}, {name: "shared_experts"}}
	var all []parts
	for _, call := range layers {
		all = append(all, partsOf(p, call))
	}
	for i := range out {
		w := &out[i]
		some := 0
		for k := range all {
			if found := all[k].of(p, w.name); found != nil {
				w.there = true
				w.regions = append(w.regions, found...)
				some++
			}
		}
		if i < 3 && some < len(layers) {
			w.regions = nil
		}
		if _, err := p.Rerun(w.regions); err != nil {
			w.regions = nil
		}
	}
	return out
}

// parts are those of a layer: forward steps.
type parts struct {
	attention, core, mlp, shared []int32
	norms                        [2][]int32 // before the attention, and between it and the mlp
	up                           []int32    // of a latent attention
	experts                      bool
	acts                         []torchsim.Region // of experts
	fc1                          []int32           // the first products of experts
	qkv                          []int32
	last                         int32 // of the layer
}

// The names of modules in the decoders of Megatron-LM and of transformers.
var (
	attentionNames = []string{"self_attention", "self_attn", "attention", "attn"}
	qkvNames       = []string{"linear_qkv", "q_proj", "k_proj", "v_proj", "qkv_proj", "c_attn", "query_key_value",
		"q_layernorm", "k_layernorm", "q_norm", "k_norm"}
	coreNames   = []string{"core_attention", "core_attn", "inner_attention"}
	mlpNames    = []string{"mlp", "feed_forward", "ffn", "block_sparse_moe", "moe"}
	sharedNames = []string{"shared_experts", "shared_expert"}
)

// partsOf finds the parts of a layer by the names of its modules, norms by their class.
func partsOf(p *torchsim.Program, layer int32) (x parts) {
	tree := p.Tree
	norms := []int32{}
	attention, mlp := int32(-1), int32(-1)
	for i := layer + 1; int(i) < len(tree.Calls) && tree.Within(i, layer); i++ {
		name := callName(tree, i)
		name = name[strings.LastIndexByte(name, '.')+1:]
		switch outer := tree.Calls[i].Outer; {
		case outer == layer && attention < 0 && slices.Contains(attentionNames, name):
			attention = i
			x.attention = p.Within(i)
			x.norms[0] = lastOf(p, norms)
			norms = nil
		case outer == layer && attention >= 0 && slices.Contains(mlpNames, name):
			mlp = i
			x.mlp = p.Within(i)
			x.norms[1] = lastOf(p, norms)
		case outer == layer && strings.Contains(strings.ToLower(className(tree, i)), "norm"):
			norms = append(norms, i)
		case outer == attention && attention >= 0 && slices.Contains(qkvNames, name):
			x.qkv = append(x.qkv, p.Within(i)...)
		case outer == attention && attention >= 0 && slices.Contains(coreNames, name):
			x.core = p.Within(i)
		case outer == mlp && mlp >= 0 && name == "experts":
			x.experts = true
			x.acts, x.fc1 = activations(p, i)
		case outer == mlp && mlp >= 0 && slices.Contains(sharedNames, name):
			x.shared = p.Within(i)
		}
	}
	if x.core == nil && attention >= 0 {
		x.core = products(p, attention)
	}
	x.up = upProjection(p, attention, x.core)
	if steps := p.Within(layer); len(steps) > 0 {
		x.last = steps[len(steps)-1]
	}
	return x
}

// lastOf are the steps of the last of some calls.
func lastOf(p *torchsim.Program, calls []int32) []int32 {
	if len(calls) == 0 {
		return nil
	}
	return p.Within(calls[len(calls)-1])
}

// attentionOps begin the names of the operators that scores or whole attentions are computed by.
var attentionOps = []string{"aten.bmm.", "aten.baddbmm.", "aten._scaled_dot_product_"}

// products are the steps of an attention from the first product of scores to the last one, which do not lie in a
// module with a product of its own.
func products(p *torchsim.Program, attention int32) (out []int32) {
	is := func(step int32) bool {
		op := p.Steps[step].Op
		return slices.ContainsFunc(attentionOps, func(name string) bool { return strings.HasPrefix(op, name) })
	}
	steps := p.Within(attention)
	first := slices.IndexFunc(steps, is)
	for last := len(steps) - 1; first >= 0 && last >= first; last-- {
		if is(steps[last]) {
			return steps[first : last+1]
		}
	}
	return nil
}

// whole is a region of steps that keeps its results; nil for no steps.
func whole(steps []int32) []torchsim.Region {
	if len(steps) == 0 {
		return nil
	}
	return []torchsim.Region{{Steps: steps}}
}

// of are the regions of a word in a layer; nil if the layer has no such part.
func (x *parts) of(p *torchsim.Program, name string) []torchsim.Region {
	switch {
	case name == "core_attn":
		return whole(x.core)
	case name == "layernorm":
		return x.layernorm()
	case name == "mla_up_proj":
		return x.latent(p)
	case name == "moe_act":
		return x.acts
	case name == "shared_experts":
		return whole(x.shared)
	case (name == "moe") == x.experts:
		return whole(x.mlp)
	}
	return nil
}

// layernorm are the norms before the attention and the mlp, whose results are freed behind these; nil unless there are
// both.
func (x *parts) layernorm() (out []torchsim.Region) {
	for i, until := range [2][]int32{x.attention, x.mlp} {
		if len(x.norms[i]) == 0 || len(until) == 0 {
			return nil
		}
		out = append(out, torchsim.Region{Mechanism: torchsim.Discarding, Steps: x.norms[i], Until: until})
	}
	return out
}
