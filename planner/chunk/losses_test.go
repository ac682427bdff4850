package chunk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt"
	"memopt/executor"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/internal/test/rapidflags"
	"memopt/planner/chunk"
)

// lossCase is a drawn head with a loss and its gradient.
type lossCase struct {
	rows, classes, inner int64  // of scores [rows, classes] or, with inner, [rows, classes, inner]
	dtype, labels        string // float, double or float16; int64 or int32
	reduction            string
	dialect              string // which operators: "onnx" has the gradient of memopt, the others are ORT's
	weights, ignore, all bool   // weights of classes, a label that is ignored, all labels are
	ignored              int64
	made                 bool // labels come from a node
}

func drawLoss(t *rapid.T) lossCase {
	c := lossCase{
		rows: rapid.Int64Range(1, 9).Draw(t, "rows"), classes: rapid.Int64Range(2, 7).Draw(t, "classes"),
		inner:     rapid.SampledFrom([]int64{0, 0, 1, 3}).Draw(t, "inner"),
		dtype:     rapid.SampledFrom([]string{"float", "double", "float16"}).Draw(t, "dtype"),
		labels:    rapid.SampledFrom([]string{"int64", "int32"}).Draw(t, "labels"),
		reduction: rapid.SampledFrom([]string{"mean", "sum", "none"}).Draw(t, "reduction"),
		dialect:   rapid.SampledFrom([]string{"onnx", "grad", "internal"}).Draw(t, "dialect"),
		weights:   rapid.Bool().Draw(t, "weights"), ignore: rapid.Bool().Draw(t, "ignore"),
	}
	c.all = c.ignore && rapid.Bool().Draw(t, "all")
	c.made = rapid.Bool().Draw(t, "made")
	c.ignored = rapid.SampledFrom([]int64{-100, 0, 1}).Draw(t, "ignored")
	return c
}

// scoresShape and labelsShape are dims in ONNX's textual syntax.
func (c lossCase) scoresShape() string {
	if c.inner > 0 {
		return fmt.Sprintf("[%d, %d, %d]", c.rows, c.classes, c.inner)
	}
	return fmt.Sprintf("[%d, %d]", c.rows, c.classes)
}

func (c lossCase) labelsShape() string {
	if c.inner > 0 {
		return fmt.Sprintf("[%d, %d]", c.rows, c.inner)
	}
	return fmt.Sprintf("[%d]", c.rows)
}

// fed is the input that labels come from.
func (c lossCase) fed() string {
	if c.made {
		return "raw"
	}
	return "labels"
}

// attrs are the loss's attributes.
func (c lossCase) attrs(ignore bool) string {
	text := fmt.Sprintf("reduction = %q", c.reduction)
	if ignore && c.ignore {
		text += fmt.Sprintf(", ignore_index = %d", c.ignored)
	}
	return "<" + text + ">"
}

// step is the training graph: scores are a parameter times a factor.
func (c lossCase) step(t rapid.TB) *memopt.Model {
	weight, ignored := `""`, `""`
	in := fmt.Sprintf("%s%s p, %s%s %s", c.dtype, c.scoresShape(), c.labels, c.labelsShape(), c.fed())
	consts := c.dtype + " one = {1}"
	if c.weights {
		in += fmt.Sprintf(", %s[%d] weight", c.dtype, c.classes)
		weight = "weight"
	}
	if c.ignore {
		consts += fmt.Sprintf(", int64 ignored = {%d}", c.ignored)
		ignored = "ignored"
	}
	scores := "  s = Tanh(p)  l = Mul(s, s)  "
	if c.made {
		scores += "negative = Neg(raw)  labels = Neg(negative)  "
	}
	if c.dialect == "onnx" {
		return trained(t, fmt.Sprintf("m (%s) => (%s loss) <%s> {%s each = SoftmaxCrossEntropyLoss%s(l, labels, %s)"+
			"  loss = ReduceMean<keepdims = 0>(each) }", in, c.dtype, consts, scores, c.attrs(true), weight), nil, "p")
	}
	// dy is the gradient of the mean of all losses.
	dy := "one"
	if c.reduction == "none" {
		dy = "dy"
		in += fmt.Sprintf(", %s%s dy", c.dtype, c.labelsShape())
	}
	loss := fmt.Sprintf("each, logp = SoftmaxCrossEntropyLoss%s(l, labels, %s)", c.attrs(true), weight)
	grad := fmt.Sprintf("dl = com.microsoft.SoftmaxCrossEntropyLossGrad%s(%s, logp, labels, %s)", c.attrs(true),
		dy, weight)
	if c.dialect == "internal" {
		loss = fmt.Sprintf("each, logp = com.microsoft.SoftmaxCrossEntropyLossInternal%s(l, labels, %s, %s)",
			c.attrs(false), weight, ignored)
		grad = fmt.Sprintf("dl = com.microsoft.SoftmaxCrossEntropyLossInternalGrad%s(%s, logp, labels, %s, %s)",
			c.attrs(false), dy, weight, ignored)
	}
	read, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
m (%s) => (%s loss, %[2]s%s dp) <%s> {%s%s loss = ReduceMean<keepdims = 0>(each)
  %s  d2 = Add(dl, dl)  ds = Mul(d2, s)  ss = Mul(s, s)  rest = Sub(one, ss)  dp = Mul(ds, rest) }`,
		in, c.dtype, c.scoresShape(), consts, scores, loss, grad), "m")
	require.NoError(t, err)
	m, err := memopt.New(read, memopt.Options{})
	require.NoError(t, err)
	return m
}

// tolerance is what sums of parts may differ by.
func (c lossCase) tolerance() verify.Tolerance {
	if c.dtype == "float16" {
		return verify.Tolerance{Abs: 2e-3, Rel: 2e-3}
	}
	return verify.Tolerance{Abs: 1e-6, Rel: 1e-5}
}

// fillLabels makes the labels: all ignored, or some.
func (c lossCase) fillLabels(t *rapid.T, x *executor.Tensor) {
	for i := range x.Len() {
		label := rapid.Int64Range(0, c.classes-1).Draw(t, "label")
		if c.all || c.ignore && rapid.Bool().Draw(t, "skip") {
			label = c.ignored
		}
		if c.labels == "int32" {
			executor.Of[int32](x)[i] = int32(label)
		} else {
			executor.Of[int64](x)[i] = label
		}
	}
}

// TestLossesInParts: losses and gradients of every dialect, reduction and type, with weights of classes
// and ignored labels, some or all, give in parts every bit of the whole, or are left alone with a
// reason.
func TestLossesInParts(t *testing.T) {
	cut, why := map[string]int{}, map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		c := drawLoss(r)
		b := newBaseline(r, c.step(r))
		c.fillLabels(r, b.x.Inputs[c.fed()])
		dim := rapid.SampledFrom([]string{"0", "0", "0", "0", "1", "2", "0-2"}).Draw(r, "dim")
		mode := rapid.SampledFrom([]chunk.Mode{chunk.Exact, chunk.Fast}).Draw(r, "mode")
		parts := rapid.IntRange(2, 10).Draw(r, "parts")
		around, err := chunk.Around(b.bound, b.order, "l", dim, parts, 0, mode)
		if err != nil {
			why[reason(err)]++
			return
		}
		require.True(t, around.Exact || mode == chunk.Fast)
		b.holdWithin(r, c.tolerance(), *around)
		cut[fmt.Sprintf("%s %s weights %v ignore %v all %v", c.dialect, c.reduction, c.weights, c.ignore, c.all)]++
	})
	t.Logf("%d forms cut: %v; left alone: %v", len(cut), cut, why)
	require.Greater(t, len(cut), rapidflags.Cases(12))
}

// TestSumOfLosses: a sum of losses has the bits of the whole, too, so that neither scores nor what their
// gradient is scattered into need be there as a whole.
func TestSumOfLosses(t *testing.T) {
	b := newBaseline(t, trained(t, `m (float[900, 16] x, int64[900] labels, float[16, 300] w) => (float loss)
		{ h = Tanh(x)  l = MatMul(h, w)  p = LogSoftmax(l)  loss = NegativeLogLikelihoodLoss<reduction = "sum">(p, labels) }`,
		nil, "w"))
	cut, err := chunk.Around(b.bound, b.order, "l", "0", 4, 0.5, chunk.Exact)
	require.NoError(t, err)
	b.hold(t, *cut)
	labels := strings.Join(cut.Nodes, " ")
	for _, op := range []string{"NegativeLogLikelihoodLoss#", "ScatterElements", "ConstantOfShape"} {
		require.Contains(t, labels, op)
	}
}

// reason is what an error says behind the nodes that it names.
func reason(err error) string {
	text := err.Error()
	return text[strings.LastIndex(text, ")")+1:]
}
