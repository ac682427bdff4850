package main

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
)

// TestResidentMemory runs models in fresh processes: the operating system's own count of what a
// step needed stays within 32 MiB and 2 % of the measured arena.
func TestResidentMemory(t *testing.T) {
	if executor.ReadProcessMemory().Peak == 0 {
		t.Skip("/proc/self/status is missing: the test needs Linux, which says there how much memory is resident")
	}
	program := ownProgram(t)
	for _, args := range [][]string{
		{"example:cnn", "--dim", "batch=64"},
		{"example:mlp", "--dim", "batch=512"},
		{"example:mlp", "--dim", "batch=512", "--level", "1"},
		{"example:cnn", "--dim", "batch=64", "--mem-pattern", "off"},
	} {
		args := append([]string{"run", "--init", "random:1", "-O", "json", "-q"}, args...)
		out, err := exec.Command(program, args...).Output()
		require.NoError(t, err, "%v", args)
		var r struct {
			Peak struct {
				Arena    int64 `json:"arena_bytes"`
				Measured int64 `json:"measured_arena_bytes"`
				Device   int64 `json:"device_bytes"`
				RSS      int64 `json:"rss_bytes"`
			} `json:"peak"`
		}
		require.NoError(t, json.Unmarshal(out, &r))
		require.Equal(t, r.Peak.Arena, r.Peak.Measured, "%v", args)
		require.Positive(t, r.Peak.RSS, "%v", args)
		// On demand, what is resident is what the arena has touched of what it has reserved.
		held := r.Peak.Measured
		if args[len(args)-1] == "off" {
			held = r.Peak.Device
		}
		require.LessOrEqual(t, r.Peak.RSS, held+held/50+32<<20, "%v: arena %d", args, r.Peak.Measured)
		t.Logf("%v: arena %d MiB, resident growth %d MiB", args[6:], r.Peak.Measured>>20, r.Peak.RSS>>20)
	}
}
