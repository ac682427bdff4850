package autograd_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// headCase is a loss of PyTorch's with its gradient, as testdata/heads/heads.py writes it.
type headCase struct {
	Name, DType string
	Shape       []int
	Head        struct {
		Kind       autograd.HeadKind
		Axis       *int
		Shift, Sum bool
		Ignore     any
	}
	Scores      []float32
	Labels      []any
	LabelsShape []int `json:"labels_shape"`
	Loss        float64
	Grad        []float64
}

// head is the Head of a case.
func (c *headCase) head() *autograd.Head {
	h := &autograd.Head{Kind: c.Head.Kind, Scores: "logits", Labels: "y", Axis: c.Head.Axis, Shift: c.Head.Shift,
		Sum: c.Head.Sum}
	if c.Head.Ignore != nil {
		x := headNumber(c.Head.Ignore)
		h.Ignore = &x
	}
	return h
}

// headNumber reads a number, or NaN, which JSON writes as a string.
func headNumber(x any) float64 {
	if f, ok := x.(float64); ok {
		return f
	}
	return math.NaN()
}

// TestHeads: losses that are added to a graph, and their gradients, are those of PyTorch.
func TestHeads(t *testing.T) {
	text, err := os.ReadFile("testdata/heads/heads.json")
	require.NoError(t, err)
	var cases []headCase
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Greater(t, len(cases), 20)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			dims := strings.Trim(fmt.Sprint(c.Shape), "[]")
			dims = "N" + strings.ReplaceAll(strings.TrimPrefix(dims, fmt.Sprint(c.Shape[0])), " ", ", ")
			to := map[string]graph.DType{"float32": graph.Float32, "float16": graph.Float16,
				"bfloat16": graph.BFloat16}[c.DType]
			m, err := graph.Parse(fmt.Sprintf(`<ir_version: 10, opset_import: ["" : 20]>
				g (float[%s] z) => (logits) { logits = Cast<to = %d>(z) }`, dims, to), "g")
			require.NoError(t, err)
			j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"z"},
				Losses: []autograd.Loss{{Head: c.head()}}})
			require.NoError(t, err)
			require.Equal(t, "loss", j.Loss)
			out := runHead(t, j, &c)
			require.InEpsilon(t, c.Loss, float64(out[0][0]), 2e-6)
			for i, want := range c.Grad {
				require.InDelta(t, want, float64(out[1][i]), 2e-6*(1+math.Abs(want)), "element %d", i)
			}
		})
	}
}

// runHead returns the loss and the gradient.
func runHead(t *testing.T, j *autograd.Joint, c *headCase) (out [2][]float32) {
	labels := &executor.Tensor{DType: graph.Float32, Shape: c.LabelsShape}
	for _, x := range c.Labels {
		if c.Head.Kind == autograd.CrossEntropy {
			labels.DType = graph.Int64
			labels.Data = binary.LittleEndian.AppendUint64(labels.Data, uint64(int64(headNumber(x))))
		} else {
			labels.Data = binary.LittleEndian.AppendUint32(labels.Data, math.Float32bits(float32(headNumber(x))))
		}
	}
	scores := &executor.Tensor{DType: graph.Float32, Shape: c.Shape}
	for _, x := range c.Scores {
		scores.Data = binary.LittleEndian.AppendUint32(scores.Data, math.Float32bits(x))
	}
	run := newRunner(t, j.Model, symbolic.Env{"N": int64(c.Shape[0])})
	results := run(map[string]*executor.Tensor{"z": scores, "y": labels})
	for i, d := range j.Model.Graph.Outputs {
		var list []float32
		for raw := results[i].Data; results[i].DType == graph.Float32 && len(raw) > 0; raw = raw[4:] {
			list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
		}
		switch j.Model.Graph.ValueName(d.Value) {
		case "loss":
			out[0] = list
		case "z_grad":
			out[1] = list
		}
	}
	return out
}

// TestHeadErrors: losses that cannot be added are refused, and the message names the wanted form.
func TestHeadErrors(t *testing.T) {
	parse := func() *graph.Model {
		m, err := graph.Parse(`<ir_version: 10, opset_import: ["" : 20]>
			g (float[N, 3] x, int64[N] ids, float[N] f) => (logits, float s, i) <float[3] w = {1, 2, 3}> {
				logits = Mul(x, w)  s = ReduceSum<keepdims = 0>(logits)  i = Shape(x)  loss = Neg(s) }`, "g")
		require.NoError(t, err)
		return m
	}
	half := 0.5
	far := 2
	for _, c := range []struct {
		head autograd.Head
		want string
	}{
		{autograd.Head{Kind: "hinge", Scores: "logits"}, "no such kind of loss; there are cross-entropy, mse and bce"},
		{autograd.Head{Kind: autograd.MSE, Scores: "logit"}, `the graph has no value "logit"; its outputs are logits`},
		{autograd.Head{Kind: autograd.MSE, Scores: "i"}, `"i" is int64[2], wanted floats`},
		{autograd.Head{Kind: autograd.CrossEntropy, Scores: "s"}, "the scores have 0 dims, wanted 2 or more"},
		{autograd.Head{Kind: autograd.CrossEntropy, Scores: "logits", Labels: "f"},
			`the graph has a value "f", float[N]: wanted a new name, or an input that is int64[N]`},
		{autograd.Head{Kind: autograd.CrossEntropy, Scores: "logits", Labels: "s"}, `the graph has a value "s"`},
		{autograd.Head{Kind: autograd.MSE, Scores: "logits", Labels: "f"},
			"wanted a new name, or an input that is float[N, 3]"},
		{autograd.Head{Kind: autograd.CrossEntropy, Scores: "logits", Labels: "y", Ignore: &half},
			"0.5 that is to be ignored is no whole number"},
		{autograd.Head{Kind: autograd.CrossEntropy, Scores: "logits", Labels: "y", Axis: &far},
			"the axis of the classes is 2, and the scores have 2 dims"},
		{autograd.Head{Kind: autograd.CrossEntropy, Scores: "logits", Labels: "y", Axis: new(int), Shift: true},
			"and it is axis 0 of 2 dims"},
		{autograd.Head{Kind: autograd.BCE, Scores: "logits", Labels: "y", Axis: &far}, "it has no axis of classes"},
		{autograd.Head{Kind: autograd.MSE, Scores: "s", Labels: "y", Shift: true},
			`"s" is a scalar, which has no steps that follow`},
	} {
		_, err := autograd.Differentiate(parse(), autograd.Options{Losses: []autograd.Loss{{Head: &c.head}}})
		require.ErrorContains(t, err, c.want)
	}
	_, err := autograd.Differentiate(parse(), autograd.Options{Losses: []autograd.Loss{{Seed: true,
		Head: &autograd.Head{Kind: autograd.MSE, Scores: "logits", Labels: "y"}}}})
	require.ErrorContains(t, err, "has no gradient from outside")

	given := autograd.Head{Kind: autograd.CrossEntropy, Scores: "logits", Labels: "ids"}
	j, err := autograd.Differentiate(parse(), autograd.Options{Losses: []autograd.Loss{{Head: &given}}})
	require.NoError(t, err, "an input that the graph has serves")
	require.Len(t, j.Model.Graph.Inputs, 3)
	require.Equal(t, "loss_2", j.Loss, "the graph has a value of the first name")
	require.Equal(t, []string{"w"}, j.Wrt)
}

// TestHeadLabels: the input for labels is data although its shape is fixed, and two losses share one.
func TestHeadLabels(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 11]>
		g (float[4, 3] x) => (a) <float[3] w = {1, 2, 3}> { a = Mul(x, w) }`, "g")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{LossOutput: true, Losses: []autograd.Loss{
		{Head: &autograd.Head{Kind: autograd.MSE, Scores: "a", Labels: "y"}},
		{Weight: 0.5, Head: &autograd.Head{Kind: autograd.BCE, Scores: "a", Labels: "y"}}}})
	require.NoError(t, err)
	require.Equal(t, []string{"w"}, j.Wrt)
	require.Equal(t, []string{"x", "y"}, j.Data)
	require.Equal(t, autograd.TotalLoss, j.Loss)
	require.True(t, slices.ContainsFunc(j.Model.Graph.Inputs, func(d graph.Decl) bool {
		return j.Model.Graph.ValueName(d.Value) == "y" && d.Type.String() == "float[4, 3]"
	}))
	_, err = autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{
		{Head: &autograd.Head{Kind: autograd.CrossEntropy, Scores: "a", Labels: "y"}}}})
	require.NoError(t, err, "the operator set is raised")
}
