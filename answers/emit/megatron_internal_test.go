package emit

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/modules"
	torchsim "memopt/sim/torch"
)

// from lists the numbers from one to another.
func from(first, last int32) (out []int32) {
	for at := first; at <= last; at++ {
		out = append(out, at)
	}
	return out
}

func readStep(t *testing.T, name string, edit ...string) *torchsim.Traced {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".step.json")
	require.NoError(t, err)
	step, err := torchsim.ReadStep(strings.NewReader(strings.NewReplacer(edit...).Replace(string(data))))
	require.NoError(t, err)
	return step
}

// groupsOf are the groups of the second layer, by their words.
func groupsOf(p *torchsim.Program) map[string]torchsim.Group {
	maker := map[torchsim.StorageID]int32{}
	for i := range p.Steps[:p.Backward] {
		for _, id := range p.Steps[i].Makes {
			maker[id] = int32(i)
		}
	}
	x := partsOf(p, layersOf(p)[1])
	return x.groups(p, maker)
}

// TestGroups: parts of a layer whose saved tensors move, where their copies begin, how long variables hold them, and
// what is freed all the same, found by hand in the steps of the second layers of both nets.
func TestGroups(t *testing.T) {
	type ids = []torchsim.StorageID
	group := func(name string, steps []int32, commit, hold int32, releases ids) torchsim.Group {
		return torchsim.Group{Name: name, Steps: steps, Commit: commit, Hold: hold, Releases: releases}
	}
	latent := readStep(t, "latent").Program
	require.Equal(t, map[string]torchsim.Group{
		"attn_norm":  group("attn_norm", from(38, 38), 65, 65, ids{129}),
		"qkv_linear": group("qkv_linear", from(39, 47), 47, 60, ids{130}),
		"core_attn":  group("core_attn", from(48, 59), 59, 59, nil),
		"attn_proj":  group("attn_proj", from(60, 60), 60, 60, ids{155}),
		"mlp_norm":   group("mlp_norm", from(66, 66), 82, 82, ids{159}),
		"expert_fc1": group("expert_fc1", from(71, 71), 71, 71, ids{167}),
		"moe_act":    group("moe_act", from(72, 74), 75, 75, ids{168}),
	}, groupsOf(latent))
	require.Equal(t, map[string]torchsim.Group{
		"attn_norm":  group("attn_norm", from(30, 30), 49, 49, ids{80}),
		"qkv_linear": group("qkv_linear", from(31, 31), 31, 49, nil),
		"core_attn":  group("core_attn", from(32, 43), 43, 43, nil),
		"attn_proj":  group("attn_proj", from(44, 44), 44, 44, ids{94}),
		"mlp_norm":   group("mlp_norm", from(50, 50), 58, 58, ids{98}),
	}, groupsOf(readStep(t, "decoder").Program))

	// The core saves a result of the attention's first step, twice, and one from outside, which stays.
	s := &latent.Steps[51]
	for _, id := range []torchsim.StorageID{133, 130, 133} {
		s.Packed = append(s.Packed, torchsim.Packed{Storage: id})
	}
	require.Equal(t, ids{133}, groupsOf(latent)["core_attn"].Releases)

	for at := range latent.Steps { // an attention without a core
		if s := &latent.Steps[at]; s.Op == "aten.bmm.default" {
			s.Op = "aten.view.default"
		}
	}
	for i := range latent.Tree.Modules {
		if m := &latent.Tree.Modules[i]; strings.HasSuffix(m.Name, ".core_attention") {
			m.Name += "s"
		}
	}
	require.Empty(t, groupsOf(latent))
}

// TestThreshold: tensors of as many elements as Megatron-LM's default moves by itself, without a flag.
func TestThreshold(t *testing.T) {
	p := readStep(t, "decoder").Program
	groups := map[string][]torchsim.Group{}
	for name, g := range groupsOf(p) {
		groups[name] = []torchsim.Group{g}
	}
	require.EqualValues(t, 1, threshold(p, groups))
	p.Steps[30].Packed[2].Elements = minElements - 1
	require.EqualValues(t, 1, threshold(p, groups))
	p.Steps[30].Packed[2].Elements++
	require.EqualValues(t, minElements, threshold(p, groups))
	words := func(elements int64) [][]string {
		return (&offload{names: []string{"x"}, moves: torchsim.Moves{Elements: elements}}).arguments()
	}
	require.Len(t, words(minElements), 2)
	require.Len(t, words(1), 3)
}

// TestBeside: moves are tried beside modules that run again, and not beside whole layers or what a checkpoint has.
func TestBeside(t *testing.T) {
	some := func(words ...string) *megatronSetting {
		return &megatronSetting{arguments: [][]string{{"recompute-granularity", "selective"},
			append([]string{"recompute-modules"}, words...)}}
	}
	block := fullSetting("block", 1)
	for _, x := range []struct {
		names   []string
		setting *megatronSetting
		want    bool
	}{
		{nil, &block, true},
		{[]string{"attn_norm"}, &block, false},
		{[]string{"attn_norm"}, &megatronSetting{}, true},
		{[]string{"attn_norm", "core_attn"}, some("mlp"), true},
		{[]string{"attn_norm", "core_attn"}, some("core_attn"), false},
		{[]string{"moe_act"}, some("core_attn"), true},
		{[]string{"moe_act"}, some("moe"), false},
		{[]string{"mlp_norm", "expert_fc1"}, some("layernorm", "moe"), false},
		{[]string{"core_attn"}, some("moe"), true},
	} {
		require.Equal(t, x.want, (&offload{names: x.names}).beside(x.setting), "%v %v", x.names, x.setting.arguments)
	}
}

// TestActivations: experts that compute one after the other, one of them with two first products, and one whose product
// reads the other's at once; steps that the last product does not need are none of the activation's.
func TestActivations(t *testing.T) {
	calls := []modules.Call{{Outer: -1}}
	p := &torchsim.Program{Tree: modules.Traced("2.15.0", calls, []string{"experts"}, nil)}
	step := func(op string, makes torchsim.StorageID, reads ...torchsim.StorageID) {
		p.Steps = append(p.Steps, torchsim.Step{Op: "aten." + op + ".default", Reads: reads,
			Makes: []torchsim.StorageID{makes}})
	}
	step("mm", 1, 0)
	step("silu", 2, 1)
	step("sigmoid", 9, 1) // of no use
	step("mm", 3, 0)
	step("mul", 4, 2, 3)
	step("mm", 5, 4)
	step("mm", 6, 0)
	step("mm", 7, 6)
	step("relu", 8, 7)
	step("addmm", 10, 8)
	p.Backward = len(p.Steps)
	acts, fc1 := activations(p, 0)
	discarding := func(until int32, steps ...int32) torchsim.Region {
		return torchsim.Region{Mechanism: torchsim.Discarding, Steps: steps, Until: []int32{until}}
	}
	require.Equal(t, []torchsim.Region{discarding(5, 1, 4), discarding(9, 8)}, acts)
	require.Equal(t, []int32{0, 3, 6, 7}, fc1)
}
