package ortfiles_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/onnx"
)

// The files of an artefact folder are those of ONNX Runtime's test data (training_api), with smaller
// dims and a frozen bias.
const trainingText = `<ir_version: 7, opset_import: ["" : 14, "com.microsoft" : 1]>
training (float[batch, 6] "input-0", int32[batch] labels,
    float[5, 6] "fc1.weight", float[5] "fc1.bias", float[4, 5] "fc2.weight", float[4] "fc2.bias",
    float[5, 6] "fc1.weight_grad.accumulation.buffer", float[4, 5] "fc2.weight_grad.accumulation.buffer",
    float[4] "fc2.bias_grad.accumulation.buffer", bool[1] lazy_reset_grad) => (float loss,
    bool[1] "fc1.weight_grad.accumulation.out", bool[1] "fc2.weight_grad.accumulation.out",
    bool[1] "fc2.bias_grad.accumulation.out")
<float loss_grad = {1}, int64[1] rows = {0}>
{
  h = Gemm <transB = 1> ("input-0", "fc1.weight", "fc1.bias")
  r = Relu (h)
  y = Gemm <transB = 1> (r, "fc2.weight", "fc2.bias")
  loss, log_prob = SoftmaxCrossEntropyLoss <reduction = "mean"> (y, labels)
  y_grad = com.microsoft.SoftmaxCrossEntropyLossGrad <reduction = "mean"> (loss_grad, log_prob, labels)
  reduced = ReduceSum <keepdims = 0> (y_grad, rows)
  "fc2.bias_grad" = Identity (reduced)
  "fc2.weight_grad" = Gemm <transA = 1, beta = 0.0> (y_grad, r)
  r_grad = Gemm <beta = 0.0> (y_grad, "fc2.weight")
  h_grad = com.microsoft.ReluGrad (r_grad, r)
  "fc1.weight_grad" = Gemm <transA = 1, beta = 0.0> (h_grad, "input-0")
  "fc1.weight_grad.accumulation.out" = com.microsoft.InPlaceAccumulatorV2 ("fc1.weight_grad.accumulation.buffer",
      "fc1.weight_grad", lazy_reset_grad)
  "fc2.weight_grad.accumulation.out" = com.microsoft.InPlaceAccumulatorV2 ("fc2.weight_grad.accumulation.buffer",
      "fc2.weight_grad", lazy_reset_grad)
  "fc2.bias_grad.accumulation.out" = com.microsoft.InPlaceAccumulatorV2 ("fc2.bias_grad.accumulation.buffer",
      "fc2.bias_grad", lazy_reset_grad)
}`

const evalText = `<ir_version: 7, opset_import: ["" : 14]>
eval (float[batch, 6] "input-0", int32[batch] labels,
    float[5, 6] "fc1.weight", float[5] "fc1.bias", float[4, 5] "fc2.weight", float[4] "fc2.bias") => (float loss)
{
  h = Gemm <transB = 1> ("input-0", "fc1.weight", "fc1.bias")
  r = Relu (h)
  y = Gemm <transB = 1> (r, "fc2.weight", "fc2.bias")
  loss, log_prob = SoftmaxCrossEntropyLoss <reduction = "mean"> (y, labels)
}`

const optimizerText = `<ir_version: 7, opset_import: ["" : 14, "com.microsoft" : 1]>
optimizer (float[1] learning_rate, int64[1] step, seq(float) params, seq(float) gradients,
    seq(float) first_order_moments, seq(float) second_order_moments) => (bool[1] updated_flag)
{
  clipped = com.microsoft.InplaceClipGradNorm <max_norm = 0.5> (gradients)
  updated_flag = com.microsoft.AdamWOptimizer <alpha = 0.875, beta = 0.99, epsilon = 1e-06, weight_decay = 0.125,
      adam_mode = 0, correct_bias = 1> (learning_rate, step, params, clipped, first_order_moments, second_order_moments)
}`

// numbers returns n numbers from a sequence that repeats late, between -scale and scale.
func numbers(n int, seed uint32, scale float32) []float32 {
	list := make([]float32, n)
	for i := range list {
		seed = seed*1664525 + 1013904223
		list[i] = (float32(seed>>16)/32768 - 1) * scale
	}
	return list
}

// tensor is one to be written.
type tensor struct {
	name  string
	dtype graph.DType
	dims  []int64
	data  []byte
}

func floats(name string, seed uint32, scale float32, dims ...int64) tensor {
	n := 1
	for _, d := range dims {
		n *= int(d)
	}
	return tensor{name, graph.Float32, dims, executor.Memory(numbers(n, seed, scale))}
}

// squares are floats that are not negative.
func squares(name string, seed uint32, scale float32, dims ...int64) tensor {
	t := floats(name, seed, scale, dims...)
	for i, v := range executor.Cast[float32](t.data) {
		executor.Cast[float32](t.data)[i] = v * v
	}
	return t
}

// group is an optimizer's group.
type group struct {
	name   string
	step   int64
	rate   float32
	states []state
}

type state struct {
	parameter string
	moments   []tensor
}

// contents is what a checkpoint has.
type contents struct {
	identifier        string
	version           int32
	nominal, external bool
	trained, frozen   []tensor
	groups            []group
	ints              map[string]int64
	floats            map[string]float32
	texts             map[string]string
}

// sample is the checkpoint of the artefacts, after some updates.
func sample() contents {
	return contents{identifier: "ODTC", version: 2,
		trained: []tensor{floats("fc1.weight", 1, 0.5, 5, 6), floats("fc2.weight", 3, 0.5, 4, 5),
			floats("fc2.bias", 4, 0.5, 4)},
		frozen: []tensor{floats("fc1.bias", 2, 0.5, 5)},
		groups: []group{{"group0", 7, 0.25, []state{
			{"fc1.weight", []tensor{floats("momentum0", 5, 0.1, 5, 6), squares("momentum1", 6, 0.1, 5, 6)}},
			{"fc2.weight", []tensor{floats("momentum0", 7, 0.1, 4, 5), squares("momentum1", 8, 0.1, 4, 5)}},
			{"fc2.bias", []tensor{floats("momentum0", 9, 0.1, 4), squares("momentum1", 10, 0.1, 4)}},
		}}},
		ints: map[string]int64{"epoch": -3}, floats: map[string]float32{"best": 0.5},
		texts: map[string]string{"who": "me"}}
}

// encode makes a checkpoint with Google's own builder, from the schema.
func (c contents) encode() []byte {
	b := flatbuffers.NewBuilder(0)
	vector := func(list []flatbuffers.UOffsetT) flatbuffers.UOffsetT { return b.CreateVectorOfTables(list) }
	tensors := func(list []tensor) flatbuffers.UOffsetT {
		var at []flatbuffers.UOffsetT
		for _, t := range list {
			name, raw := b.CreateString(t.name), b.CreateByteVector(t.data)
			b.StartVector(8, len(t.dims), 8)
			for i := len(t.dims) - 1; i >= 0; i-- {
				b.PrependInt64(t.dims[i])
			}
			dims := b.EndVector(len(t.dims))
			b.StartObject(6)
			b.PrependUOffsetTSlot(0, name, 0)
			b.PrependUOffsetTSlot(2, dims, 0)
			b.PrependInt32Slot(3, int32(t.dtype), 0)
			b.PrependUOffsetTSlot(4, raw, 0)
			at = append(at, b.EndObject())
		}
		return vector(at)
	}
	trained, frozen := tensors(c.trained), tensors(c.frozen)
	b.StartObject(4)
	b.PrependUOffsetTSlot(0, trained, 0)
	b.PrependUOffsetTSlot(1, frozen, 0)
	b.PrependBoolSlot(2, c.nominal, false)
	b.PrependBoolSlot(3, c.external, false)
	module := b.EndObject()
	var groups []flatbuffers.UOffsetT
	for _, g := range c.groups {
		var states []flatbuffers.UOffsetT
		for _, s := range g.states {
			name, moments := b.CreateString(s.parameter), tensors(s.moments)
			b.StartObject(2)
			b.PrependUOffsetTSlot(0, name, 0)
			b.PrependUOffsetTSlot(1, moments, 0)
			states = append(states, b.EndObject())
		}
		name, all := b.CreateString(g.name), vector(states)
		b.StartObject(4)
		b.PrependUOffsetTSlot(0, name, 0)
		b.PrependInt64Slot(1, g.step, 0)
		b.PrependFloat32Slot(2, g.rate, 0)
		b.PrependUOffsetTSlot(3, all, 0)
		groups = append(groups, b.EndObject())
	}
	all := vector(groups)
	bag := c.properties(b)
	b.StartObject(4)
	b.PrependInt32Slot(0, c.version, 0)
	b.PrependUOffsetTSlot(1, module, 0)
	b.PrependUOffsetTSlot(2, all, 0)
	b.PrependUOffsetTSlot(3, bag, 0)
	b.FinishWithFileIdentifier(b.EndObject(), []byte(c.identifier))
	return b.FinishedBytes()
}

// properties writes the bag, of at most one property of each kind.
func (c contents) properties(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	var ints, floats, texts []flatbuffers.UOffsetT
	for name, v := range c.ints {
		at := b.CreateString(name)
		b.StartObject(2)
		b.PrependUOffsetTSlot(0, at, 0)
		b.PrependInt64Slot(1, v, 0)
		ints = append(ints, b.EndObject())
	}
	for name, v := range c.floats {
		at := b.CreateString(name)
		b.StartObject(2)
		b.PrependUOffsetTSlot(0, at, 0)
		b.PrependFloat32Slot(1, v, 0)
		floats = append(floats, b.EndObject())
	}
	for name, v := range c.texts {
		at, value := b.CreateString(name), b.CreateString(v)
		b.StartObject(2)
		b.PrependUOffsetTSlot(0, at, 0)
		b.PrependUOffsetTSlot(1, value, 0)
		texts = append(texts, b.EndObject())
	}
	i, f, s := b.CreateVectorOfTables(ints), b.CreateVectorOfTables(floats), b.CreateVectorOfTables(texts)
	b.StartObject(3)
	b.PrependUOffsetTSlot(0, i, 0)
	b.PrependUOffsetTSlot(1, f, 0)
	b.PrependUOffsetTSlot(2, s, 0)
	return b.EndObject()
}

// batch is the data of every step.
func batch() (x []float32, labels []int32) { return numbers(18, 11, 1), []int32{0, 3, 1} }

// artefacts writes a folder of artefacts.
func artefacts(t testing.TB, c contents) string {
	t.Helper()
	dir := t.TempDir()
	writeArtefacts(t, dir, c)
	return dir
}

func writeArtefacts(t testing.TB, dir string, c contents) {
	t.Helper()
	for name, text := range map[string]string{"training_model.onnx": trainingText, "eval_model.onnx": evalText,
		"optimizer_model.onnx": optimizerText} {
		m, err := graph.Parse(text, name)
		require.NoError(t, err)
		require.NoError(t, onnx.WriteFile(filepath.Join(dir, name), m, onnx.Options{}))
	}
	x, labels := batch()
	inputs, err := json.Marshal([]map[string]any{{"type": graph.Float32, "dims": []int{3, 6}},
		{"type": graph.Int32, "dims": []int{3}}})
	require.NoError(t, err)
	for name, data := range map[string][]byte{"checkpoint": c.encode(), "input_0.bin": executor.Memory(x),
		"input_1.bin": executor.Memory(labels), "inputs.json": inputs} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
}
