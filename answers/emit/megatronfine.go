package emit

import (
	"slices"
	"strings"

	torchsim "memopt/sim/torch"
)

// The modules of a latent attention, in Megatron-LM and in transformers: those that project down, of which a key's
// tells that the attention is latent, and norms of their results.
var (
	keyDownNames = []string{"linear_kv_down_proj", "kv_a_proj_with_mqa"}
	downNames    = append([]string{"linear_q_down_proj", "q_a_proj", "q_layernorm", "q_a_layernorm", "kv_layernorm",
		"kv_a_layernorm"}, keyDownNames...)
)

// upProjection are the steps of a latent attention before its core, those of downNames left out: projections up, and
// the embedding of positions (MLASelfAttention.get_query_key_value_tensors in
// megatron/core/transformer/multi_latent_attention.py). It is nil for another attention.
func upProjection(p *torchsim.Program, attention int32, core []int32) (out []int32) {
	if len(core) == 0 {
		return nil
	}
	latent, down := false, map[int32]bool{}
	for i := attention + 1; int(i) < len(p.Tree.Calls) && p.Tree.Within(i, attention); i++ {
		name := callName(p.Tree, i)
		name = name[strings.LastIndexByte(name, '.')+1:]
		if slices.Contains(downNames, name) {
			latent = latent || slices.Contains(keyDownNames, name)
			for _, at := range p.Within(i) {
				down[at] = true
			}
		}
	}
	if !latent {
		return nil
	}
	for _, at := range p.Within(attention) {
		if at < core[0] && !down[at] {
			out = append(out, at)
		}
	}
	return out
}

// latent is the region of projections up, whose results are freed once the core of the attention is done. Where a
// variable of the model holds them for longer, they are freed at the end of the attention.
func (x *parts) latent(p *torchsim.Program) []torchsim.Region {
	if len(x.up) == 0 {
		return nil
	}
	out := []torchsim.Region{{Mechanism: torchsim.Discarding, Steps: x.up, Until: x.core}}
	if _, err := p.Rerun(out); err != nil {
		at, _ := slices.BinarySearch(x.attention, x.core[0])
		out[0].Until = x.attention[at:]
	}
	return out
}

// productOps begin the names of the operators that experts compute their products by.
var productOps = []string{"aten.mm.", "aten.addmm.", "aten.bmm.", "aten.baddbmm.", "aten._grouped_mm."}

// activations are the parts of experts between their first products and their last ones, which compute activations. The
// results are freed once the last product is done (TEGroupedMLP.forward in megatron/core/transformer/moe/experts.py).
// Experts may compute one after the other. fc1 are the products that come first.
func activations(p *torchsim.Program, experts int32) (out []torchsim.Region, fc1 []int32) {
	first := int32(-1)
	for _, at := range p.Within(experts) {
		if !product(p, at) {
			continue
		}
		if first < 0 {
			first = at
		} else if steps := between(p, first, at); len(steps) > 0 {
			out = append(out, torchsim.Region{Mechanism: torchsim.Discarding, Steps: steps, Until: []int32{at}})
			first = -1
			continue
		}
		fc1 = append(fc1, at)
	}
	return out, fc1
}

// product reports whether a step is a product of matrices.
func product(p *torchsim.Program, at int32) bool {
	return slices.ContainsFunc(productOps, func(name string) bool { return strings.HasPrefix(p.Steps[at].Op, name) })
}

// between are the steps, no products, behind a first one that a last one needs.
func between(p *torchsim.Program, first, last int32) (out []int32) {
	needed := map[torchsim.StorageID]bool{}
	for _, id := range p.Steps[last].Reads {
		needed[id] = true
	}
	for at := last - 1; at > first; at-- {
		s := &p.Steps[at]
		if product(p, at) || !slices.ContainsFunc(s.Makes, func(id torchsim.StorageID) bool { return needed[id] }) {
			continue
		}
		out = append(out, at)
		for _, id := range s.Reads {
			needed[id] = true
		}
	}
	slices.Reverse(out)
	return out
}
