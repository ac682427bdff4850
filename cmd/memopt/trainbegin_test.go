package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor"
	"memopt/executor/npz"
	"memopt/graph"
	"memopt/train/checkpoint"
	"memopt/train/safetensors"
)

// archive writes arrays as a job's data.
func archive(t *testing.T, path string, arrays map[string]*executor.Tensor) {
	t.Helper()
	w, err := npz.Create(path)
	require.NoError(t, err)
	for name, x := range arrays {
		require.NoError(t, w.Add(name, x))
	}
	require.NoError(t, w.Close())
}

// copyArtefacts copies the artefacts of onnxruntime-training that package ortfiles has for tests, and
// the data that its oracle was made with.
func copyArtefacts(t *testing.T) (oracle []byte) {
	t.Helper()
	oracle, err := os.ReadFile("../../train/ortfiles/testdata/oracle.json")
	require.NoError(t, err)
	from, err := filepath.Abs("../../train/ortfiles/testdata/artefacts")
	require.NoError(t, err)
	exitFolder(t)
	require.NoError(t, os.CopyFS("artefacts", os.DirFS(from)))
	x, err := os.ReadFile("artefacts/input_0.bin")
	require.NoError(t, err)
	labels, err := os.ReadFile("artefacts/input_1.bin")
	require.NoError(t, err)
	archive(t, "batch.npz", map[string]*executor.Tensor{
		"input-0": {DType: graph.Float32, Shape: []int{3, 6}, Data: x},
		"labels":  {DType: graph.Int32, Shape: []int{3}, Data: labels}})
	return oracle
}

// saved returns a weight of a job's newest checkpoint.
func saved(t *testing.T, job, name string) []float32 {
	t.Helper()
	c, err := checkpoint.Load(job)
	require.NoError(t, err)
	defer c.Close()
	x, ok := c.Weights.Tensor(name)
	require.True(t, ok, name)
	return executor.Of[float32](&executor.Tensor{DType: x.DType, Shape: x.Shape, Data: bytes.Clone(x.Data)})
}

// TestTrainArtefacts: a job on the artefacts of onnxruntime-training goes on from their checkpoint,
// by their optimizer, as onnxruntime-training itself does; and the weights that it exports give the
// loss that it has evaluated.
func TestTrainArtefacts(t *testing.T) {
	var want struct {
		Losses []float64
		Ends   [][]float32
	}
	require.NoError(t, json.Unmarshal(copyArtefacts(t), &want))
	got := inProcess(t.Context(), nil, "train artefacts --data batch.npz --eval-data batch.npz --batch 3 "+
		"--max-steps 3 --learning-rate 0.001 --lr-scheduler constant --shuffle=false -o job -O json -q")
	require.Zero(t, got.code, got.errors)
	var report struct {
		First float64 `json:"loss_first"`
		Last  float64 `json:"loss_last"`
		Eval  float64 `json:"eval_loss_last"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &report))
	require.InEpsilon(t, want.Losses[0], report.First, 1e-6)
	require.InEpsilon(t, want.Losses[2], report.Last, 1e-6)
	var end []float32
	for _, name := range []string{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"} {
		end = append(end, saved(t, "job", name)...)
	}
	for i, w := range want.Ends[2] {
		require.InDelta(t, w, end[i], 2e-7, "element %d", i)
	}
	refused := inProcess(t.Context(), nil, "export job -o out.onnx")
	require.Contains(t, refused.errors, "training_model.onnx is a training graph")
	require.Zero(t, inProcess(t.Context(), nil, "export job -o out.onnx --model artefacts/eval_model.onnx -q").code)
	require.Zero(t, inProcess(t.Context(), nil,
		"run out.onnx --dim batch=3 --data-dir batch.npz --save-outputs out.npz -q").code)
	arrays, err := npz.Read("out.npz")
	require.NoError(t, err)
	require.Equal(t, float32(report.Eval), executor.Of[float32](arrays[0].Tensor)[0])

	// The learning rate is the checkpoint's where no flag says another.
	require.Zero(t, inProcess(t.Context(), nil, "train artefacts --data batch.npz --batch 3 --max-steps 1 "+
		"--lr-scheduler constant -o faster -q").code)
	text, err := os.ReadFile("faster/metrics.jsonl")
	require.NoError(t, err)
	require.Contains(t, string(text), `"learning_rate":0.25,`)
	require.NoError(t, os.Truncate("artefacts/checkpoint", 100))
	got = inProcess(t.Context(), nil, "train artefacts --data batch.npz")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errors, "artefacts/checkpoint: an offset leads out of the file")
}

// initFile writes weights for --init.
func initFile(t *testing.T, path string, list ...state) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, safetensors.Write(&out, entries(list), nil, func(i int, dst []byte) error {
		require.Len(t, dst, copy(dst, executor.Memory(list[i].elems)))
		return nil
	}))
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o666))
}

// TestInit: a job begins with the weights of a file, by their names or by PyTorch's; what does not fit
// is refused, or said.
func TestInit(t *testing.T) {
	exitFolder(t)
	four, three := []int{4}, []int{4, 3}
	ones := bytes.Repeat(executor.Memory([]float32{1}), 4*8)
	archive(t, "data.npz", map[string]*executor.Tensor{"x": {DType: graph.Float32, Shape: []int{4, 8}, Data: ones},
		"labels": executor.NewTensor(graph.Int64, four, int64(0), 1, 2, 0)})
	w := make([]float32, 24)
	for i := range w {
		w[i] = float32(i)
	}
	const train = "train labelled.onnx --data data.npz --batch 4 --max-steps 1 --learning-rate 0 "
	for name, rest := range map[string]string{"w": "",
		"module.net.w": "--init: 1 weights were found by names without"} {
		dir := filepath.Join(t.TempDir(), "job")
		initFile(t, "a.safetensors", state{name, []int{8, 3}, w}, state{"unused", four, w[:4]})
		got := inProcess(t.Context(), nil, train+"--init a.safetensors -o "+dir)
		require.Zero(t, got.code, got.errors)
		require.Equal(t, w, saved(t, dir, "w"))
		require.Contains(t, got.errors, `1 tensors belong to no parameter, the first is "unused"`)
		require.Contains(t, got.errors, rest)
	}
	for _, c := range []struct {
		states []state
		line   string
		want   string
	}{
		{[]state{{"v", []int{8, 3}, w}}, train,
			"a.safetensors has no tensor for 1 of the 1 parameters that are needed: w"},
		{[]state{{"w", three, w[:12]}}, train,
			`tensor "w" is parameter "w" by name, but has shape [4 3]; wanted [8 3]`},
		{nil, train + "--resume=job ", "--init and --resume cannot be combined: a checkpoint has all weights"},
		{nil, strings.Replace(train, "labelled", "gone", 1), "gone.onnx"},
	} {
		initFile(t, "a.safetensors", c.states...)
		got := inProcess(t.Context(), nil, c.line+"--init a.safetensors")
		require.Equal(t, cli.ExitUsage, got.code, got.errors)
		require.Contains(t, got.errors, c.want)
	}
	got := inProcess(t.Context(), nil, train+"--init text.onnx")
	require.Contains(t, got.errors, "text.onnx: not a safetensors file")
	got = inProcess(t.Context(), nil, train+"--init random:x")
	require.Contains(t, got.errors, "wanted random:SEED with a whole number")
}

const frozenText = `<ir_version: 8, opset_import: ["" : 17]>
frozen (float[batch, 4] x) => (float loss) <float[4] w = {1, 2, 3, 4}, float[4] base = {1, 1, 1, 1}>
{ z = Mul (x, w)  y = Add (z, base)  loss = ReduceMean <keepdims = 0> (y) }`

// TestInitFrozen: weights that are not trained stay the model's, and a file that has others is refused.
func TestInitFrozen(t *testing.T) {
	exitFolder(t)
	writeText(t, "frozen.onnx", frozenText)
	ones := bytes.Repeat(executor.Memory([]float32{1}), 8)
	archive(t, "data.npz", map[string]*executor.Tensor{"x": {DType: graph.Float32, Shape: []int{2, 4}, Data: ones}})
	four := []int{4}
	const train = "train frozen.onnx --data data.npz --batch 2 --max-steps 1 --freeze base --init a.safetensors -q"
	initFile(t, "a.safetensors", state{"w", four, []float32{5, 6, 7, 8}}, state{"base", four, []float32{1, 1, 1, 1}})
	require.Zero(t, inProcess(t.Context(), nil, train).code)
	initFile(t, "a.safetensors", state{"w", four, []float32{5, 6, 7, 8}}, state{"base", four, []float32{1, 1, 1, 2}})
	got := inProcess(t.Context(), nil, train)
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errors, `a.safetensors has other contents than frozen.onnx for 1 weights that are not `+
		`trained, the first is "base"`)
}

const statisticsText = `<ir_version: 8, opset_import: ["" : 17]>
norm (float[batch, 2, 3] x, float[2] w, float[2] b, float[2] mean, float[2] var) => (float loss)
{ y, m, v = BatchNormalization <training_mode = 1> (x, w, b, mean, var)  loss = ReduceMean <keepdims = 0> (y) }`

// TestInitStatistics: running statistics that the model has as inputs come from the file, too.
func TestInitStatistics(t *testing.T) {
	exitFolder(t)
	writeText(t, "norm.onnx", statisticsText)
	archive(t, "data.npz", map[string]*executor.Tensor{"x": {DType: graph.Float32, Shape: []int{2, 2, 3},
		Data: executor.Memory(make([]float32, 12))}})
	two := []int{2}
	all := []state{{"w", two, []float32{1, 2}}, {"b", two, []float32{3, 4}}, {"mean", two, []float32{10, 20}},
		{"var", two, []float32{10, 30}}}
	dir := filepath.Join(t.TempDir(), "job")
	const train = "train norm.onnx --data data.npz --batch 2 --max-steps 1 --learning-rate 0 --init a.safetensors "
	initFile(t, "a.safetensors", all...)
	got := inProcess(t.Context(), nil, train+"-o "+dir)
	require.Zero(t, got.code, got.errors)
	require.Equal(t, []float32{9, 18}, saved(t, dir, "mean"), "0.9 of the file's, and 0.1 of the batch's, which is 0")
	require.Equal(t, []float32{9, 27}, saved(t, dir, "var"))
	initFile(t, "a.safetensors", all[:3]...)
	got = inProcess(t.Context(), nil, train)
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errors, "a.safetensors has no tensor for 1 of the 4 parameters that are needed: var")
}

// TestLastCheckpoint: a job whose last checkpoint cannot be written says which file cannot be, and that
// is no fault of the model.
func TestLastCheckpoint(t *testing.T) {
	exitFolder(t)
	writeText(t, "frozen.onnx", frozenText)
	ones := bytes.Repeat(executor.Memory([]float32{1}), 4)
	archive(t, "data.npz", map[string]*executor.Tensor{"x": {DType: graph.Float32, Shape: []int{1, 4}, Data: ones}})
	require.NoError(t, os.MkdirAll("job/checkpoints", 0o777))
	require.NoError(t, os.WriteFile("job/checkpoints/step-2", nil, 0o666))
	got := inProcess(t.Context(), nil, "train frozen.onnx --data data.npz --max-steps 2 --freeze base -o job -q")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errors,
		"the last checkpoint: cannot write job/checkpoints/step-2: it is there and no directory")
	got = inProcess(t.Context(), nil, "train frozen.onnx --data data.npz --max-steps 3 --save-every 2 "+
		"--freeze base -o job")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.errors, "cannot write job/checkpoints/step-2")
	require.FileExists(t, "job/checkpoints/step-3/checkpoint.json")
}

// TestScaleOfGradients: the gradients that a graph has of its own cannot be scaled; who asks for it is told,
// and the update is guarded as without a scale.
func TestScaleOfGradients(t *testing.T) {
	exitFolder(t)
	writeText(t, "frozen.onnx", frozenText)
	require.Zero(t, inProcess(t.Context(), nil, "grad frozen.onnx -o gradients.onnx --no-grad base -q").code)
	ones := bytes.Repeat(executor.Memory([]float32{1}), 4)
	archive(t, "data.npz", map[string]*executor.Tensor{"x": {DType: graph.Float32, Shape: []int{1, 4}, Data: ones}})
	const train = "train gradients.onnx --data data.npz --max-steps 1 --init random:1 -O json "
	plain := inProcess(t.Context(), nil, train)
	require.Zero(t, plain.code, plain.errors)
	got := inProcess(t.Context(), nil, train+"--loss-scale 8")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.errors, "--loss-scale 8: gradients.onnx has gradients of its own, without a scale")
	loss := regexp.MustCompile(`"loss_last": *([^,]*)`)
	require.Equal(t, loss.FindString(plain.out), loss.FindString(got.out))
	got = inProcess(t.Context(), nil, "train frozen.onnx --data data.npz --max-steps 1 --freeze none")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errors, `--freeze "none" matches no parameter`)
}
