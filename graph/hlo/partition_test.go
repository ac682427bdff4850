package hlo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/hlo"
)

// TestPart divides shapes by the forms of shardings that XLA writes.
func TestPart(t *testing.T) {
	for sharding, want := range map[string]string{
		"{replicated}":         "f32[10,6]",
		"{maximal device=0}":   "f32[10,6]",
		"{devices=[4,1]<=[4]}": "f32[3,6]",
		"{devices=[2,3,2]<=[12] last_tile_dim_replicate}":                          "f32[5,2]",
		"{devices=[1,2,2,2]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}": "f32[10,3]",
		"{devices=[4]<=[4]}":   "f32[10,6]", // fewer dims than the value
		"{devices=[0,1]<=[0]}": "f32[10,6]",
		"{devices=[x,1]<=[4]}": "f32[10,6]",
		"{devices=[4":          "f32[10,6]",
		"":                     "f32[10,6]",
	} {
		in := hlo.Instruction{Shape: hlo.Shape{Type: "f32", Dims: []int64{10, 6}}, Sharding: sharding}
		part := in.Part()
		require.Equal(t, want, part.String(), sharding)
	}
	in := hlo.Instruction{Sharding: "{{devices=[2,1]<=[2]}, {replicated}, {devices=[1,3]<=[3]}}",
		Shape: hlo.Shape{Type: "tuple", Tuple: []hlo.Shape{{Type: "f32", Dims: []int64{8, 6}},
			{Type: "f32", Dims: []int64{8, 6}}, {Type: "s32", Dims: []int64{8, 6}}}}}
	part := in.Part()
	require.Equal(t, "(f32[4,6], f32[8,6], s32[8,2])", part.String())
	in.Sharding = "{{devices=[2,1]<=[2]}}" // of another tuple
	part = in.Part()
	require.Equal(t, in.Shape.String(), part.String())
}

// TestIsWhole tells modules before the partitioner from those behind it, as JAX and XLA write them.
func TestIsWhole(t *testing.T) {
	const divided = "  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}\n"
	for _, c := range []struct {
		name, head, body string
		whole            bool
		devices          int64
	}{
		{"lowered by JAX", "", divided + "ROOT y = f32[8,4] negate(x)", true, 4},
		{"with shardings inside, and a collective of a shard_map", "", divided +
			`y = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={replicated}
			ROOT z = f32[8,4] all-reduce(y)`, true, 4},
		{"results that Shardy divides", "", divided +
			`y = f32[8,4] all-reduce(x)
			ROOT z = f32[8,4] custom-call(y), custom_call_target="xla.sdy.FuncResultSharding"`, true, 4},
		{"divided, with its collectives", "", divided + "ROOT y = f32[8,4] all-reduce-start(x)", false, 4},
		{"compiled", ", is_scheduled=true, num_partitions=4", divided + "ROOT y = f32[8,4] negate(x)", false, 4},
		{"copies on all devices", ", num_partitions=8",
			"x = f32[8] parameter(0), sharding={devices=[1,4]<=[4] last_tile_dim_replicate}\nROOT y = f32[8] negate(x)",
			false, 8},
		{"manual", "", "x = f32[8] parameter(0), sharding={devices=[1,2]<=[2] last_tile_dims={manual}}\n" +
			"ROOT y = f32[8] negate(x)", false, 2},
		{"one device", "", `x = f32[8] parameter(0)
			ROOT y = f32[8] custom-call(x), custom_call_target="Sharding", sharding={replicated}`, false, 1},
	} {
		m, err := hlo.ReadText([]byte("HloModule m" + c.head + "\nENTRY e {\n" + c.body + "\n}"))
		require.NoError(t, err, c.name)
		require.Equal(t, c.whole, m.IsWhole(), c.name)
		require.Equal(t, c.devices, m.Devices(), c.name)
	}
}
