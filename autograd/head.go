package autograd

import (
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// HeadKind is a loss that a Head computes.
type HeadKind string

// The kinds of losses that can be added to a model. They are PyTorch's functions of these names
// (torch.nn.functional), computed in float32, or in float64 where the scores are.
const (
	// CrossEntropy is cross_entropy of scores and the indices of classes, int64.
	CrossEntropy HeadKind = "cross-entropy"
	// MSE is mse_loss of outputs and targets of the same shape.
	MSE HeadKind = "mse"
	// BCE is binary_cross_entropy_with_logits of scores and probabilities of the same shape.
	BCE HeadKind = "bce"
)

// IgnoredClass is the label that CrossEntropy leaves out by default, as in PyTorch.
const IgnoredClass = -100

// Head is a loss that is added to a model whose file has no loss.
type Head struct {
	Kind HeadKind
	// Scores names the float value of the model that is judged: logits, or predictions that should be near the
	// labels.
	Scores string
	// Labels names the input that holds the targets. It is added to the graph, of the shape that the
	// scores ask for; an input that the graph has must have that rank and be of integers for
	// CrossEntropy, of floats for the others.
	Labels string
	// Axis is the axis of the scores that holds the classes of CrossEntropy; negative ones count from
	// the end. nil means the last one of scores of two or three dims ([samples, classes], [batch,
	// sequence, classes]), and axis 1 of more ([batch, classes, height, width]).
	Axis *int
	// Shift judges scores by the labels of the step that follows: scores of steps 0 to T-2 by labels 1
	// to T-1, as causal language models do. Steps lie along the last axis of the labels of
	// CrossEntropy, whose classes then lie along the last axis of the scores, and along axis 1 of the
	// others' (axis 0 where there is one).
	Shift bool
	// Ignore is the label that does not count; NaN stands for all NaNs. Nil means IgnoredClass for
	// CrossEntropy, and no label for the others.
	Ignore *float64
	// Sum adds up the losses of all labels that count; false takes their mean.
	Sum bool
}

// headName begins the names of losses that are added.
const headName = "loss"

// addHeads adds the losses that the graph does not have, each an output, and returns all by their names.
func (j *joint) addHeads(losses []Loss) ([]Loss, error) {
	out := slices.Clone(losses)
	for i := range out {
		if out[i].Head == nil {
			continue
		}
		if out[i].Seed {
			return nil, fmt.Errorf("a %s of %q that is added has no gradient from outside", out[i].Head.Kind,
				out[i].Head.Scores)
		}
		h := &headMaker{emitter: emitter{j}, Head: *out[i].Head}
		j.node, j.prefix = nil, "/"+string(h.Kind)+"/"
		loss, err := h.make()
		if err != nil {
			return nil, fmt.Errorf("%s of %q and %q: %w", h.Kind, h.Scores, h.Labels, err)
		}
		if out[i].Name == "" {
			out[i].Name = j.freeOutput(headName)
		}
		if err := j.addOutput(out[i].Name, loss, "the loss"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// freeOutput is a name, or the first of those with a number behind it, that no value has.
func (j *joint) freeOutput(name string) string {
	for i := 2; ; i++ {
		if _, taken := j.g.Lookup(name); !taken {
			return name
		}
		name = fmt.Sprintf("%s_%d", headName, i)
	}
}

// headMaker adds one loss.
type headMaker struct {
	emitter
	Head
}

// make adds the nodes and the input, and returns the loss.
func (h *headMaker) make() (Value, error) {
	x, err := h.scores()
	if err != nil {
		return None, err
	}
	dims, _ := h.Dims(x)
	switch h.Kind {
	case CrossEntropy:
		return h.crossEntropy(x, dims)
	case MSE, BCE:
		return h.elementwise(x, dims)
	}
	return None, fmt.Errorf("no such kind of loss; there are %s, %s and %s", CrossEntropy, MSE, BCE)
}

// scores is the value that is judged, in the type of the loss's computation.
func (h *headMaker) scores() (Value, error) {
	x, ok := h.j.g.Lookup(h.Scores)
	if !ok {
		return None, fmt.Errorf("the graph has no value %q; its outputs are %s", h.Scores, h.j.outputNames())
	}
	t := h.Type(x)
	switch {
	case !t.DType.IsFloat():
		return None, fmt.Errorf("%q is %v, wanted floats", h.Scores, t)
	case !t.Shape.Ranked:
		return None, fmt.Errorf("the rank of %q is unknown", h.Scores)
	case t.DType != graph.Float64:
		return h.Cast(x, graph.Float32), nil
	}
	return x, nil
}

// labels is the input that holds the labels: one of the graph, or a new one.
func (h *headMaker) labels(d graph.DType, dims []symbolic.Expr) (Value, error) {
	g := h.j.g
	v, ok := g.Lookup(h.Labels)
	if !ok {
		v = g.Value(h.Labels)
		h.j.taken.TakeValue(h.Labels)
		t := graph.Tensor(d, graph.Dims(dims...))
		h.j.added = append(h.j.added, v)
		return v, g.AddInput(graph.Decl{Value: v, Type: t})
	}
	t := h.Type(v)
	same := t.DType == d || d == graph.Int64 && t.DType == graph.Int32 || d != graph.Int64 && t.DType.IsFloat()
	if !g.Values[v].Input || !same || t.Shape.Rank() != len(dims) {
		return None, fmt.Errorf("the graph has a value %q, %v: wanted a new name, or an input that is %v", h.Labels, t,
			graph.Tensor(d, graph.Dims(dims...)))
	}
	if d == graph.Int64 {
		return v, nil
	}
	return h.Cast(v, d), nil
}

// reduction is the attribute of loss operators.
func (h *headMaker) reduction() string {
	if h.Sum {
		return "sum"
	}
	return "mean"
}

// crossEntropy adds the loss of classes.
func (h *headMaker) crossEntropy(x Value, dims []symbolic.Expr) (Value, error) {
	rank := len(dims)
	if rank < 2 {
		return None, fmt.Errorf("the scores have %d dims, wanted 2 or more: one is that of the classes", rank)
	}
	axis, ignore := 1, int64(IgnoredClass)
	if rank == 3 {
		axis = 2
	}
	if h.Axis != nil {
		if axis = *h.Axis; axis < 0 {
			axis += rank
		}
		if axis < 0 || axis >= rank {
			return None, fmt.Errorf("the axis of the classes is %d, and the scores have %d dims", *h.Axis, rank)
		}
	}
	if h.Ignore != nil {
		if ignore = int64(*h.Ignore); float64(ignore) != *h.Ignore {
			return None, fmt.Errorf("the label %v that is to be ignored is no whole number", *h.Ignore)
		}
	}
	labels, err := h.labels(graph.Int64, slices.Delete(slices.Clone(dims), axis, axis+1))
	if err != nil {
		return None, err
	}
	if h.Shift {
		if axis != rank-1 {
			return None, fmt.Errorf("labels of following steps need scores whose last axis is that of the classes, "+
				"and it is axis %d of %d dims", axis, rank)
		}
		labels = h.following(labels, rank-2, ignore)
	}
	if axis != 1 {
		x, labels = h.matrix(x, axis, rank), h.Reshape(labels, h.Vector(-1))
	}
	return h.Op("SoftmaxCrossEntropyLoss", Attrs{A("ignore_index", ignore), A("reduction", h.reduction())}, x,
		labels), nil
}

// matrix makes a matrix of scores whose classes lie along an axis: they become the columns.
func (h *headMaker) matrix(x Value, axis, rank int) Value {
	if axis != rank-1 {
		perm := axesFrom(0, int64(rank))
		x = h.Transpose(x, append(slices.Delete(perm, axis, axis+1), int64(axis))...)
	}
	if rank == 2 {
		return x
	}
	return h.Op("Flatten", Attrs{A("axis", int64(rank-1))}, x)
}

// following are the labels of the steps that follow along an axis, and behind the last step one that
// does not count: so the scores stay whole, and no copy of them is made.
func (h *headMaker) following(labels Value, axis int, ignore int64) Value {
	rest := h.sliceAxis(labels, int64(axis), 1, math.MaxInt64)
	pads := make([]int64, 2*(axis+1))
	pads[len(pads)-1] = 1
	return h.Op("Pad", nil, rest, h.Vector(pads...), h.Scalar(float64(ignore), labels))
}

// elementwise adds a loss whose labels have the shape of the scores.
func (h *headMaker) elementwise(x Value, dims []symbolic.Expr) (Value, error) {
	if h.Axis != nil {
		return None, fmt.Errorf("it has no axis of classes, and %d was given", *h.Axis)
	}
	y, err := h.labels(h.DType(x), dims)
	if err != nil {
		return None, err
	}
	if h.Shift {
		if len(dims) == 0 {
			return None, fmt.Errorf("%q is a scalar, which has no steps that follow", h.Scores)
		}
		axis := int64(min(1, len(dims)-1))
		x, y = h.sliceAxis(x, axis, 0, -1), h.sliceAxis(y, axis, 1, math.MaxInt64)
	}
	skipped := h.skipped(y)
	var each Value
	if h.Kind == MSE {
		d := h.keep(skipped, h.Sub(x, y))
		each = h.Mul(d, d)
	} else {
		each = h.keep(skipped, h.binary(x, h.keep(skipped, y)))
	}
	return h.reduced(each, skipped), nil
}

// binary is y·softplus(-x) + (1-y)·softplus(x): neither term takes a difference of large numbers, and
// its gradient is that of the loss at 0, too.
func (h *headMaker) binary(x, y Value) Value {
	right := h.Mul(y, h.Op("Softplus", nil, h.Neg(x)))
	return h.Add(right, h.Mul(h.Sub(h.Scalar(1, y), y), h.Op("Softplus", nil, x)))
}

// skipped is true where a label does not count; None means that all do.
func (h *headMaker) skipped(y Value) Value {
	switch {
	case h.Ignore == nil:
		return None
	case math.IsNaN(*h.Ignore):
		return h.Op("IsNaN", nil, y)
	}
	return h.Op("Equal", nil, y, h.Scalar(*h.Ignore, y))
}

// keep is zero where a label does not count, else v.
func (h *headMaker) keep(skipped, v Value) Value {
	if skipped == None {
		return v
	}
	return h.Where(skipped, h.Scalar(0, v), v)
}

// reduced is the sum or the mean of the losses of the labels that count.
func (h *headMaker) reduced(each, skipped Value) Value {
	all := Attrs{A("keepdims", int64(0))}
	switch {
	case h.Sum:
		return h.Op("ReduceSum", all, each)
	case skipped == None:
		return h.Op("ReduceMean", all, each)
	}
	count := h.Op("ReduceSum", all, h.Cast(h.Op("Not", nil, skipped), h.DType(each)))
	return h.Div(h.Op("ReduceSum", all, each), count)
}
