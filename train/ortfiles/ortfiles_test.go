package ortfiles_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/train/ortfiles"
)

// oracle is what onnxruntime-training's runtime has made of the artefacts.
type oracle struct {
	Start  []float32   `json:"start"` // the parameters, in the order of the model's inputs
	Losses []float32   `json:"losses"`
	Ends   [][]float32 `json:"ends"` // by step
}

// runtimeVariable names a folder with onnxruntime-web 1.19.2, for making testdata/oracle.json anew.
const runtimeVariable = "MEMOPT_ORT_WEB"

// artefactsFolder has the artefacts of sample, which the tests of cmd/memopt train, too.
const artefactsFolder = "testdata/artefacts"

// readOracle returns what the runtime has made of the artefacts in a folder, those of sample.
func readOracle(t *testing.T, dir string) (o oracle) {
	t.Helper()
	const path, steps = "testdata/oracle.json", "3"
	if web := os.Getenv(runtimeVariable); web != "" {
		require.NoError(t, os.MkdirAll(artefactsFolder, 0o777))
		writeArtefacts(t, artefactsFolder, sample())
		out, err := exec.Command("node", "testdata/oracle.mjs", web, dir, steps).Output()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, out, 0o666))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &o))
	return o
}

// runtimeRate is the runtime's learning rate until a program or a schedule sets another: a checkpoint's
// is that which a schedule begins with.
const runtimeRate = 0.001

// parameters are the inputs that are parameters, in their order.
var parameters = []string{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}

// copied returns a tensor in memory of its own.
func copied(t *executor.Tensor) *executor.Tensor {
	return &executor.Tensor{DType: t.DType, Shape: t.Shape, Data: bytes.Clone(t.Data)}
}

// TestRuntime: ONNX Runtime's own training runtime reads the same weights from a checkpoint; and a
// step that memopt makes of the training model and of what the optimizer model computes goes on from
// the checkpoint's weights, moments and number of updates as the runtime does.
func TestRuntime(t *testing.T) {
	dir := artefacts(t, sample())
	want := readOracle(t, dir)
	for _, name := range []string{"checkpoint", "training_model.onnx", "eval_model.onnx", "optimizer_model.onnx"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		kept, err := os.ReadFile(filepath.Join(artefactsFolder, name))
		require.NoError(t, err)
		require.Equal(t, kept, data, name)
	}
	require.True(t, ortfiles.Here(dir))
	a, err := ortfiles.Open(dir)
	require.NoError(t, err)
	defer a.Close()
	values := map[string]*executor.Tensor{}
	for _, list := range [][]ortfiles.Tensor{a.Checkpoint.Trained, a.Checkpoint.Frozen} {
		for _, x := range list {
			values[x.Name] = copied(x.Tensor)
		}
	}
	require.Equal(t, want.Start, flat(values))

	m, opened, err := onnx.Open(a.Training)
	require.NoError(t, err)
	defer opened.Close()
	j, err := autograd.FromGradients(m)
	require.NoError(t, err)
	require.Equal(t, []string{"fc1.weight", "fc2.weight", "fc2.bias"}, j.Wrt)
	o := a.Update.Optimizer()
	o.LR = runtimeRate
	require.NoError(t, autograd.AppendOptimizer(j, o))
	states, err := a.States()
	require.NoError(t, err)
	for _, s := range states {
		values[s.Name] = copied(s.Tensor)
	}
	x, labels := batch()
	values["input-0"] = executor.NewTensor(graph.Float32, []int{3, 6}, x...)
	values["labels"] = executor.NewTensor(graph.Int32, []int{3}, labels...)
	model, err := memopt.New(j.Model, memopt.Options{Dims: map[string]int64{"batch": 3}})
	require.NoError(t, err)
	for step, end := range want.Ends {
		e := model.Execution()
		unfed, err := e.Unfed()
		require.NoError(t, err)
		for _, v := range unfed {
			name := model.Graph.ValueName(v)
			require.NotNil(t, values[name], name)
			e.Inputs[name] = values[name]
		}
		run, err := e.Run(t.Context(), verify.Options{Engine: verify.On(cpu.Device{})})
		require.NoError(t, err)
		for _, out := range run.Outputs {
			if out.Name == "loss" {
				require.InEpsilon(t, want.Losses[step], executor.Of[float32](out.Tensor)[0], 1e-5)
			}
			if n := len(out.Name) - len(autograd.NewSuffix); n > 0 && out.Name[n:] == autograd.NewSuffix {
				require.NotNil(t, values[out.Name[:n]], out.Name)
				values[out.Name[:n]] = copied(out.Tensor)
			}
		}
		for i, v := range flat(values) {
			require.InDelta(t, end[i], v, 2e-7, "step %d, element %d", step, i)
		}
	}
	moved := 0.0
	for i, v := range want.Start {
		moved = max(moved, math.Abs(float64(want.Ends[2][i]-v)))
	}
	require.Greater(t, moved, 1e-3, "the tolerance tells updates apart")
}

// flat returns all parameters one after the other.
func flat(values map[string]*executor.Tensor) (list []float32) {
	for _, name := range parameters {
		list = append(list, executor.Of[float32](values[name])...)
	}
	return list
}

// TestOpen: everything that a checkpoint has is read as it was written.
func TestOpen(t *testing.T) {
	c := sample()
	dir := artefacts(t, c)
	a, err := ortfiles.Open(dir)
	require.NoError(t, err)
	defer a.Close()
	same := func(want []tensor, got []ortfiles.Tensor) {
		t.Helper()
		require.Len(t, got, len(want))
		for i, w := range want {
			require.Equal(t, w.name, got[i].Name)
			require.Equal(t, w.dtype, got[i].DType)
			require.Equal(t, w.data, got[i].Data)
			require.Equal(t, len(w.dims), got[i].Rank())
			for k, d := range w.dims {
				require.Equal(t, int(d), got[i].Shape[k])
			}
		}
	}
	same(c.trained, a.Checkpoint.Trained)
	same(c.frozen, a.Checkpoint.Frozen)
	require.Len(t, a.Checkpoint.Groups, 1)
	g := a.Checkpoint.Groups[0]
	require.Equal(t, "group0", g.Name)
	require.Equal(t, int64(7), g.Step)
	require.Equal(t, float32(0.25), g.LearningRate)
	for i, s := range c.groups[0].states {
		require.Equal(t, s.parameter, g.States[i].Parameter)
		same(s.moments, g.States[i].Moments)
	}
	require.Equal(t, []ortfiles.Property{{Name: "epoch", Value: int64(-3)}, {Name: "best", Value: float32(0.5)},
		{Name: "who", Value: "me"}}, a.Checkpoint.Properties)
	require.Equal(t, &ortfiles.Update{Kind: "adamw", Beta1: 0.875, Beta2: 0.99, Eps: 1e-6, WeightDecay: 0.125,
		MaxNorm: 0.5}, a.Update)
	require.Equal(t, filepath.Join(dir, "eval_model.onnx"), a.Eval)

	for _, name := range []string{"eval_model.onnx", "optimizer_model.onnx"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	less, err := ortfiles.Open(dir)
	require.NoError(t, err)
	defer less.Close()
	require.Empty(t, less.Eval)
	require.Nil(t, less.Update)
	require.NoError(t, os.Remove(filepath.Join(dir, "training_model.onnx")))
	require.False(t, ortfiles.Here(dir))
	_, err = ortfiles.Open(dir)
	require.ErrorContains(t, err, "training_model.onnx")
}

// TestFresh: artefacts as they are generated have no optimizer state, which begins as zeros then.
func TestFresh(t *testing.T) {
	c := sample()
	c.groups, c.version, c.ints, c.floats, c.texts = nil, 1, nil, nil, nil
	a, err := ortfiles.Open(artefacts(t, c))
	require.NoError(t, err)
	defer a.Close()
	states, err := a.States()
	require.NoError(t, err)
	require.Empty(t, states)
	require.Empty(t, a.Checkpoint.Properties)
}

// TestCheckpointFaults: what is no checkpoint, or one that cannot be gone on with, is refused, and the
// error says why.
func TestCheckpointFaults(t *testing.T) {
	w := floats("fc1.weight", 1, 1, 5, 6)
	for want, spoil := range map[string]func(c *contents){
		`its identifier is "ORTM"; wanted "ODTC"`:                func(c *contents) { c.identifier = "ORTM" },
		"the format's version is 3; wanted 1 or 2":               func(c *contents) { c.version = 3 },
		"the format's version is 0":                              func(c *contents) { c.version = 0 },
		"it is a nominal checkpoint":                             func(c *contents) { c.nominal = true },
		"its weights lie in another file":                        func(c *contents) { c.external = true },
		`tensor "fc1.weight" stands there twice`:                 func(c *contents) { c.trained = []tensor{w, w} },
		`parameter "fc1.weight" stands there twice`:              func(c *contents) { c.frozen = []tensor{w} },
		`optimizer group "group0" stands there twice`:            func(c *contents) { c.groups = append(c.groups, c.groups[0]) },
		`optimizer group "group0": step is -1`:                   func(c *contents) { c.groups[0].step = -1 },
		`property "epoch" stands there twice`:                    func(c *contents) { c.texts = map[string]string{"epoch": ""} },
		`has 119 bytes; wanted 120`:                              func(c *contents) { c.trained[0].data = c.trained[0].data[:119] },
		`tensor "fc1.weight" has type string`:                    func(c *contents) { c.trained[0].dtype = graph.String },
		`tensor "fc1.weight" has type bool`:                      func(c *contents) { c.trained[0].dtype = graph.Bool },
		`tensor "fc1.weight" has type dtype(77)`:                 func(c *contents) { c.trained[0].dtype = 77 },
		`has a negative dim`:                                     func(c *contents) { c.trained[0].dims = []int64{-5, 6} },
		`a tensor has 65 dims; at most 64 are read`:              func(c *contents) { c.trained[0].dims = make([]int64, 65) },
		`has 9 moments; at most 8 are read`:                      func(c *contents) { c.groups[0].states[0].moments = make([]tensor, 9) },
		`parameter "fc2.bias" stands there twice`:                func(c *contents) { c.groups[0].states[0].parameter = "fc2.bias" },
		`a name has 65 bytes; at most 64 are read`:               func(c *contents) { c.groups[0].states[0].moments[0].name = string(make([]byte, 65)) },
		`has no input "other", which the checkpoint has as a`:    func(c *contents) { c.trained[0].name = "other" },
		`has no input "loss"`:                                    func(c *contents) { c.trained[0].name = "loss" },
		`input "fc1.weight" has type float[5, 6], and the check`: func(c *contents) { c.trained[0].dims = []int64{6, 5} },
	} {
		c := sample()
		spoil(&c)
		dir := artefacts(t, c)
		_, err := ortfiles.Open(dir)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, dir)
	}
	c := sample()
	c.groups = append(c.groups, group{name: "group1"})
	a, err := ortfiles.Open(artefacts(t, c))
	require.NoError(t, err)
	_, err = a.States()
	require.ErrorContains(t, err, "the checkpoint has 2 groups")
	require.NoError(t, a.Close())
	c = sample()
	c.groups[0].states[0].moments[0].name = "momentum2"
	a, err = ortfiles.Open(artefacts(t, c))
	require.NoError(t, err)
	_, err = a.States()
	require.ErrorContains(t, err, `parameter "fc1.weight" has a moment "momentum2"; wanted momentum0 or momentum1`)
	require.NoError(t, a.Close())
}

// TestUpdates: what an optimizer model computes is read from its nodes, defaults included; what
// memopt's optimizers do not compute is refused.
func TestUpdates(t *testing.T) {
	const inputs = `(float[1] lr, int64[1] step, seq(float) p, seq(float) g, seq(float) m, seq(float) v)`
	for body, want := range map[string]any{
		`f = com.microsoft.AdamWOptimizer (lr, step, p, g, m, v)`: ortfiles.Update{Kind: "adamw", Beta1: 0.9,
			Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01},
		`f = com.microsoft.SGDOptimizerV2 (lr, p, g)`: ortfiles.Update{Kind: "sgd"},
		`c = com.microsoft.InplaceClipGradNorm (g)  f = com.microsoft.SGDOptimizerV2 (lr, p, c)`: ortfiles.Update{
			Kind: "sgd", MaxNorm: 1},
		`f = com.microsoft.AdamWOptimizer <adam_mode = 1> (lr, step, p, g, m, v)`: "has adam_mode 1 and correct_bias 1",
		`f = com.microsoft.AdamWOptimizer <alpha = "x"> (lr, step, p, g, m, v)`:   "attribute alpha is no number",
		`f = com.microsoft.SGDOptimizerV2 (lr, p, g)  h = com.microsoft.SGDOptimizerV2 (lr, p, g)`: "is a second " +
			"optimizer; wanted one",
		`f = Identity (p)`: `(Identity): is no operator of onnxruntime-training's optimizers`,
		`c = com.microsoft.InplaceClipGradNorm (g)  f = com.microsoft.InplaceClipGradNorm (c)`: "has no optimizer",
	} {
		dir := artefacts(t, sample())
		m, err := graph.Parse(`<ir_version: 7, opset_import: ["" : 14, "com.microsoft" : 1]> o `+inputs+
			` => (bool[1] f) { `+body+` }`, "o.onnx")
		require.NoError(t, err)
		require.NoError(t, onnx.WriteFile(filepath.Join(dir, "optimizer_model.onnx"), m, onnx.Options{}))
		a, err := ortfiles.Open(dir)
		if text, fails := want.(string); fails {
			require.ErrorContains(t, err, text)
			require.ErrorContains(t, err, "optimizer_model.onnx")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, *a.Update)
		require.NoError(t, a.Close())
	}
}

// TestCut: a checkpoint that is cut off anywhere, or of which any byte is another, is an error or is
// read; nothing panics.
func TestCut(t *testing.T) {
	data := sample().encode()
	path := filepath.Join(t.TempDir(), "checkpoint")
	for n := range len(data) {
		require.NoError(t, os.WriteFile(path, data[:n], 0o666))
		c, err := ortfiles.OpenCheckpoint(path)
		if err == nil {
			require.NoError(t, c.Close())
		}
		if n < 64 {
			require.Error(t, err)
		}
	}
	for n := range data {
		other := bytes.Clone(data)
		other[n] ^= 0x81
		require.NoError(t, os.WriteFile(path, other, 0o666))
		if c, err := ortfiles.OpenCheckpoint(path); err == nil {
			require.NoError(t, c.Close())
		}
	}
}

// FuzzCheckpoint looks for files that make OpenCheckpoint panic or take much memory.
func FuzzCheckpoint(f *testing.F) {
	f.Add(sample().encode())
	f.Add(contents{identifier: "ODTC", version: 1}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "checkpoint")
		require.NoError(t, os.WriteFile(path, data, 0o666))
		c, err := ortfiles.OpenCheckpoint(path)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		for _, x := range c.Trained {
			n, ok := executor.Bytes(x.DType, x.Shape)
			require.True(t, ok)
			require.Len(t, x.Data, n)
		}
		require.NoError(t, c.Close())
	})
}
