package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/configs"
	"memopt/graph"
	"memopt/planner/device"
)

// TestDevices: every built-in profile is complete, named after its file, and sourced; tensor cores
// are no slower than vector units; the planner's default is the a100's.
func TestDevices(t *testing.T) {
	require.Equal(t, []string{"a10", "a100", "a100-40g", "cpu", "h100", "h200", "l4", "l40s", "mi300x", "rtx3060-12g",
		"rtx3090", "rtx4080", "rtx4090", "rtx5090", "t4", "v100"}, configs.DeviceNames())
	for _, name := range configs.DeviceNames() {
		p, err := configs.LoadDevice(name)
		require.NoError(t, err)
		assert.Equal(t, name, p.Name)
		assert.NotEmpty(t, p.Source, name)
		for _, d := range []graph.DType{graph.Float64, graph.Float32, graph.Float16, graph.BFloat16} {
			assert.GreaterOrEqual(t, p.Products.Of(d), p.Loops.Of(d), "%s, %v", name, d)
		}
		assert.Greater(t, p.Loops.Float32/p.BytesPerSec, 1.0, "%s: a loop over float32 is bound by memory", name)
		if name != "cpu" { // whose memory is its machine's
			assert.Greater(t, p.Memory, int64(11<<30), name)
			assert.Greater(t, p.Reserve, int64(256<<20), name)
			assert.Less(t, p.Reserve, p.Memory/10, name)
			assert.Contains(t, p.Source, "memory: ", name)
			assert.Contains(t, p.Source, "reserve: ", name)
			assert.Greater(t, p.Link, 1e10, name)
			assert.Less(t, p.Link, p.BytesPerSec/10, name)
			assert.Contains(t, p.Source, "link: ", name)
		}
		if name == device.Default.Name {
			assert.Equal(t, device.Default, *p)
		}
	}
}

// written is a valid profile, a piece of which the tests change.
const written = `{"schema": "memopt.device/v1", "name": "mine",
 "loops_flops": {"float64": 1, "float32": 2, "float16": 3, "bfloat16": 4},
 "products_flops": {"float64": 5, "float32": 6, "float16": 7, "bfloat16": 8},
 "bytes_per_second": 9, "launch_seconds": 0, "memory_bytes": 20, "reserve_bytes": 2, "source": "made up"}`

func TestParseDevice(t *testing.T) {
	want := &device.Profile{Name: "mine", Loops: device.Rates{Float64: 1, Float32: 2, Float16: 3, BFloat16: 4},
		Products: device.Rates{Float64: 5, Float32: 6, Float16: 7, BFloat16: 8}, BytesPerSec: 9,
		Memory: 20, Reserve: 2, Source: "made up"}
	path := filepath.Join(t.TempDir(), "mine.json")
	require.NoError(t, os.WriteFile(path, []byte(written), 0o644))
	got, err := configs.LoadDevice(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, c := range []struct{ old, new, want string }{
		{written, ``, "is not a device profile"},
		{written, `[]`, "is not a device profile"},
		{`"source": "made up"}`, `"source": "made up"} {}`, "data after"},
		{`device/v1`, `plan/v1`, `has schema "memopt.plan/v1", wanted "memopt.device/v1"`},
		{`"mine"`, `""`, "has no name"},
		{`"float16": 7`, `"float16": 0`, "products_flops.float16 is 0; wanted a positive number"},
		{`"float64": 1, `, ``, "loops_flops.float64 is 0; wanted a positive number"},
		{`"bytes_per_second": 9`, `"bytes_per_second": -9`, "bytes_per_second is -9; wanted a positive number"},
		{`"bytes_per_second": 9`, `"bytes_per_second": 1e999`, "is not a device profile"},
		{`"bytes_per_second"`, `"bandwidth"`, `unknown field "bandwidth"`},
		{`"launch_seconds": 0`, `"launch_seconds": -1`, "launch_seconds is -1; wanted 0 or more"},
		{`"memory_bytes": 20`, `"memory_bytes": -1`, "memory_bytes is -1; wanted 0 or more"},
		{`"reserve_bytes": 2`, `"reserve_bytes": -2`, "reserve_bytes is -2; wanted 0 to memory_bytes, which is 20"},
		{`"reserve_bytes": 2`, `"reserve_bytes": 21`, "reserve_bytes is 21; wanted 0 to memory_bytes, which is 20"},
	} {
		require.Contains(t, written, c.old)
		_, err := configs.ParseDevice([]byte(strings.Replace(written, c.old, c.new, 1)), "d.json")
		if assert.Error(t, err, c.new) {
			assert.Contains(t, err.Error(), "d.json: ", c.new)
			assert.Contains(t, err.Error(), c.want, c.new)
			assert.NotContains(t, err.Error(), "\n", c.new)
		}
	}
}

func TestUnknownDevice(t *testing.T) {
	_, err := configs.LoadDevice("H10O")
	require.EqualError(t, err,
		`"H10O": no device has this name; wanted one of a10, a100, a100-40g, cpu, h100, h200, l4, l40s, mi300x, rtx3060-12g, `+
			`rtx3090, rtx4080, rtx4090, rtx5090, t4, v100, or the path of a .json file; did you mean "h100"?`)
	_, err = configs.LoadDevice("abacus")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "did you mean")
	_, err = configs.LoadDevice("none.json")
	require.ErrorContains(t, err, "none.json: cannot be read: no such file")
}
