package autograd

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
	"memopt/symbolic"
)

// The mean loss over several batches is the mean of theirs only if each is weighted by its divisor: the
// number of labels that are not ignored, the sum of the weights of their classes, or the elements of a mask.
// For example, batches of 3 and 1 labels weigh 3/4 and 1/4. Losses that are sums are added up.

// Weighing is how the losses of batches, and the gradients of them, make up those of all batches together.
type Weighing int

// The ways.
const (
	Alike    Weighing = iota // a mean with equal weights
	Weighted                 // a mean with the weights of the output WeightOutput
	Summed                   // a sum
)

// Names of values that weighing adds to a graph.
const (
	// WeightOutput is how much a batch counts: a float scalar, the number that its loss divides by over
	// UnitInput.
	WeightOutput = "loss_weight"
	// UnitInput is the number that makes a batch count once, such as the number of labels of a whole batch: a
	// float scalar, the same in all steps of a job. It keeps the gradients of a batch as large as they are
	// without weights.
	UnitInput = "loss_weight_unit"
	// CountedOutput is the loss, or 0 where the batch has no element that counts, and the loss is 0/0. A graph has it
	// where that can be, and where the gradients are zeros then.
	CountedOutput = "loss_counted"
)

// Weights says how the loss of a graph is weighed.
type Weights struct {
	Weighing Weighing
	// Unit is the number that the loss of a batch divides by where everything in it counts; where that is not
	// known, nil, which stands for the number of samples.
	Unit *symbolic.Expr
	// Doubt says why batches count by their samples although the loss may divide by something else;
	// "" means that there is no doubt.
	Doubt string
}

// Weigh adds to a graph the output WeightOutput of its loss, where batches do not count alike, and says how they
// do. params names inputs of the graph that are no data.
func Weigh(m *graph.Model, loss string, params []string) (w Weights, types *op.Result, err error) {
	defer func() {
		if thrown := caught(recover()); thrown != nil {
			err = thrown
		}
	}()
	j := &joint{m: m, g: m.Graph, taken: graph.NewNames(m), constants: map[string]Value{}, out: &Joint{Model: m}}
	if j.types, err = op.NewExtender(m); err != nil {
		return w, nil, err
	}
	if err := j.weigh(loss, params, false); err != nil {
		return w, nil, err
	}
	if err := graph.Verify(m); err != nil {
		return w, nil, err
	}
	types, err = op.InferAsIs(m)
	return j.out.Weights, types, err
}

// weigh emits the weight of the loss. ours says that the gradients of the loss are made by the rules here, which
// are zeros where no label counts.
func (j *joint) weigh(loss string, params []string, ours bool) error {
	v, ok := j.g.Lookup(loss)
	if !ok {
		return nil
	}
	order, err := graph.Topological(j.g)
	if err != nil {
		return err
	}
	w := &weigher{emitter: &emitter{j}, data: make([]bool, len(j.g.Values)), params: make([]bool, len(j.g.Values))}
	w.mark(order, params)
	d := w.divisor(v)
	out := &j.out.Weights
	*out = Weights{Weighing: d.weighing, Doubt: d.doubt}
	if d.weighing != Weighted {
		return nil
	}
	j.node, j.prefix = nil, "/loss_weight/"
	n := d.number(w)
	if d.elements != nil {
		out.Unit = d.elements
	}
	if !j.taken.TakeValue(UnitInput) {
		return fmt.Errorf("the graph has a value %q already, the name of an input of the training step", UnitInput)
	}
	unit := j.g.Value(UnitInput)
	if err := j.g.AddInput(graph.Decl{Value: unit, Type: graph.Tensor(graph.Float32, graph.Dims())}); err != nil {
		return err
	}
	j.weight, j.weighed = w.Div(n, unit), true
	if err := j.addOutput(WeightOutput, j.weight, "the weight of the loss"); err != nil {
		return err
	}
	if !d.empties || !ours {
		return nil
	}
	if dims, _ := w.Dims(v); len(dims) > 0 {
		v = w.Reshape(v, w.Vector())
	}
	none := w.Op("Equal", nil, n, w.Scalar(0, n))
	return j.addOutput(CountedOutput, w.Where(none, w.Scalar(0, v), v), "the loss of batches with labels")
}

// weigher finds the number that a loss divides by.
type weigher struct {
	*emitter
	data, params []bool // by value: it depends on data, on parameters
}

// mark notes the values that depend on data, and those that depend on parameters.
func (w *weigher) mark(order graph.Order, params []string) {
	for _, d := range w.j.g.Inputs {
		isParam := slices.Contains(params, w.j.g.ValueName(d.Value)) || w.j.g.Values[d.Value].Data != nil
		w.params[d.Value], w.data[d.Value] = isParam, !isParam
	}
	for _, v := range w.j.g.Initializers {
		w.params[v] = slices.Contains(params, w.j.g.ValueName(v))
	}
	for _, id := range order {
		n := w.j.g.Nodes[id]
		data, param := false, false
		for _, list := range [][]Value{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v != None {
					data, param = data || w.data[v], param || w.params[v]
				}
			}
		}
		param = param && !op.Of(n.Kind).Has(op.ShapeOf)
		for _, v := range n.Outputs {
			if v != None {
				w.data[v], w.params[v] = data, param
			}
		}
	}
}

// divisor is the divisor of a value.
type divisor struct {
	weighing Weighing
	number   func(*weigher) Value // of Weighted: emits the number, a float32 scalar
	of       Value                // operand of number, None for a count of elements
	elements *symbolic.Expr       // how many there are where all count; nil: not known
	empties  bool                 // the number can be 0, and the loss is 0/0 then
	doubt    string
}

// maxDepth bounds the nodes between a loss and its divisor.
const maxDepth = 64

// divisor finds the divisor of a loss; where it is unknown, batches count by the samples that they have.
func (w *weigher) divisor(loss Value) divisor {
	d, why := w.find(loss, maxDepth)
	if why == "" {
		return d
	}
	d = w.samples()
	d.doubt = why
	return d
}

// constant is the divisor of a value that is equal for all batches.
var constant = divisor{weighing: -1}

// find looks from a value towards the data; why is the reason where it finds no divisor.
func (w *weigher) find(v Value, depth int) (d divisor, why string) {
	if !w.data[v] {
		return constant, ""
	}
	def := w.j.g.Values[v].Def
	if def == graph.NoNode || depth == 0 {
		return d, "the loss is an input, or far from one"
	}
	n := w.j.g.Nodes[def]
	if find := divisorTable[n.Kind].find; find != nil {
		return find(w, n, depth-1)
	}
	return w.unknown(n)
}

// unknown is the answer for a node whose effect on losses is unknown.
func (w *weigher) unknown(n *graph.Node) (divisor, string) {
	return divisor{}, fmt.Sprintf("node %s (%s) makes neither a mean nor a sum of the losses",
		w.j.g.NodeLabel(n.ID), n.Op)
}

// same is the divisor of a node that does not divide.
func (w *weigher) same(n *graph.Node, depth int) (divisor, string) { return w.find(n.Input(0), depth) }

// mean and sum are the divisors of reductions.
func (w *weigher) mean(n *graph.Node, depth int) (divisor, string) {
	return w.reduced(n, depth, w.elementsOf(n.Input(0)))
}

func (w *weigher) sum(n *graph.Node, depth int) (divisor, string) {
	return w.reduced(n, depth, divisor{weighing: Summed})
}

// scaled is the divisor of a loss times a factor that is equal for all batches.
func (w *weigher) scaled(n *graph.Node, depth int) (divisor, string) {
	for i := range 2 {
		if !w.data[n.Input(1-i)] {
			return w.find(n.Input(i), depth)
		}
	}
	return w.unknown(n)
}

// reduced is the divisor of a reduction: of itself, where it goes over dims that depend on the size of the batch, else
// of its operand.
func (w *weigher) reduced(n *graph.Node, depth int, own divisor) (divisor, string) {
	dims, ok := w.Dims(n.Input(0))
	if !ok {
		return own, ""
	}
	kept, _ := w.Dims(n.Output(0))
	sized := func(dims []symbolic.Expr) (n int) {
		for _, d := range dims {
			if _, is := d.Const(); !is {
				n++
			}
		}
		return n
	}
	if sized(dims) > sized(kept) {
		return own, ""
	}
	if below, why := w.find(n.Input(0), depth); why == "" {
		return below, ""
	}
	return own, "" // the sizes of a batch are numbers
}

// elementsOf is the divisor of a mean over elements.
func (w *weigher) elementsOf(v Value) divisor {
	n := w.Type(v).Shape.Elements()
	if _, is := n.Const(); is {
		return divisor{weighing: Alike}
	}
	return divisor{weighing: Weighted, of: None, elements: &n, number: func(w *weigher) Value {
		return w.Cast(w.Op("Size", nil, v), graph.Float32)
	}}
}

// samples is the divisor of a mean over samples: of the first input that has a symbol among its dims.
func (w *weigher) samples() divisor {
	for _, d := range w.j.g.Inputs {
		if w.data[d.Value] && w.Type(d.Value).Shape.Rank() > 0 {
			if own := w.elementsOf(d.Value); own.weighing == Weighted {
				return own
			}
		}
	}
	return divisor{weighing: Alike}
}

// labels is the divisor of a loss of labels.
func (w *weigher) labels(n *graph.Node, _ int) (divisor, string) {
	labels, ignore := n.Input(1), n.Attr("ignore_index")
	reduction := n.Str("reduction", "mean")
	switch {
	case reduction == "sum":
		return divisor{weighing: Summed}, ""
	case reduction == "none":
		return divisor{}, fmt.Sprintf("node %s gives a loss of each label", w.j.g.NodeLabel(n.ID))
	case ignore == nil && n.Input(2) == None:
		return w.elementsOf(labels), ""
	}
	elements := w.Type(labels).Shape.Elements()
	d := divisor{weighing: Weighted, of: labels, elements: &elements, empties: ignore != nil}
	d.number = func(w *weigher) Value {
		at, skipped := labels, None
		if ignore != nil {
			skipped = w.Op("Equal", nil, labels, w.Scalar(float64(n.Int("ignore_index", -1)), labels))
			at = w.Where(skipped, w.Scalar(0, labels), labels)
		}
		var each Value
		if n.Input(2) != None {
			each = w.Cast(w.Op("Gather", nil, n.Input(2), at), graph.Float32)
			if skipped != None {
				each = w.Where(skipped, w.Scalar(0, each), each)
			}
		} else {
			each = w.Cast(w.Op("Not", nil, skipped), graph.Float32)
		}
		return w.Reduce("ReduceSum", each, false, axesFrom(0, int64(w.Type(labels).Shape.Rank()))...)
	}
	return d, ""
}

// terms is the divisor of a sum of losses: all must have the same one, but for those that do not depend on data.
func (w *weigher) terms(n *graph.Node, depth int) (divisor, string) {
	all := constant
	for _, v := range n.Inputs {
		d, why := w.find(v, depth)
		switch {
		case why != "":
			return d, why
		case d.weighing == constant.weighing:
		case all.weighing == constant.weighing:
			all = d
		case d.weighing != all.weighing, d.of != all.of, (d.number == nil) != (all.number == nil):
			return d, fmt.Sprintf("node %s adds losses that divide by different numbers", w.j.g.NodeLabel(n.ID))
		}
	}
	return all, ""
}

// quotient is the divisor of a loss that is divided: a sum by its count, say.
func (w *weigher) quotient(n *graph.Node, depth int) (divisor, string) {
	by := n.Input(1)
	d, why := w.find(n.Input(0), depth)
	if !w.data[by] {
		if d.weighing == Summed && why == "" && w.overall(n, by) {
			return divisor{weighing: Alike}, ""
		}
		return d, why
	}
	if why != "" || d.weighing != Summed {
		return d, fmt.Sprintf("node %s divides by a number that depends on the data", w.j.g.NodeLabel(n.ID))
	}
	by = w.bare(by)
	if count, _ := w.Type(by).Shape.Elements().Const(); count != 1 || w.params[by] {
		return d, fmt.Sprintf("node %s divides by %q, which is no number of the data", w.j.g.NodeLabel(n.ID),
			w.j.g.ValueName(by))
	}
	q := divisor{weighing: Weighted, of: by, number: func(w *weigher) Value {
		x := w.Cast(by, graph.Float32)
		if dims, _ := w.Dims(x); len(dims) > 0 {
			x = w.Reshape(x, w.Vector())
		}
		return x
	}}
	if def := w.j.g.Values[w.through(by)].Def; def != graph.NoNode {
		if made := w.j.g.Nodes[def]; divisorTable[made.Kind].counts {
			elements := w.Type(made.Input(0)).Shape.Elements()
			q.elements = &elements
		}
	}
	return q, ""
}

// overall reports whether a sum is divided by the number of its terms, in a graph for one size of batches.
func (w *weigher) overall(n *graph.Node, by Value) bool {
	count, ok := pattern.Number(w.j.g, by)
	if !ok {
		return false
	}
	for v := w.through(n.Input(0)); ; {
		def := w.j.g.Values[v].Def
		if def == graph.NoNode || !divisorTable[w.j.g.Nodes[def].Kind].counts {
			return false
		}
		v = w.through(w.j.g.Nodes[def].Input(0))
		dims, _ := w.Dims(v)
		if all, is := w.Type(v).Shape.Elements().Const(); is && float64(all) == count && len(dims) > 0 {
			return true
		}
		if len(dims) > 0 {
			if first, is := dims[0].Const(); is && float64(first) == count {
				return true
			}
		}
	}
}

// through looks through operators that leave numbers as they are.
func (w *weigher) through(v Value) Value {
	for {
		def := w.j.g.Values[v].Def
		if def == graph.NoNode || !divisorTable[w.j.g.Nodes[def].Kind].passes {
			return v
		}
		v = w.j.g.Nodes[def].Input(0)
	}
}

// bare looks through operators that keep a divisor away from 0.
func (w *weigher) bare(v Value) Value {
	for {
		v = w.through(v)
		def := w.j.g.Values[v].Def
		if def == graph.NoNode || !divisorTable[w.j.g.Nodes[def].Kind].bounds {
			return v
		}
		of := None
		for _, in := range w.j.g.Nodes[def].Inputs {
			if in != None && w.data[in] {
				if of != None {
					return v
				}
				of = in
			}
		}
		v = of
	}
}
