package autograd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/graph/precision"
	"memopt/graph/roles"
)

// Options of Differentiate.
type Options struct {
	// Losses are differentiated as their weighted sum. An empty list means the loss of the graph,
	// as live finds it.
	Losses []Loss
	// Wrt lists the values whose gradients are wanted, in order: graph inputs or initializers. Nil
	// means the parameters. These are, in the order of the file, the float initializers and the
	// float graph inputs that a loss depends on through differentiable inputs and that are
	// parameters by their roles (roles.Find).
	Wrt []string
	// Params and NoGrad are globs (Match): Params lists values to take instead of the parameters,
	// NoGrad values to leave out. "*.bias" in NoGrad, for example, freezes all biases.
	Params, NoGrad []string
	// Data names inputs that are known to be data; with nil the roles of inputs decide.
	Data []string
	// AllInputs takes float inputs of any shape as parameters, not only those of static shape that
	// are not data.
	AllInputs bool
	// Outputs are globs (Match) of the outputs of the forward model that stay outputs; if it is empty, all
	// of them stay. TheLosses stands for the losses whatever their names are. The other outputs die after
	// their last reader in training, nodes without readers are dropped, and a product whose only reader is
	// a Slice computes only the part that it takes.
	Outputs []string
	// LossOutput makes the loss a graph output if it is not one, whatever Outputs says; the weighted
	// sum of several losses is the output TotalLoss.
	LossOutput bool
	// Statistics keeps the running statistics that the forward model updates: their new values become
	// outputs of the graph, and they states of the training step, whether the file has the outputs or
	// not. Two nodes with the same statistics update them one after the other.
	Statistics bool
	// LossScale names a new graph input, a float scalar, that multiplies the gradients of the
	// losses, and so all gradients, to keep small ones of float16 from vanishing. AppendOptimizer
	// divides by it. "" means that gradients are not scaled.
	LossScale string
	// Accumulate makes a micro-step: it adds each gradient to the input <param> + SumSuffix, and 1 to
	// CountInput, in place of making the gradient an output. UpdateStep makes the step that applies
	// the sums.
	Accumulate bool
	// Weigh makes a step whose gradients count in the update as much as its loss does among those of other batches
	// (Joint.Weights); without it all count the same.
	Weigh bool
	// Unfused differentiates node by node where several nodes together are one operator: norms, GELUs
	// and softmaxes as exporters write them. Otherwise these have the operator's gradient, which keeps
	// fewer activations and rounds differently.
	Unfused bool
	// Precision computes the forward half in mixed precision, and so its gradients (precision.Rewrite). The inputs,
	// initializers and outputs of the forward model keep their types, but weights with BF16Pure, whose optimizer is to
	// be Stochastic. AsIs and FP32 leave the graph as it is.
	Precision precision.Precision
}

// Loss is one value that is differentiated.
type Loss struct {
	// Name is that of the value. With a Head, "" means "loss", or that with a number.
	Name   string
	Weight float64 // 0 means 1
	// Seed says that the gradient of the loss comes from a new graph input, Name + SeedSuffix;
	// without it the loss must be a scalar.
	Seed bool
	// Head is the loss that is added to the graph under the name, an output; nil means that the
	// graph makes the loss already.
	Head *Head
}

// TheLosses is the glob of Options.Outputs that stands for the losses: Outputs with it alone drops every other
// output of the forward model, such as the logits beside the loss.
const TheLosses = "loss"

// SeedSuffix ends the names of graph inputs that hold the gradient of a loss, GradSuffix those of
// the gradients.
const (
	SeedSuffix = "_grad_seed"
	GradSuffix = "_grad"
)

// Joint is a training graph.
type Joint struct {
	Model *graph.Model
	Types *op.Result
	Wrt   []string // whose gradients are outputs, in order
	// Unreached lists those of Wrt that no loss depends on: their gradients are zeros.
	Unreached []string
	// Data lists the float inputs of static shape that are data by their roles.
	Data []string
	// DataInputs lists those of Data that were left out for that where the parameters were not named,
	// GuessedInputs the inputs that were taken although no shape tells data from parameters.
	DataInputs, GuessedInputs []string
	// Untrained lists values that the loss depends on, left out by their roles where the parameters were
	// not named.
	Untrained []Untrained
	// Exported are the changes of the program by its exporter.
	Exported []roles.Change
	// Loss names the loss; where it is an output of the graph, a run gives it. The weighted sum of
	// several losses has a name, and is an output, with Options.LossOutput. "" means that the graph
	// makes no scalar that is the loss.
	Loss string
	// LossGrad names the source of the loss's gradient if it comes from outside: a graph input
	// (Loss.Seed) or an output of a YieldOp. It must be given 1, or the scale of the loss: an
	// executor that is not given a value hands out the loss itself. "" means that it is 1 in the
	// graph.
	LossGrad string
	// OtherGrads names the gradients of outputs other than the loss that a YieldOp hands out. They
	// must be given zeros.
	OtherGrads []string
	// LossScale is the graph input that multiplies all gradients, or "". If they are scaled because
	// LossGrad is given the scale, it may be set to a name for the input that AppendOptimizer is to
	// read it from.
	LossScale string
	// Accumulates says that the graph adds to sums of gradients (Options.Accumulate).
	Accumulates bool
	// Updates says that the graph updates its parameters itself (FromStep).
	Updates bool
	// Weights says how the loss and the gradients count beside those of other batches (Options.Weigh).
	Weights Weights
	// Shards are the rows of parameters behind the states of the optimizer, if they are sharded
	// (Ranks.Zero).
	Shards []Shard
	// Fused counts the patterns with gradients of their own; it is empty with Options.Unfused.
	Fused []Fused
	// Raised says that the operator set had to be raised from From to To.
	Raised   bool
	From, To int64
	// Mixed says how the nodes of the forward half compute; nil without mixed precision.
	Mixed    *precision.Rewritten
	Backward graph.NodeID // the first backward node
	Changes  []string     // readable list of changes in the forward half
	seeded   bool         // gradients are multiplied by WeightOutput
	plain    bool         // gradients have their names themselves, and are not copied to outputs
}

// The errors that callers can test for.
var (
	// ErrNoLoss means that the graph has no loss to differentiate.
	ErrNoLoss = errors.New("no loss to differentiate: the graph makes no scalar float output; name the loss")
	// ErrBackward means that the graph is a training graph already.
	ErrBackward = errors.New("the graph already has a backward half")
)

// Differentiate returns a copy of a forward model with the gradients of its losses as further
// outputs. The model itself is not changed. The error is a *NoRule if an operator on the way has no
// rule.
func Differentiate(m *graph.Model, opts Options) (*Joint, error) {
	from := graph.OpsetVersion(m.Opsets, "")
	out, to, err := attempts(from, func(version int64) (*Joint, error) { return differentiate(m, opts, version) })
	if out != nil {
		out.Raised, out.From, out.To = to != from, from, to
	}
	return out, err
}

// differentiate makes one attempt, at a version of ONNX's operators.
func differentiate(m *graph.Model, opts Options, version int64) (out *Joint, err error) {
	defer func() {
		if thrown := caught(recover()); thrown != nil {
			out, err = nil, thrown
		}
	}()
	j := &joint{m: m.Clone(), constants: map[string]Value{}, out: &Joint{}, unfused: opts.Unfused}
	j.g = j.m.Graph
	j.out.Model = j.m
	if j.roles, err = roles.Find(j.m, opts.Data); err != nil {
		return nil, err
	}
	j.out.Exported = j.roles.Exported
	if version != graph.OpsetVersion(m.Opsets, "") {
		changes, err := Convert(j.m, version)
		if err != nil {
			return nil, err
		}
		j.out.Changes = append(j.out.Changes, changes...)
	}
	if err := j.mix(opts); err != nil {
		return nil, err
	}
	if j.types, err = op.NewExtender(j.m); err != nil {
		return nil, err
	}
	names := graph.NewNames(m)
	if j.taken = names; j.out.Mixed != nil || version != graph.OpsetVersion(m.Opsets, "") { // which give names, too
		j.taken = graph.NewNames(j.m)
	}
	if err := j.run(opts); err != nil {
		return nil, err
	}
	names.Done()
	return j.out, names.Verify(j.m)
}

// joint is a training graph in the making.
type joint struct {
	m         *graph.Model
	g         *graph.Graph
	types     *op.Extender
	roles     *roles.Roles // of the values of the forward model, before any edit
	added     []Value      // inputs for labels
	out       *Joint
	requires  []bool           // by value: a wanted gradient depends on its gradient
	reaches   []bool           // by value: a loss depends on it
	weighs    []bool           // by value: a loss depends on it through inputs that are no settings
	quantized []bool           // by value: it holds the quantized numbers of floats
	grads     []Value          // by value: its gradient so far
	parts     map[Value][]part // by value: gradients of parts that wait to be added
	sums      map[Value]Value  // by parameter: the input that its gradients are added to; nil without accumulation
	taken     *graph.Names     // in all graphs of the model
	readers   []int32          // by value: how many forward nodes read it; nil before they are counted
	fewer     bool             // outputs of the model were left out
	unfused   bool             // no patterns are looked for
	forward   int              // the number of nodes before the sweep; 0 means that no value is recomputed
	stashed   []bool           // by value: an emitted node reads it
	remakes   map[Value]Value  // of forward values that the backward half recomputes
	cleaned   map[Value]Value  // of values whose NaNs the forward half replaces: the values with 0 for these
	constants map[string]Value
	weight    Value // of the loss, where weighed
	weighed   bool
	base      string      // of the names of everything that is made in a subgraph; "" in the main graph
	prefix    string      // of the names of emitted nodes
	node      *graph.Node // whose rule is at work; nil outside of rules
	owner     *graph.Node // whose stages emitted nodes have outside of rules; nil for no stages
}

func (j *joint) run(opts Options) (err error) {
	if opts.Losses, err = j.addHeads(opts.Losses); err != nil {
		return err
	}
	order, err := graph.Topological(j.g)
	if err != nil {
		return err
	}
	losses, err := j.findLosses(opts)
	if err != nil {
		return err
	}
	if err := j.keepOutputs(opts.Outputs, losses); err != nil {
		return err
	}
	order = j.sinkSlices(order)
	if order, err = j.expand(order); err != nil {
		return err
	}
	nodes := len(j.g.Nodes)
	if err := j.nameLoss(losses, opts.LossOutput); err != nil {
		return err
	}
	order = j.behind(order, nodes)
	if opts.Statistics {
		if err := j.keepStatistics(order); err != nil {
			return err
		}
	}
	j.markReaches(order, losses)
	j.markTrained(order, losses)
	wrt, err := j.findWrt(opts)
	if err != nil {
		return err
	}
	j.out.Data = j.data(wrt)
	if opts.Weigh && j.out.Loss != "" {
		var params []string
		for _, v := range wrt {
			params = append(params, j.g.ValueName(v))
		}
		nodes := len(j.g.Nodes)
		if err := j.weigh(j.out.Loss, params, true); err != nil {
			return err
		}
		order = j.behind(order, nodes)
	}
	j.markRequires(order, wrt)
	forward := len(j.g.Nodes)
	j.forward, j.remakes = forward, map[Value]Value{}
	j.countReaders(order)
	if err := j.seed(losses, opts.LossScale); err != nil {
		return err
	}
	begin, finish := func([]Value) error { return nil }, j.finish
	if opts.Accumulate {
		begin, finish = j.beginSums, j.finishSums
	}
	if err := begin(wrt); err != nil {
		return err
	}
	if err := j.sweep(order); err != nil {
		return err
	}
	if err := finish(wrt); err != nil {
		return err
	}
	j.release()
	if err := j.arrange(order, forward, losses); err != nil {
		return err
	}
	return graph.Verify(j.m)
}

// release frees the data of the sweep: in large graphs that is as much as the graph itself, and
// types are still to be inferred once more.
func (j *joint) release() {
	j.taken.Done()
	j.types, j.requires, j.reaches, j.grads, j.stashed, j.remakes = nil, nil, nil, nil, nil, nil
	j.weighs, j.quantized, j.cleaned = nil, nil, nil
	j.readers, j.parts = nil, nil
}

// findLosses returns the values that are differentiated.
func (j *joint) findLosses(opts Options) ([]lossValue, error) {
	if len(opts.Losses) == 0 {
		v, err := j.defaultLoss()
		return []lossValue{{v, Loss{Name: j.g.ValueName(v)}}}, err
	}
	var out []lossValue
	for _, l := range opts.Losses {
		id, ok := j.g.Lookup(l.Name)
		if !ok {
			return nil, fmt.Errorf("loss %q: the graph has no such value; its outputs are %s", l.Name, j.outputNames())
		}
		t := j.g.Values[id].Type
		if !t.DType.IsFloat() {
			return nil, fmt.Errorf("loss %q: is %v, wanted a float", l.Name, t)
		}
		if j.g.Values[id].Def == graph.NoNode {
			return nil, fmt.Errorf("loss %q: is an input or a weight, wanted a value that a node makes", l.Name)
		}
		if n, ok := t.Shape.Elements().Const(); !l.Seed && !(ok && n == 1) {
			return nil,
				fmt.Errorf("loss %q: is %v, wanted a scalar; a loss of another shape needs a seed gradient", l.Name, t)
		}
		out = append(out, lossValue{id, l})
	}
	return out, nil
}

type lossValue struct {
	value Value
	Loss
}

// defaultLoss is the first output that a node makes with one float element; outputs that a loss
// operator leads to come first.
func (j *joint) defaultLoss() (Value, error) {
	if _, err := live.FindBoundary(j.m); err == nil {
		return None, ErrBackward
	}
	candidates := []Value{}
	for _, d := range j.g.Outputs {
		v := &j.g.Values[d.Value]
		if n, ok := v.Type.Shape.Elements().Const(); ok && n == 1 && v.Type.DType.IsFloat() && v.Def != graph.NoNode {
			candidates = append(candidates, d.Value)
		}
	}
	if len(candidates) == 0 {
		return None, fmt.Errorf("%w; its outputs are %s", ErrNoLoss, j.outputNames())
	}
	order, err := graph.Topological(j.g)
	if err != nil {
		return None, err
	}
	from := make([]bool, len(j.g.Nodes))
	for _, id := range order {
		from[id] = op.Of(j.g.Nodes[id].Kind).Has(op.Loss)
		j.g.EachProducer(id, func(p graph.NodeID) { from[id] = from[id] || from[p] })
	}
	for _, v := range candidates {
		if from[j.g.Values[v].Def] {
			return v, nil
		}
	}
	return candidates[0], nil
}

func (j *joint) outputNames() string {
	var names []string
	for _, d := range j.g.Outputs {
		names = append(names, fmt.Sprintf("%s %v", j.g.ValueName(d.Value), j.g.Values[d.Value].Type))
	}
	return strings.Join(names, ", ")
}

// findWrt returns the values whose gradients become outputs.
func (j *joint) findWrt(opts Options) ([]Value, error) {
	if opts.Wrt == nil {
		return j.choose(opts)
	}
	var out []Value
	for _, name := range opts.Wrt {
		id, ok := j.g.Lookup(name)
		if !ok || j.g.Values[id].Def != graph.NoNode {
			return nil, fmt.Errorf("gradient with respect to %q: the graph has no such input or initializer", name)
		}
		if t := j.g.Values[id].Type; !t.DType.IsFloat() {
			return nil, fmt.Errorf("gradient with respect to %q: is %v, wanted a float", name, t)
		}
		out = append(out, id)
	}
	return out, nil
}

// data lists the float inputs of static shape that are data and not differentiated.
func (j *joint) data(wrt []Value) (names []string) {
	for _, d := range j.g.Inputs {
		_, static := (&emitter{j}).constDims(d.Value)
		data := j.roles.Of(d.Value).Kind == roles.Data || slices.Contains(j.added, d.Value)
		if static && data && !slices.Contains(wrt, d.Value) {
			names = append(names, j.g.ValueName(d.Value))
		}
	}
	return names
}

// parameters lists, in the order of the file, every float initializer and every float input that a loss
// depends on by differentiable inputs. Values that differentiation has added have no role and are left out.
func (j *joint) parameters() []Value {
	var out []Value
	for i := range j.g.Values {
		v := &j.g.Values[i]
		if (v.Input || v.Data != nil) && j.roles.Of(Value(i)).Kind != roles.None && j.weighs[i] {
			out = append(out, Value(i))
		}
	}
	place := map[Value]int{}
	for i, id := range j.g.Initializers {
		place[id] = len(j.g.Inputs) + i
	}
	for i, d := range j.g.Inputs {
		place[d.Value] = i
	}
	slices.SortStableFunc(out, func(a, b Value) int { return place[a] - place[b] })
	return out
}
