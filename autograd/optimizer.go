package autograd

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// Optimizer says how parameters are updated. The rules are those of PyTorch's torch.optim; lion is Algorithm 2 of Chen
// et al., "Symbolic Discovery of Optimization Algorithms" (arXiv:2302.06675), as its authors' implementation has it.
// muon updates the matrices of hidden layers (hiddenMatrices), and adamw all other parameters. adafactor has the
// defaults of torch.optim.Adafactor for all but the learning rate and the weight decay.
type Optimizer struct {
	Kind string // one of OptimizerKinds
	// LR is the learning rate; 0 means that the graph input lr, a float scalar, gives it.
	LR float64

	// WeightDecay is added to the gradient, times the parameter; adamw, lion, muon and adafactor shrink the
	// parameter itself instead.
	WeightDecay float64
	// NoDecay exempts parameters; nil means that no parameter is exempt. A group's own decay comes
	// first.
	NoDecay func(param string) bool
	// Groups give parameters rates and decays of their own; each parameter belongs to the first that
	// matches it.
	Groups []Group

	Momentum float64 // sgd and muon; 0 means 0.95 of muon, which always has Nesterov's
	Nesterov bool    // sgd
	// AdjustLR is how muon scales the learning rate by a matrix's shape: one of AdjustLRs; "" means the first.
	AdjustLR string

	Beta1, Beta2 float64 // adam, adamw (that of muon, too) and lion; 0 means 0.9 and 0.999, of lion 0.99
	Eps          float64 // adam and adamw (that of muon, too); 0 means 1e-8

	// MaxNorm bounds the norm of all gradients together, as clip_grad_norm_ does; 0 means no bound.
	MaxNorm float64
	// Guard leaves everything as it is where the loss (Joint.Loss, if the graph makes one) or the sum
	// of the squares of all gradients is not finite, as with a loss scale; outputs FiniteOutput and
	// NormOutput say so.
	Guard bool
	// Stochastic rounds parameters of bfloat16 up or down by chance, so that small updates count in the mean, and
	// stores their moments, where these are no codes, in bfloat16 likewise. Draws are a function of Seed, the number
	// of the update and the place (op.StochasticRound).
	Stochastic bool
	Seed       int64
	// KeepGrads keeps the gradients as graph outputs; otherwise each dies once its parameter is
	// updated.
	KeepGrads bool
	// Ranks says of how many ranks' steps this is one.
	Ranks Ranks
}

// shrinks reports whether weight decay shrinks the parameter, and leaves the gradient alone.
func (o *Optimizer) shrinks() bool { return o.rule() != "adam" && o.rule() != "sgd" }

// unbiased reports whether updates remove the bias of means by the number of updates before them.
func (o *Optimizer) unbiased() bool {
	return o.rule() == "adam" || o.rule() == "adamw" || o.rule() == "muon"
}

// countsUpdates reports whether an update depends on the number of updates before it.
func (o *Optimizer) countsUpdates() bool {
	return o.unbiased() || o.rule() == "adafactor" || o.Stochastic
}

// Names of the values that an optimizer adds to the graph. The updated form of input x is output x
// + NewSuffix: w_new of w, for example.
const (
	NewSuffix      = "_new"
	LRInput        = "lr"           // input: float scalar
	StepInput      = "step"         // input and output: int64 scalar, the number of updates (Optimizer.countsUpdates)
	MomentumSuffix = "_momentum"    // state of sgd and muon
	AvgSuffix      = "_exp_avg"     // state of adam, adamw and lion; with few bits its codes
	SqAvgSuffix    = "_exp_avg_sq"  // state of adam and adamw; with few bits its codes
	RowSuffix      = "_row_var"     // state of adafactor: means of squares along the last dim, of two dims or more
	ColumnSuffix   = "_col_var"     // state of adafactor: the same along the dim before
	VarianceSuffix = "_variance"    // state of adafactor of a vector or a number
	ScaleSuffix    = "_scale"       // behind these: the scales of a state of few bits, a float for each block
	NormOutput     = "grad_norm"    // output with MaxNorm or Guard: the norm of all gradients, before it is bounded
	FiniteOutput   = "grads_finite" // output, bool: with a loss scale or Guard, whether the update took place
)

// AppendOptimizer makes a training graph update its parameters, those of j.Wrt. States, which begin
// as zeros, come in as graph inputs named after the parameter; the updated parameters and states
// are outputs. A parameter that is an initializer becomes a graph input as well, with the
// initializer as its default.
//
// Parameters of float16 and bfloat16 are updated in float32, and their states are float32, but for optimizers of few
// bits and with Stochastic. With a loss scale the gradients are divided by it, and if one of them is not finite, the
// update is skipped; the scale becomes a graph input if the graph does not have one of that name.
func AppendOptimizer(j *Joint, o Optimizer) (err error) {
	if j.Accumulates {
		return errors.New("optimizer: the training graph adds to sums of gradients; UpdateStep makes the step that " +
			"applies them")
	}
	if err := o.complete(); err != nil {
		return err
	}
	defer func() {
		thrown := caught(recover())
		var r *raised
		switch {
		case errors.As(thrown, &r):
			err = fmt.Errorf("optimizer %s: needs operator set %d, the model imports %d: raise it first",
				o.Kind, r.version, j.Model.OpsetVersion(""))
		case thrown != nil:
			err = thrown
		}
	}()
	u := &updater{Optimizer: o,
		emitter: emitter{&joint{m: j.Model, g: j.Model.Graph, taken: graph.NewNames(j.Model),
			constants: map[string]Value{},
			out:       j, base: "/optimizer/", prefix: "/optimizer/"}},
		finite: None, bound: None, copies: map[Value]bool{}}
	u.tellHidden(j)
	u.importOwn(j.Model)
	if u.j.types, err = op.NewExtender(j.Model); err != nil {
		return err
	}
	if u.before, err = live.Pairs(j.Model); err != nil {
		return err
	}
	names := graph.NewNames(j.Model)
	u.spareStatistics()
	first := len(u.j.g.Nodes)
	u.run()
	if err := u.arrange(first); err != nil {
		return err
	}
	live.RecordStates(j.Model, append(u.before, u.states...))
	if err := op.Define(j.Model); err != nil {
		return err
	}
	return names.Verify(j.Model)
}

// complete checks an optimizer and fills in defaults.
func (o *Optimizer) complete() error {
	if err := o.inRange(); err != nil {
		return err
	}
	if err := o.checkGroups(); err != nil {
		return err
	}
	if err := o.checkRanks(); err != nil {
		return err
	}
	switch {
	case !slices.Contains(OptimizerKinds, o.Kind):
		return fmt.Errorf("optimizer %q: wanted %s", o.Kind, Kinds())
	case o.Nesterov && o.Momentum == 0:
		return fmt.Errorf("optimizer %s: Nesterov's momentum needs a momentum", o.Kind)
	case o.Kind != "sgd" && o.Kind != "muon" && o.Momentum != 0:
		return fmt.Errorf("optimizer %s: has no momentum", o.Kind)
	case o.Kind == "muon" && o.Momentum >= 1:
		return fmt.Errorf("optimizer %s: its momentum is %v: wanted less than 1", o.Kind, o.Momentum)
	case o.AdjustLR != "" && (o.Kind != "muon" || !slices.Contains(AdjustLRs, o.AdjustLR)):
		return fmt.Errorf("optimizer %s: adjusts the learning rate by %q: wanted one of %q, for muon", o.Kind,
			o.AdjustLR, AdjustLRs)
	case !o.Uniform() && o.Ranks.several() && o.Ranks.Zero > 0:
		return fmt.Errorf("optimizer %s: its states belong to blocks or rows of a parameter, and ZeRO stage %d would "+
			"divide them: wanted stage 0, or an optimizer with states by element", o.Kind, o.Ranks.Zero)
	case o.Stochastic && o.Ranks.several() && o.Ranks.Zero > 0:
		return fmt.Errorf("optimizer %s: stochastic rounding draws by the place in a parameter, and ZeRO stage %d "+
			"would divide them: wanted stage 0, or another precision", o.Kind, o.Ranks.Zero)
	}
	def := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	if o.Kind == "muon" {
		def(&o.Momentum, 0.95)
	}
	def(&o.Beta1, 0.9)
	if o.Kind == "lion" {
		def(&o.Beta2, 0.99)
	}
	def(&o.Beta2, 0.999)
	def(&o.Eps, 1e-8)
	return nil
}

// inRange rejects numbers that no optimizer can have.
func (o *Optimizer) inRange() error {
	for _, p := range []struct {
		name  string
		value float64
		below float64 // its exclusive upper bound
	}{
		{"learning rate", o.LR, math.Inf(1)}, {"weight decay", o.WeightDecay, math.Inf(1)},
		{"momentum", o.Momentum, math.Inf(1)},
		{"bound of the norm", o.MaxNorm, math.Inf(1)}, {"beta1", o.Beta1, 1}, {"beta2", o.Beta2, 1},
		{"eps", o.Eps, math.Inf(1)},
	} {
		if !(p.value >= 0 && p.value < p.below) {
			return fmt.Errorf("optimizer %s: its %s is %v; it must be at least 0 and less than %v",
				o.Kind, p.name, p.value, p.below)
		}
	}
	return nil
}

// updater emits an update.
type updater struct {
	Optimizer
	emitter
	params, grads []Value        // the gradients in the type of the update's computation
	multiplied    []Value        // the gradients before they are divided by the loss scale; nil without one
	perScale      Value          // one over the loss scale, where there is one
	copies        map[Value]bool // of gradients that are no longer graph outputs: they are not read
	finite        Value          // bool, or None for updates without a guard
	bound         Value          // the bound of the norm of the gradients that are multiplied by it, or None

	before []live.StatePair // the states that the graph had before its update
	states []live.StatePair // the states of the next step
	begin  []int            // by parameter: the first node of its update

	step Value // if the update counts them: after this update, int64
	// For adam, double: the root of the factor that removes the second mean's bias.
	correction Value
	share      Value // for adafactor, double: of the new squares in a mean

	hidden map[string]bool // for muon: the matrices of hidden layers
	low    graph.DType     // of muon's products; graph.Undefined means that of the update

	members []member // by parameter
	paces   []pace   // the learning rates that there are
	scalars []scalar // shared by the updates

	rankWork
}

func (u *updater) run() {
	if u.Ranks.several() {
		u.runOverRanks()
		return
	}
	u.findGrads()
	u.join()
	u.unscale()
	u.clip()
	u.rates()
	u.shareScalars()
	u.guardStates()
	for i, p := range u.params {
		u.begin = append(u.begin, len(u.j.g.Nodes))
		u.j.prefix = u.j.base + u.j.g.ValueName(p) + "/"
		grad := u.grads[i]
		if def := u.j.g.Values[grad].Def; def != graph.NoNode {
			u.j.owner = u.j.g.Nodes[def]
		}
		if u.bound != None || u.finite != None {
			grad = u.late(i)
		}
		if u.packs(p) {
			u.updatePacked(i, p, grad, u.bound)
			continue
		}
		if u.bound != None {
			grad = u.Mul(grad, u.Cast(u.bound, u.DType(grad)))
		}
		u.update(i, p, grad)
	}
	u.j.owner = nil
}

// findGrads lists the gradients, which stop being graph outputs unless they are to be kept.
func (u *updater) findGrads() {
	g := u.j.g
	for _, name := range u.j.out.Wrt {
		p, _ := g.Lookup(name)
		out, _ := g.Lookup(name + GradSuffix)
		grad := out
		if !u.j.out.plain {
			grad = g.Nodes[g.Values[out].Def].Input(0)
		}
		if !u.KeepGrads {
			g.Outputs = slices.DeleteFunc(g.Outputs, func(d graph.Decl) bool { return d.Value == out })
			g.Values[out].Output = false
			u.copies[out] = grad != out
		}
		if v := &g.Values[p]; !v.Input {
			u.must(g.AddInput(graph.Decl{Value: p, Type: v.Type}))
		}
		if !u.packs(p) || u.Ranks.several() { // sums over ranks are float
			grad = u.work(grad)
		}
		u.params, u.grads = append(u.params, p), append(u.grads, grad)
	}
}

// work converts a value to the type of the update's computation.
func (u *updater) work(v Value) Value {
	return u.Cast(v, updateType(u.DType(v)))
}

// unscale divides the gradients by the loss scale and finds out whether they are finite.
func (u *updater) unscale() {
	name := u.j.out.LossScale
	if name == "" {
		return
	}
	scale, ok := u.j.g.Lookup(name)
	if !ok {
		scale = u.newInput(name, graph.Tensor(graph.Float32, graph.Dims()))
	}
	factor := u.Op("Reciprocal", nil, scale)
	sum := None
	u.perScale, u.multiplied = factor, slices.Clone(u.grads)
	for i, g := range u.grads {
		g = u.Mul(u.work(g), u.Cast(factor, updateType(u.DType(g))))
		u.grads[i], sum = g, u.plus(sum, u.zero(g))
	}
	if u.Guard && len(u.grads) > 0 {
		sum = u.plus(sum, u.lossZero())
	}
	u.setFinite(sum)
}

// zero is 0 if all elements are finite, and NaN if not: so is an element times 0.
func (u *updater) zero(v Value) Value {
	return u.Cast(u.sum(u.Mul(v, u.Scalar(0, v))), graph.Float32)
}

// lossZero is zero times the loss, None if the graph makes no loss.
func (u *updater) lossZero() Value {
	loss, ok := u.j.g.Lookup(CountedOutput)
	if !ok {
		loss, ok = u.j.g.Lookup(u.j.out.Loss)
	}
	if u.j.out.Loss == "" || !ok {
		return None
	}
	return u.ofCounted(u.zero(loss))
}

// plus adds a value, or None, to a sum, which may have no terms yet.
func (u *updater) plus(sum, v Value) Value {
	switch {
	case sum == None:
		return v
	case v == None:
		return sum
	}
	return u.Add(sum, v)
}

// setFinite sets the update's condition: that a sum of nothings is a number.
func (u *updater) setFinite(sum Value) {
	if sum != None {
		u.finite = u.Op("Equal", nil, sum, u.Scalar(0, sum))
		u.result(FiniteOutput, u.finite)
	}
}

// sum adds up all elements.
func (u *updater) sum(v Value) Value {
	return u.Op("ReduceSum", Attrs{A("keepdims", int64(0))}, v)
}

// clip determines the factor of the gradients: MaxNorm/(norm+1e-6) if that is less than 1. Each is
// multiplied right before its use, so that it need not be there twice. A guard asks for the norm,
// too: its square is finite if all gradients are, and needs no memory.
func (u *updater) clip() {
	if u.MaxNorm == 0 && !u.Guard || len(u.grads) == 0 {
		return
	}
	var squares []Value
	for _, g := range u.grads {
		squares = append(squares, u.squares(g))
	}
	u.bound = u.clipFactor(squares)
}

// squares adds up the squares of a gradient.
func (u *updater) squares(g Value) Value {
	return u.Cast(u.Op("ReduceSumSquare", Attrs{A("keepdims", int64(0))}, u.work(g)), u.widest())
}

// clipFactor is the factor of the gradients, given the sums of their squares; None means 1.
func (u *updater) clipFactor(squares []Value) Value {
	square := u.Op("Sum", nil, squares...)
	norm := u.Op("Sqrt", nil, square)
	u.result(NormOutput, norm)
	if u.Guard && u.finite == None {
		u.setFinite(u.plus(u.zero(square), u.lossZero()))
	}
	if u.MaxNorm == 0 {
		return None
	}
	factor := u.Div(u.Scalar(u.MaxNorm, norm), u.Add(norm, u.Scalar(1e-6, norm)))
	return u.Op("Min", nil, factor, u.Scalar(1, norm))
}

// widest is double where a gradient is, else float.
func (u *updater) widest() graph.DType {
	for _, p := range u.params {
		if u.DType(p) == graph.Float64 {
			return graph.Float64
		}
	}
	return graph.Float32
}

// rates makes the numbers that all parameters share. They are computed in double: 1-beta2^step
// loses most of its digits in float.
func (u *updater) rates() {
	var rate Value
	if u.LR != 0 {
		rate = u.double(u.LR)
	} else {
		rate = u.Cast(u.newInput(LRInput, graph.Tensor(graph.Float32, graph.Dims())), graph.Float64)
	}
	if !u.unbiased() && u.rule() != "adafactor" {
		u.setPaces(rate, nil)
	}
	if !u.countsUpdates() {
		return
	}
	old := u.newInput(StepInput, graph.Tensor(graph.Int64, graph.Dims()))
	u.step = u.Add(old, u.Int(1))
	switch {
	case u.unbiased():
		t := u.Cast(u.step, graph.Float64)
		unbiased := func(beta float64) Value { return u.Sub(u.double(1), u.Op("Pow", nil, u.double(beta), t)) }
		first := unbiased(u.Beta1)
		u.setPaces(rate, func(rate Value) Value { return u.Div(rate, first) })
		u.correction = u.Op("Sqrt", nil, unbiased(u.Beta2))
	case u.rule() == "adafactor":
		t := u.Cast(u.step, graph.Float64)
		u.share = u.Op("Pow", nil, t, u.double(factorDecay))
		most := u.Op("Pow", nil, t, u.double(-0.5))
		u.setPaces(rate, func(rate Value) Value { return u.Op("Min", nil, rate, most) })
	}
	step := u.step
	if u.finite != None {
		step = u.Where(u.finite, step, old)
	}
	u.next(StepInput, step)
}

// double is a constant of type double.
func (u *updater) double(x float64) Value {
	raw, err := scalarBytes(graph.Float64, x)
	u.must(err)
	return u.j.constant(&graph.TensorData{DType: graph.Float64, Dims: []int64{}, Source: graph.Raw(raw)})
}

// next makes a value the next one of an input.
func (u *updater) next(input string, v Value) {
	u.result(input+NewSuffix, v)
	u.states = append(u.states, live.StatePair{Input: input, Output: input + NewSuffix})
}

// chosen is the updated value, or the old one where a gradient is not finite. With a guard the updated
// value is the old one then.
func (u *updater) chosen(updated, old Value) Value {
	if u.finite == None || u.guards() {
		return updated
	}
	return u.Where(u.finite, updated, old)
}

// arrange moves each node of the update behind the last one that it waits for, and drops copies of
// gradients that are not read. The update of a parameter waits for its gradient, even where a node of
// it does not need that, and those of its nodes that read the parameter wait for all other readers:
// then new values can be written in the old ones' place, and not before they must be. Updates that
// wait for the same node, such as the norm of all gradients, come in the order of these: a plan that
// recomputes gradients then goes through the backward half a second time, and needs each weight as it
// was.
func (u *updater) arrange(first int) error {
	g := u.j.g
	after, ready := u.waits(first)
	order := graph.FileOrder(g)
	slices.SortStableFunc(order, func(a, b graph.NodeID) int {
		return cmp.Or(cmp.Compare(after[a], after[b]), cmp.Compare(ready[a], ready[b]))
	})
	var nodes []*graph.Node
	for _, id := range order {
		if n := g.Nodes[id]; !u.copies[n.Output(0)] {
			nodes = append(nodes, n)
		}
	}
	if err := u.setNodes(nodes, after); err != nil {
		return err
	}
	if err := graph.Verify(u.j.m); err != nil {
		return err
	}
	var err error
	u.j.out.Types, err = op.InferAsIs(u.j.m)
	return err
}

// setNodes gives the graph its nodes in order. Where the backward half begins with a copy that is left
// out, as it does where a gradient is one that comes from outside, the node behind it takes its place in
// the record.
func (u *updater) setNodes(nodes []*graph.Node, after []int) error {
	g, first := u.j.g, int(u.j.out.Backward)
	if first >= len(g.Nodes) || !u.copies[g.Nodes[first].Output(0)] {
		g.SetNodes(nodes)
		return nil
	}
	b, err := live.FindBoundary(u.j.m)
	if err != nil {
		return err
	}
	b.Backward = graph.NoNode
	if i := slices.IndexFunc(nodes, func(n *graph.Node) bool { return after[n.ID] >= first }); i >= 0 {
		b.Backward = graph.NodeID(i)
		u.j.out.Backward = b.Backward
	}
	g.SetNodes(nodes)
	u.j.m.SetMeta(live.BoundaryKey, b.Record(g))
	return nil
}

// waits returns, by node, the last node that it waits for, itself included, and for nodes of an
// update the node that completes its gradient, else 0. Both are at least those of a producer that
// waits for the same node. If the update is conditional, all of it waits for the condition: new
// values are larger than gradients. It waits for the bound of the norm likewise: a node without
// need of it, such as a moment times its factor, is written over the moment, which must not happen
// while a norm that is not finite may still end the step.
func (u *updater) waits(first int) (after, ready []int) {
	g := u.j.g
	reader := u.lastReaders(first)
	after, ready = make([]int, len(g.Nodes)), make([]int, len(g.Nodes))
	for i := range g.Nodes {
		after[i] = i
		if i < first {
			continue
		}
		after[i] = int(u.j.out.Backward)
		if k, _ := slices.BinarySearch(u.begin, i+1); k > 0 {
			if grad := g.Values[u.grads[k-1]].Def; grad != graph.NoNode {
				after[i], ready[i] = max(after[i], after[grad]), after[grad]
			}
			for _, v := range []Value{u.finite, u.bound} {
				if v != None && g.Values[v].Def != graph.NoNode {
					after[i] = max(after[i], after[g.Values[v].Def])
				}
			}
		}
		if of, ok := u.behind[graph.NodeID(i)]; ok {
			after[i] = max(after[i], after[of])
		}
		for _, v := range g.Nodes[i].Inputs {
			if v != None {
				after[i] = max(after[i], reader[v])
			}
		}
		g.EachProducer(graph.NodeID(i), func(p graph.NodeID) {
			after[i], ready[i] = max(after[i], after[p]), max(ready[i], ready[p])
		})
	}
	return after, ready
}

// lastReaders returns the last of the nodes before a number that reads each parameter, or a view of
// it; 0 for other values.
func (u *updater) lastReaders(before int) []int {
	g := u.j.g
	last, shows := make([]int, len(g.Values)), make([]Value, len(g.Values))
	for v := range shows {
		shows[v] = None
	}
	for _, list := range [...][]Value{u.params, u.whole} {
		for _, p := range list {
			shows[p] = p
		}
	}
	for i, n := range g.Nodes[:before] {
		for _, list := range [...][]Value{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v != None && shows[v] != None {
					last[shows[v]] = i
				}
			}
		}
		if out := n.Output(0); op.Of(n.Kind).View && out != None && n.Input(0) != None {
			shows[out] = shows[n.Input(0)]
		}
	}
	return last
}
