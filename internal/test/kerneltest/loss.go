package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(lossCases) }

// lossTest describes a case of a loss or of its gradient.
type lossTest struct {
	kind      graph.Kind
	dtype     graph.DType
	out       graph.DType // Undefined: dtype
	label     graph.DType
	shape     []int // of the scores
	reduction string
	weighted  bool
	ignored   bool // every third label
	ignore    int64
	biased    bool // a gradient with a bias
}

// lossData is the input of both, in float64.
type lossData struct {
	scores, logProb, weight []float64
	labels                  []int // -1 means ignored
	places                  [][]int
}

func (l lossTest) data() *lossData {
	n, c, d := l.shape[0], l.shape[1], reduceLen(l.shape[2:])
	t := &lossData{scores: reduceValues(reduceLen(l.shape), 141), weight: make([]float64, c)}
	for i, v := range reduceValues(c, 142) {
		if t.weight[i] = 1; l.weighted {
			t.weight[i] = v + 2.5
		}
	}
	prob := make([]float64, len(t.scores))
	for i, v := range reduceValues(n*d, 143) {
		t.labels = append(t.labels, int(v*64+128)%max(c, 1))
		if l.ignored && (i%3 == 1 || t.labels[i] == int(l.ignore)) {
			t.labels[i] = -1
		}
		at := make([]int, c)
		for j := range at {
			at[j] = (i/d*c+j)*d + i%d
		}
		t.places = append(t.places, at)
		softmaxOf(prob, t.scores, at)
	}
	t.logProb = logOf(prob)
	return t
}

// weights returns the weight of each label and the divisor of the reduction.
func (t *lossData) weights(reduction string) (w []float64, by float64) {
	for _, l := range t.labels {
		v := 0.0
		if l >= 0 {
			v = t.weight[l]
		}
		w = append(w, v)
		by += v
	}
	if reduction != "mean" {
		by = 1
	}
	return w, by
}

// operands returns labels, weights (or nil) and the attributes that all forms share.
func (l lossTest) operands(t *lossData) (labels, weight *executor.Tensor, attrs []graph.Attr) {
	raw := make([]float64, len(t.labels))
	for i, v := range t.labels {
		if raw[i] = float64(v); v < 0 {
			raw[i] = float64(l.ignore)
		}
	}
	shape := append([]int{l.shape[0]}, l.shape[2:]...)
	labels = reduceTensor(l.label, shape, raw)
	if l.weighted {
		weight = reduceTensor(l.dtype, []int{l.shape[1]}, t.weight)
	}
	return labels, weight, []graph.Attr{Attr("reduction", l.reduction)}
}

// internal reports whether the ignored index is an input.
func (l lossTest) internal() bool {
	return l.kind == op.NegativeLogLikelihoodLossInternal || l.kind == op.SoftmaxCrossEntropyLossInternal ||
		l.kind == op.SoftmaxCrossEntropyLossInternalGrad
}

// plain reports whether the scores are log-probabilities already.
func (l lossTest) plain() bool {
	return l.kind == op.NegativeLogLikelihoodLoss || l.kind == op.NegativeLogLikelihoodLossInternal
}

func (l lossTest) ignoreTensor() *executor.Tensor {
	if !l.ignored {
		return nil
	}
	return executor.NewTensor(graph.Int64, []int{}, l.ignore)
}

func (l lossTest) build() Case {
	t := l.data()
	labels, weight, attrs := l.operands(t)
	d := l.dtype
	if l.out != graph.Undefined {
		d = l.out
		attrs = append(attrs, Attr("output_type", int64(d)))
	}
	in := t.scores
	if l.plain() {
		in = t.logProb
	}
	c := Case{
		Name: l.name(), Kind: l.kind, Attrs: attrs,
		In: []*executor.Tensor{reduceTensor(l.dtype, l.shape, in), labels, weight}, Tol: reduceTol(l.dtype),
	}
	if l.internal() {
		c.In = append(c.In, l.ignoreTensor())
	} else if l.ignored {
		c.Attrs = append(c.Attrs, Attr("ignore_index", l.ignore))
	}
	w, by := t.weights(l.reduction)
	each, sum := make([]float64, len(w)), 0.0
	for i, at := range t.places {
		if t.labels[i] >= 0 {
			each[i] = -w[i] * t.logProb[at[t.labels[i]]]
		}
		sum += each[i]
	}
	loss := reduceTensor(d, []int{}, []float64{sum / by})
	if l.reduction == "none" {
		loss = reduceTensor(d, labels.Shape, each)
	}
	c.Out, c.Want = []graph.DType{d}, []*executor.Tensor{loss}
	if !l.plain() {
		c.Out, c.Want = append(c.Out, d), append(c.Want, reduceTensor(d, l.shape, t.logProb))
	}
	return c
}

func (l lossTest) name() string {
	return fmt.Sprintf("%v %v %s, %v labels, weights %v, ignored %v %d, bias %v", l.dtype, l.shape, l.reduction,
		l.label, l.weighted, l.ignored, l.ignore, l.biased)
}

func (l lossTest) buildGrad() Case {
	t := l.data()
	labels, weight, attrs := l.operands(t)
	dy := []float64{0.5}
	dyShape := []int{}
	if l.reduction == "none" {
		dy, dyShape = reduceValues(len(t.labels), 151), labels.Shape
	}
	c := Case{Name: l.name(), Kind: l.kind, Attrs: attrs, Out: []graph.DType{l.dtype}, Tol: reduceTol(l.dtype),
		In: []*executor.Tensor{reduceTensor(l.dtype, dyShape, dy), reduceTensor(l.dtype, l.shape, t.logProb),
			labels, weight}}
	if l.internal() {
		c.In = append(c.In, l.ignoreTensor())
	} else if l.ignored {
		c.Attrs = append(c.Attrs, Attr("ignore_index", l.ignore))
	}
	dx := make([]float64, len(t.scores))
	if l.biased {
		dx = reduceValues(len(dx), 152)
		c.In = append(c.In, reduceTensor(l.dtype, l.shape, dx))
	}
	w, by := t.weights(l.reduction)
	for i, at := range t.places {
		if t.labels[i] < 0 {
			continue
		}
		for j, p := range at {
			hot := 0.0
			if j == t.labels[i] {
				hot = 1
			}
			dx[p] += dy[i%len(dy)] * w[i] / by * (math.Exp(t.logProb[p]) - hot)
		}
	}
	c.Want = []*executor.Tensor{reduceTensor(l.dtype, l.shape, dx)}
	return c
}

// make returns the case of the loss or of the gradient.
func (l lossTest) make() Case {
	if l.kind == op.SoftmaxCrossEntropyLossGrad || l.kind == op.SoftmaxCrossEntropyLossInternalGrad {
		return l.buildGrad()
	}
	return l.build()
}

func lossCases() []Case {
	var cases []Case
	for _, k := range []graph.Kind{op.NegativeLogLikelihoodLoss, op.SoftmaxCrossEntropyLoss,
		op.NegativeLogLikelihoodLossInternal, op.SoftmaxCrossEntropyLossInternal,
		op.SoftmaxCrossEntropyLossGrad, op.SoftmaxCrossEntropyLossInternalGrad} {
		grad := k == op.SoftmaxCrossEntropyLossGrad || k == op.SoftmaxCrossEntropyLossInternalGrad
		plain := lossTest{kind: k, dtype: graph.Float32, label: graph.Int64, reduction: "mean"}
		for _, shape := range [][]int{{3, 5}, {2, 5, 4}, {2, 3, 2, 3}, {40, 1500}, {2, 7, 50, 31}} {
			l := plain
			l.shape = shape
			for _, l.reduction = range []string{"none", "mean", "sum"} {
				cases = append(cases, l.make())
				full := l
				full.weighted, full.ignored, full.ignore, full.biased, full.label = true, true, -100, grad, graph.Int32
				cases = append(cases, full.make())
			}
		}
		for _, d := range []graph.DType{graph.Float64, graph.Float16, graph.BFloat16} {
			l := plain
			l.dtype, l.shape, l.weighted = d, []int{6, 5}, true
			cases = append(cases, l.make())
			l.shape, l.reduction = []int{2, 5, 4}, "none"
			cases = append(cases, l.make())
		}
		cases = append(cases, lossErrors(plain)...)
		cases = append(cases, lossIgnoredClass(plain))
	}
	wide := lossTest{kind: op.SoftmaxCrossEntropyLossInternal, dtype: graph.Float16, out: graph.Float32,
		label: graph.Int64, shape: []int{4, 6},
		reduction: "mean", weighted: true, ignored: true, ignore: -1}
	c := wide.make()
	c.Name = "half scores, float loss"
	alone := lossTest{kind: op.SoftmaxCrossEntropyLoss, dtype: graph.Float32, label: graph.Int64, shape: []int{4, 3000},
		reduction: "sum"}.make()
	alone.Name, alone.Out, alone.Want = "loss alone", alone.Out[:1], alone.Want[:1]
	places := lossTest{
		kind: op.SoftmaxCrossEntropyLoss, dtype: graph.Float32, label: graph.Int64, shape: []int{4, 3, 5},
		reduction: "none",
	}.make()
	places.Name, places.Out, places.Want = "losses of places alone", places.Out[:1], places.Want[:1]
	nan := lossTest{kind: op.SoftmaxCrossEntropyLoss, dtype: graph.Float32, label: graph.Int64, shape: []int{0, 3},
		reduction: "mean"}.make()
	nan.Name, nan.Want = "mean of nothing",
		[]*executor.Tensor{reduceTensor(graph.Float32, []int{}, []float64{math.NaN()}), nan.Want[1]}
	return append(cases, c, alone, places, nan)
}

// lossErrors are of operands that do not fit.
func lossErrors(l lossTest) []Case {
	l.shape = []int{3, 5}
	first := 0 // slot of the labels
	for first = range l.make().In {
		if d := l.make().In[first].DType; d == graph.Int64 {
			break
		}
	}
	fails := func(name, text string, labels *executor.Tensor) Case {
		c := l.make()
		c.Name, c.Want, c.Fails = name, nil, text
		c.In[first] = labels
		return c
	}
	kind := l.make()
	kind.Name, kind.Want, kind.Fails = "unknown reduction", nil, "attribute reduction is \"max\""
	kind.Attrs = []graph.Attr{Attr("reduction", "max")}
	return []Case{kind,
		fails("label too large", fmt.Sprintf("label 1 of input %d is 5, wanted 0 to 4", first),
			executor.NewTensor[int64](graph.Int64, []int{3}, 0, 5, 1)),
		fails("label negative", "label 2", executor.NewTensor[int64](graph.Int64, []int{3}, 0, 1, -1)),
		fails("labels do not fit", "the labels, is int64[2]", executor.NewTensor[int64](graph.Int64, []int{2}, 0, 1))}
}

// lossIgnoredClass ignores a class that exists.
func lossIgnoredClass(l lossTest) Case {
	l.shape, l.ignored, l.ignore, l.weighted = []int{7, 4, 3}, true, 2, true
	return l.make()
}
