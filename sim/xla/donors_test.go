package xla_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/hlo"
	"memopt/sim/xla"
)

// TestDonors gives outputs the memory of donors: by size, in the order of parameters and outputs.
func TestDonors(t *testing.T) {
	const body = `ENTRY e {
  b = f32[8]{0} parameter(2)
  a = f32[16]{0} parameter(0)
  c = (f32[8]{0}, s32[16]{0}) parameter(1)
  d = f32[4]{0} parameter(3)
  ` // four outputs
	for _, c := range []struct {
		name, donors, result string
		donated, results     int64
	}{
		{"none", "", "(f32[16]{0}, f32[8]{0}) custom-call(a)", 0, 64 + 32 + 16},
		{"each the first of its size", "(0, {}), (1, {0}), (1, {1}), (2, {}), (3, {})",
			"(f32[8]{0}, s32[16]{0}, f32[8]{0}, f32[8]{0}) custom-call(a)", 32 + 64 + 32, 32 + 32},
		{"of the same memory space", "(0, {}), (2, {})", "(f32[16]{0:S(1)}, f32[8]{0}) custom-call(a)", 32, 64 + 16},
		{"sizes without a pair", "(0, {}), (3, {})", "(f32[32]{0}, f32[8]{0}, f32[4]{0}) custom-call(a)", 16,
			128 + 32 + 24},
	} {
		head := "HloModule m"
		if c.donors != "" {
			head += ", buffer_donor={ " + c.donors + " }"
		}
		m, err := hlo.ReadText([]byte(head + "\n" + body + "ROOT r = " + c.result + `, custom_call_target="x"` + "\n}"))
		require.NoError(t, err, c.name)
		p, err := xla.Run(m)
		require.NoError(t, err, c.name)
		require.Equal(t, c.donated, p.DonatedBytes, c.name)
		require.Equal(t, c.results, p.ResultBytes, c.name)
	}
	// One that has an output already gives none to another, and neither does a compiled program.
	const donors = ", buffer_donor={ (0, {}), (2, {}) }"
	for head, want := range map[string][2]int64{
		", input_output_alias={ {1}: (0, {}, may-alias) }": {96, 64 + 24},
		", is_scheduled=true":                              {0, 32 + 64 + 64 + 24},
	} {
		m, err := hlo.ReadText([]byte("HloModule m" + head + donors + "\n" + body +
			`ROOT r = (f32[8]{0}, f32[16]{0}, f32[16]{0}) custom-call(a), custom_call_target="x"` + "\n}"))
		require.NoError(t, err)
		p, err := xla.Run(m)
		require.NoError(t, err)
		require.Equal(t, want, [2]int64{p.DonatedBytes, p.ResultBytes}, head)
	}
}

// TestShardedEarly holds two steps that JAX lowered for four devices to XLA's figures of the compiled ones: bytes of
// arguments on each device, by their shardings, and the donated share of them.
func TestShardedEarly(t *testing.T) {
	table, read := steps(t)
	for _, name := range []string{"sharded_batch", "sharded_weights"} {
		m, err := hlo.Read(read(name + "_early.hlo"))
		require.NoError(t, err)
		require.True(t, m.IsWhole())
		require.EqualValues(t, 4, m.Devices())
		p, err := xla.Run(m)
		require.NoError(t, err)
		require.Equal(t, table[name].Argument, p.ArgumentPartBytes(), name)
		whole, err := hlo.Read(read(name + ".hlo"))
		require.NoError(t, err)
		require.False(t, whole.IsWhole())
		require.Len(t, whole.Aliases, 12) // of the compiled program
		if name == "sharded_batch" {      // its weights are whole on each device
			require.Equal(t, table[name].Aliased, p.DonatedBytes)
		}
	}
}
