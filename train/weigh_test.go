package train_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/train"
	"memopt/train/checkpoint"
)

// lossesText are losses of scores o[B,4] and labels y[B].
var lossesText = map[string]struct {
	weighing autograd.Weighing
	text     string
}{
	"plain":  {autograd.Weighted, `loss = SoftmaxCrossEntropyLoss(o, y)`},
	"ignore": {autograd.Weighted, `loss = SoftmaxCrossEntropyLoss<ignore_index = 0>(o, y)`},
	"classes": {autograd.Weighted, `cw = Constant<value = float[4] {0.1, 2.0, 0.5, 1.5}>()
		loss = SoftmaxCrossEntropyLoss(o, y, cw)`},
	"both": {autograd.Weighted, `cw = Constant<value = float[4] {0.1, 2.0, 0.5, 1.5}>()
		l = LogSoftmax<axis = 1>(o)  loss = NegativeLogLikelihoodLoss<ignore_index = 3>(l, y, cw)`},
	"sum":     {autograd.Summed, `loss = SoftmaxCrossEntropyLoss<reduction = "sum">(o, y)`},
	"own sum": {autograd.Summed, `each = SoftmaxCrossEntropyLoss<reduction = "none">(o, y)  loss = ReduceSum<keepdims = 0>(each)`},
	"scaled sum": {autograd.Summed, `half = Constant<value_float = 0.5>()
		s = SoftmaxCrossEntropyLoss<reduction = "sum", ignore_index = 2>(o, y)  loss = Mul(half, s)`},
	"mean": {autograd.Weighted, `each = SoftmaxCrossEntropyLoss<reduction = "none">(o, y)
		loss = ReduceMean<keepdims = 0>(each)`},
	"mask": {autograd.Weighted, `each = SoftmaxCrossEntropyLoss<reduction = "none">(o, y)
		m = Cast<to = 1>(y)  one = Constant<value_float = 1.0>()
		p = Mul(each, m)  num = ReduceSum<keepdims = 0>(p)  den = ReduceSum<keepdims = 0>(m)
		most = Max(den, one)  loss = Div(num, most)`},
	"error": {autograd.Weighted, `f = Cast<to = 1>(y)  axis = Constant<value_ints = [1]>()  t = Unsqueeze(f, axis)
		e = Sub(o, t)  q = Mul(e, e)  mean = ReduceMean<keepdims = 1>(q)  shape = Constant<value_ints = [1]>()
		back = Reshape(mean, shape)  n = Neg(back)  loss = Neg(n)`},
	"rows": {autograd.Weighted, `each = SoftmaxCrossEntropyLoss<reduction = "none">(o, y)
		zero = Constant<value_int = 0>()  dims = Shape(o)  b = Gather(dims, zero)  rows = Cast<to = 1>(b)
		num = ReduceSum<keepdims = 0>(each)  loss = Div(num, rows)`},
	"terms": {autograd.Weighted, `c = SoftmaxCrossEntropyLoss<ignore_index = 0>(o, y)
		q = Mul(w1, w1)  decay = ReduceSum<keepdims = 0>(q)  small = Constant<value_float = 0.01>()
		b = Mul(decay, small)  loss = Add(c, b)`},
}

// netOf is a network with one of the losses.
func netOf(loss string) string {
	text := `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, int64[B] y, float[6, 16] w1, float[16, 4] w3) => (float LOSS) {
	a = MatMul(x, w1)  r = Tanh(a)  o = MatMul(r, w3)
	` + loss + "\n}"
	if strings.Contains(loss, "Reshape(") {
		return strings.Replace(text, "float LOSS", "float[1] loss", 1)
	}
	return strings.Replace(text, "LOSS", "loss", 1)
}

// TestBatchesWeigh: an update of all samples is the same, and so are its loss and that of an evaluation, whatever
// batches they come in: of one rank or several, with a last one that is short, and with some that have no label
// that counts.
func TestBatchesWeigh(t *testing.T) {
	for name, loss := range lossesText {
		t.Run(name, func(t *testing.T) {
			text := netOf(loss.text)
			setUp := func(k *task, batch int64, micros int) {
				k.recipe.Optimizer.Kind, k.recipe.Optimizer.WeightDecay, k.recipe.Optimizer.MaxNorm = "sgd", 0, 0
				k.batch, k.recipe.Micros, k.config.Micros, k.config.Updates = batch, micros, int64(micros), 1
				k.config.Schedule.Warmup = 0
			}
			evaluate := func(k *task) {
				k.config.Eval = &samples{n: 11, inputs: k.source.inputs, poison: -1}
			}
			type end struct {
				weights    []float32
				loss, eval float64
			}
			ended := func(r *train.Result) end {
				c, err := checkpoint.Load(r.Saved)
				require.NoError(t, err)
				defer c.Close()
				x, _ := c.Weights.Tensor("w3")
				return end{append([]float32{}, executor.Of[float32](x)...), r.LossFirst, r.EvalLast}
			}
			alone := func(batch int64, micros int, apart bool) end {
				k := newTask(t, text)
				setUp(k, batch, micros)
				k.recipe.Apart = apart
				k.prepare(t)
				require.Equal(t, loss.weighing, k.config.Steps.Weights.Weighing)
				require.Empty(t, k.config.Steps.Weights.Doubt)
				evaluate(k)
				folder, err := checkpoint.OpenJob(t.TempDir())
				require.NoError(t, err)
				defer folder.Close()
				k.config.Folder = folder
				r, err := train.Run(context.Background(), &k.config)
				require.NoError(t, err)
				require.Zero(t, r.Skipped)
				return ended(r)
			}
			want := alone(22, 1, false)
			require.False(t, math.IsNaN(want.loss))
			same := func(got end) {
				t.Helper()
				require.InDeltaSlice(t, want.weights, got.weights, 2e-6)
				require.InEpsilon(t, want.loss, got.loss, 1e-5)
				require.InEpsilon(t, want.eval, got.eval, 1e-4)
			}
			type jobs struct {
				ranks, micros, zero int
				batch               int64
			}
			list := []jobs{{6, 1, 0, 4}}
			same(alone(4, 6, false))
			if name == "ignore" || name == "sum" {
				same(alone(1, 22, false))
				same(alone(5, 5, true))
				list = append(list, jobs{2, 3, 0, 4}, jobs{5, 1, 2, 5}, jobs{3, 8, 1, 1})
			}
			for _, c := range list {
				g := onRanksOf(t, text, c.ranks, t.TempDir(), func(k *task, _ int) {
					setUp(k, c.batch, c.micros)
					k.recipe.Optimizer.Ranks.Zero = c.zero
					k.prepare(t)
					evaluate(k)
				})
				for _, err := range g.errs {
					require.NoError(t, err)
				}
				same(ended(g.results[0]))
			}
		})
	}
}

// TestDoubtfulLosses: where the divisor of a loss is unknown, batches count by their samples, and that is
// said.
func TestDoubtfulLosses(t *testing.T) {
	for want, loss := range map[string]string{
		"neither a mean nor a sum": `l = SoftmaxCrossEntropyLoss(o, y)  loss = Sqrt(l)`,
		"adds losses that divide by different numbers": `c = SoftmaxCrossEntropyLoss<ignore_index = 0>(o, y)
			q = Mul(o, o)  b = ReduceMean<keepdims = 0>(q)  loss = Add(c, b)`,
		"divides by a number that depends on the data": `c = SoftmaxCrossEntropyLoss(o, y)  q = Exp(o)
			b = ReduceSum<keepdims = 0>(q)  loss = Div(c, b)`,
		"which is no number of the data": `c = SoftmaxCrossEntropyLoss<reduction = "sum">(o, y)  q = Exp(o)
			b = ReduceSum<keepdims = 0>(q)  loss = Div(c, b)`,
	} {
		for _, micros := range []int{1, 4} {
			k := newTask(t, netOf(loss))
			k.recipe.Micros = micros
			k.prepare(t)
			w := k.config.Steps.Weights
			require.Equal(t, autograd.Weighted, w.Weighing)
			require.Contains(t, w.Doubt, want)
			n, err := w.Unit.Eval(map[string]int64{"B": 7})
			require.NoError(t, err)
			require.Equal(t, int64(7*6), n, "the elements of x")
		}
	}
}
