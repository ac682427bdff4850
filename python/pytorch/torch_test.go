package pytorch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/graph/modules"
	"memopt/internal/test/rapidflags"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
)

// python is a Python with the packages that memopt.torch and the corpus need; "": there is none.
var python = sync.OnceValue(func() string {
	for _, name := range []string{os.Getenv("TORCH_PYTHON"), "python3", "/usr/bin/python3"} {
		cmd := exec.Command(name, "-c", "import onnx, torchvision, memopt.torch")
		cmd.Env = append(os.Environ(), "PYTHONPATH=../src")
		if name != "" && cmd.Run() == nil {
			return name
		}
	}
	return ""
})

func needPython(t *testing.T) string {
	t.Helper()
	if python() == "" {
		t.Skip("no python3 with torch 2.6, torchvision and onnx: .ci/install makes a virtual environment of them, " +
			"TORCH_PYTHON names its python")
	}
	return python()
}

// step is what PyTorch measured of a step.
type step struct {
	Modules []string
	Peak    int64
	Error   string
}

// measured is what PyTorch measured of a case.
type measured struct {
	Plain        step
	Saved        int64
	Checkpointed map[string]step
}

// The cases in which the simulator is known to be off, and why.
var (
	notSaved = map[string]string{
		"chunks_gate":   "F.silu outside a module of its own is taken for a product with a sigmoid, which saves more",
		"encoder_layer": "F.scaled_dot_product_attention with dropout, in the file products and a softmax",
	}
	notPeak = map[string]string{
		"chunks_gate":   "the same",
		"encoder_layer": "the same",
		"binary":        "temporary results in the forward half",
		"clamp":         "masks",
		"conv_stride":   "the copy that oneDNN makes of the gradient",
	}
	unknown = map[string]string{"gru": "GRU", "lstm": "LSTM"}
)

// notNested are checkpoints in checkpoints of which the simulator is known to be off, and why.
var notNested = map[string]string{
	"bert_4l_256 nested last": "local variables of a module's Python live while it runs again",
	"bert_4l_256 nested all":  "the same",
	"unet nested last":        "a module that changes its input in place is in a cycle of references then",
}

// whole are the models of which also steps with all blocks, with every second one, and with parts of blocks too under
// checkpoints count.
var whole = []string{"gpt2_6l_256", "resnet18", "mlp_8x1024", "bert_4l_256", "unet", "swin"}

// TestPyTorch compares more than a hundred modules with PyTorch's own figures: what autograd saves, and the peak of
// the allocator's events in a step, with and without checkpoints. With MEMOPT_TESTS=all it builds all of them,
// else half.
func TestPyTorch(t *testing.T) {
	dir, every := t.TempDir(), 2
	if rapidflags.All() {
		every = 1
	}
	cmd := exec.Command(needPython(t), "../../bench/torchmodules/torch_modules.py",
		"--models", "--export", dir, "--json",
		filepath.Join(dir, "figures.json"), "--no-tensors", "--every", strconv.Itoa(every))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(filepath.Join(dir, "figures.json"))
	require.NoError(t, err)
	var figures struct{ Cases map[string]measured }
	require.NoError(t, json.Unmarshal(text, &figures))
	require.Greater(t, len(figures.Cases)*every, 100)
	saved, near, checkpoints := 0, 0, 0
	for name, c := range figures.Cases {
		p, err := made(t, filepath.Join(dir, name+".onnx"))
		if op := unknown[name]; op != "" {
			var row *torchsim.NoRow
			require.ErrorAs(t, err, &row, name)
			require.Equal(t, op, row.Op)
			continue
		}
		if errors.Is(err, modules.ErrNoModules) {
			continue // a loss alone has no modules
		}
		require.NoError(t, err, name)
		if notSaved[name] == "" {
			saved++
			requireWithin(t, 0.01, c.Saved, p.Program.Saved(), "%s: saved bytes", name)
		}
		if notPeak[name] == "" {
			requireWithin(t, 0.05, c.Plain.Peak, p.Baseline.Usage.Peak-p.Program.Held, "%s: peak", name)
		}
		for way, s := range c.Checkpointed {
			u, ok := checkpointed(p, s.Modules)
			if !ok || s.Error != "" || notNested[name+" "+way] != "" {
				continue
			}
			checkpoints++
			if within(0.05, s.Peak, u.Peak-p.Program.Held) {
				near++
			}
			if slices.Contains(whole, name) {
				requireWithin(t, 0.05, s.Peak, u.Peak-p.Program.Held, "%s: peak with checkpoints, %s", name, way)
			}
		}
	}
	t.Logf("%d of %d cases save what is predicted within 1 %%; %d of %d peaks with checkpoints are within 5 %%", saved,
		len(figures.Cases), near, checkpoints)
	require.GreaterOrEqual(t, 10*saved, 9*len(figures.Cases))
	require.GreaterOrEqual(t, 100*near, 95*checkpoints)
}

// made plans a file.
func made(t *testing.T, path string) (*pytorch.Plan, error) {
	t.Helper()
	m, err := memopt.Open(path, memopt.Options{})
	require.NoError(t, err, path)
	t.Cleanup(func() { m.Close() })
	return pytorch.Make(context.Background(), m, pytorch.Options{})
}

// checkpointed simulates modules under checkpoints; ok is false if one of them has no operators.
func checkpointed(p *pytorch.Plan, names []string) (u torchsim.Usage, ok bool) {
	var calls []int32
	for _, name := range names {
		id := p.Tree.Lookup(name)
		at := slices.IndexFunc(p.Tree.Calls, func(c modules.Call) bool { return c.Module == id })
		if id < 0 || at < 0 {
			return u, false
		}
		calls = append(calls, int32(at))
	}
	return p.Program.Simulate(calls), true
}

func within(share float64, want, got int64) bool {
	return math.Abs(float64(got-want)) <= max(share*float64(want), 64)
}

func requireWithin(t *testing.T, share float64, want, got int64, format string, args ...any) {
	t.Helper()
	require.True(t, within(share, want, got), "%s: measured %d, predicted %d", fmt.Sprintf(format, args...), want, got)
}
