//go:build unix

package main

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/internal/test/mutate"
)

// FuzzVerbs runs command lines on mutants: whatever the input, a line ends, with a code of CLI.md,
// one line that says why, whole reports and files, no other numbers than promised, and nothing left
// behind. The input is a line of fuzzLines, what it reads, and the genome of the mutation.
// testdata/fuzz/FuzzVerbs holds what once went wrong.
func FuzzVerbs(f *testing.F) {
	b := newBench(f)
	samples := b.smallSamples(f)
	models := mutators(samples)
	for i, s := range samples {
		for n, line := range fuzzLines {
			if line.input == s.kind && (s.kind != modelInput || (n+i)%8 == 0) {
				f.Add(uint16(n), s.data, mutate.Genome(rand.New(rand.NewPCG(uint64(i), uint64(n))), 1+i%2))
			}
		}
	}
	f.Fuzz(func(t *testing.T, line uint16, data, genome []byte) {
		const large = 100_000 // slows the fuzzer down and finds no more
		if len(data) > large {
			return
		}
		chosen := fuzzLines[int(line)%len(fuzzLines)]
		mutant, did := mutateInput(models, chosen.input, data, genome)
		if found, _ := b.try(chosen, mutant, len(genome)%3 == 0); found != nil {
			t.Fatalf("%v\nof a mutant of %d bytes:\n%s", found, len(mutant), strings.Join(did, "\n"))
		}
	})
}

// mutateInput makes a mutant of a line's input.
func mutateInput(models *mutate.Models, kind inputKind, data, genome []byte) ([]byte, []string) {
	switch kind {
	case planInput, configInput, traceInput, deviceInput, aliasInput, instanceInput:
		return mutate.JSON(data, genome)
	case tableInput:
		return mutate.CSV(data, genome)
	case tensorInput:
		return models.MutateTensor(data, genome)
	case arraysInput:
		return mutate.NPZ(data, genome)
	}
	return models.Mutate(data, genome)
}

// sample is an input that mutants are made of.
type sample struct {
	name string
	kind inputKind
	data []byte
}

// mutators returns the mutator of models, whose donors are the samples.
func mutators(samples []sample) *mutate.Models {
	models := &mutate.Models{}
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		row := op.Of(k)
		models.Operators = append(models.Operators, mutate.Operator{Domain: row.Domain, Name: row.Name})
	}
	for _, s := range samples {
		if s.kind == modelInput && len(s.data) < 20_000 {
			models.Donors = append(models.Donors, s.data)
		}
	}
	return models
}

// smallSamples are inputs that need no file beside the project.
func (b *bench) smallSamples(t testing.TB) []sample {
	t.Helper()
	var list []sample
	models := maps.Clone(forwardModels)
	maps.Copy(models, faultyModels)
	for name, text := range models {
		m, err := graph.Parse("<ir_version: 8, opset_import: [\"\" : 17]> "+strings.ReplaceAll(text, "'", `"`), name)
		require.NoError(t, err)
		list = append(list, encoded(t, name, m))
	}
	slices.SortFunc(list, func(a, b sample) int { return strings.Compare(a.name, b.name) })
	for seed, o := range []graphtest.Options{{Nodes: 12, Rows: 4, Width: 8},
		{Nodes: 30, Control: true, Rows: 4, Width: 8}, {Nodes: 25, Yield: true, Symbolic: true}} {
		list = append(list, encoded(t, "random", graphtest.Training(rand.New(rand.NewPCG(uint64(seed), 0)), o)))
	}
	list = append(list, encoded(t, "step", smallStep(t)))
	for _, made := range []sample{{name: "plan.json", kind: planInput}, {name: "config.json", kind: configInput},
		{name: "trace.json", kind: traceInput}, {name: "arrays.npz", kind: arraysInput}} {
		var err error
		made.data, err = os.ReadFile(filepath.Join(b.data, made.name))
		require.NoError(t, err)
		list = append(list, made)
	}
	parts, err := os.ReadFile(filepath.Join(b.data, "parts.json"))
	require.NoError(t, err)
	return append(list,
		sample{"aliases", aliasInput, []byte(`{"aliased": ["act", "d1", "no such node"]}`)},
		sample{"device", deviceInput, []byte(fuzzDevice)},
		sample{"chain", instanceInput, []byte(exitFiles["chain.json"])},
		sample{"hard", instanceInput, hardInstance(12)},
		sample{"buffers", tableInput, []byte(exitFiles["buffers.csv"])},
		encodedTensor(t, graph.Float32Tensor("x", []int64{4, 8}, make([]float32, 32)...)),
		encodedTensor(t, graph.Int64Tensor("labels", []int64{4}, 0, 1, 2, 3)),
		encodedTensor(t, graph.Float32Tensor("loss", nil, 1)),
		sample{"parts.json", planInput, parts})
}

// faultyModels are models that once ended in a trace, in other numbers, or in a hang: small ones,
// as text.
var faultyModels = map[string]string{
	"empty operands": `m (float[4] x, float[4, 4] w) => (float loss) { a = Sub("", x)  b = MatMul(a, "")  c = Where("", b, w)  d = Pow("", c)
		e = Concat<axis = 0>(d, "")  f = Gather("", e)  loss = ReduceSum<keepdims = 0>(f) }`,
	"empty operand of a product":       `m (float[4, 4] x) => (float loss) { y = MatMul(x, "")  loss = ReduceSum<keepdims = 0>(y) }`,
	"empty operand of a sum":           `m (float[4] x) => (float loss) { y = Sub("", x)  loss = ReduceSum<keepdims = 0>(y) }`,
	"empty operand of a loss":          `m (float[4, 4] x) => (float loss) { loss = SoftmaxCrossEntropyLoss(x, "") }`,
	"empty operand of a norm":          `m (float[4, 4] x) => (float loss) { y = LayerNormalization<axis = -1>(x, "")  loss = ReduceSum<keepdims = 0>(y) }`,
	"empty operand of a convolution":   `m (float[1, 2, 3] w) => (float loss) { y = ConvTranspose("", w)  loss = ReduceSum<keepdims = 0>(y) }`,
	"empty operand of a recurrence":    `m (float[2, 1, 3] x, float[1, 4, 3] w) => (float loss) { y = RNN<hidden_size = 4>(x, w, "")  loss = ReduceSum<keepdims = 0>(y) }`,
	"empty operand of an attention":    `m (float[1, 2, 4, 8] q, float[1, 2, 4, 8] k) => (float loss) { y = Attention(q, k, "")  loss = ReduceSum<keepdims = 0>(y) }`,
	"empty condition":                  `m (float[4] x) => (float loss) { y = If<then_branch = t () => (float[4] a) { a = Neg(x) }, else_branch = e () => (float[4] b) { b = Abs(x) }>("")  loss = ReduceSum<keepdims = 0>(y) }`,
	"an output that is an input":       `m (float loss, float[4] x) => (float loss, float[4] y) { y = Neg(x) }`,
	"an output that is a weight":       `m (float[4] x) => (float loss, float[4] y) <float loss = {1}> { y = Neg(x) }`,
	"a type that contradicts":          `m (float[4] x) => (int8[4] y, float loss) { y = Add(x, x)  loss = ReduceSum<keepdims = 0>(x) }`,
	"a declared type that is smaller":  `m (double[3, 2, 2] x) => (float[3, 1, 2] y, float loss) { y = ReduceSumSquare<axes = [1]>(x)  z = Cast<to = 1>(x)  loss = ReduceSum<keepdims = 0>(z) }`,
	"an If on a device that counts":    `m (bool c, float[4] x) => (float loss) { y = If<then_branch = t () => (float[4] a) { a = Neg(x) }, else_branch = e () => (float[4] b) { b = Abs(x) }>(c)  loss = ReduceSum<keepdims = 0>(y) }`,
	"a Loop on a device that counts":   `m (int64 n, bool c, float[4] x) => (float loss) { y = Loop<body = l (int64 i, bool m, float[4] s) => (bool m2, float[4] u) { m2 = Identity(m)  u = Neg(s) }>(n, c, x)  loss = ReduceSum<keepdims = 0>(y) }`,
	"an input of a size that none has": `m (float[1099511627776] x, float[1048576, 1048576] w) => (float loss) { y = Mul(x, w)  loss = ReduceSum<keepdims = 0>(y) }`,
}

// fuzzDevice is a device profile.
const fuzzDevice = `{"schema":"memopt.device/v1","name":"d","loops_flops":{"float64":1e12,"float32":1e13,"float16":1e13,"bfloat16":1e13},
	"products_flops":{"float64":1e12,"float32":1e13,"float16":1e14,"bfloat16":1e14},"bytes_per_second":1e12,"launch_seconds":1e-6,"source":"none"}`

// smallStep is a training step whose metadata says what its states are.
func smallStep(t testing.TB) *graph.Model {
	t.Helper()
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> step (float[4, 8] x, float[8, 3] w, float[3] b) => (float loss) {
		h = MatMul(x, w)  y = Add(h, b)  t = Tanh(y)  loss = ReduceMean<keepdims = 0>(t) }`, "step")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w", "b"}})
	require.NoError(t, err)
	require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "adamw", LR: 0.1}))
	return j.Model
}

func encoded(t testing.TB, name string, m *graph.Model) sample {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, onnx.Write(&b, m))
	return sample{name, modelInput, b.Bytes()}
}

// encodedTensor returns a tensor as a sample.
func encodedTensor(t testing.TB, x *graph.TensorData) sample {
	t.Helper()
	data, err := onnx.EncodeTensor(x)
	require.NoError(t, err)
	return sample{"tensor " + x.Name, tensorInput, data}
}
