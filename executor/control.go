package executor

import (
	"context"
	"fmt"
	"slices"

	"memopt/executor/small"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// newControl makes the kernel of a node that runs subgraphs, the same on every device.
func newControl(f *frame, st *step) (Kernel, error) {
	if err := wholeRows(st); err != nil {
		return nil, err
	}
	switch c := st.prep.Info.Control; c {
	case op.Branches:
		return newIf(f, st)
	case op.Loops:
		return newLoop(f, st)
	case op.Scans:
		return newScan(f, st)
	default:
		return nil, st.prep.Unsupported("control flow of kind %d has no kernel", c)
	}
}

// wholeRows refuses scan inputs and outputs of elements of less than a byte: their rows need not begin with
// a byte.
func wholeRows(st *step) error {
	p := st.prep
	carried := 0 // inputs and outputs that are not of scans
	switch p.Info.Control {
	case op.Loops:
		carried = len(p.In) - 2
	case op.Scans:
		carried = 0
	default:
		return nil
	}
	for slot, d := range p.Out {
		if slot >= carried && small.IsPacked(d) {
			return p.Unsupported("scan output %d has elements of type %v, of which a byte holds several", slot, d)
		}
	}
	for slot, d := range p.In {
		if p.Info.Control == op.Scans && small.IsPacked(d) {
			return p.Unsupported("input %d has elements of type %v, of which a byte holds several", slot, d)
		}
	}
	return nil
}

// RunsItself reports whether sessions run an operator themselves, on every device: control flow, the
// boundary of a training graph, and copies to the host's memory.
func RunsItself(k graph.Kind) bool {
	info := op.Of(k)
	return info.Control != op.NoControl || info.Has(op.Yield) || info.Transfer != op.NoTransfer
}

// Reasons why the host runs nodes, whatever device the session is on.
const (
	hostControl  = "it runs subgraphs, which the host executes"
	hostConstant = "its output is made once, before the first step"
	hostShapes   = "it computes shapes"
)

// AlwaysHost returns the reason why the host runs an operator whatever device a session is on; ""
// means that the device decides.
func AlwaysHost(k graph.Kind) string {
	switch info := op.Of(k); {
	case info.Control != op.NoControl:
		return hostControl
	case info.Has(op.ConstantRole):
		return hostConstant
	case info.Has(op.ShapeOf):
		return hostShapes
	}
	return ""
}

// body is a subgraph. It is prepared on its first run, so a branch that is never taken need not be
// executable.
type body struct {
	outer *frame
	owner *step // the node that runs it
	g     *graph.Graph
	f     *frame
}

func newBody(f *frame, st *step, attr string) (*body, error) {
	g := st.node.GraphAttr(attr)
	if g == nil {
		return nil, st.prep.Errorf("has no subgraph %q", attr)
	}
	return &body{outer: f, owner: st, g: g}, nil
}

// ready makes the frame.
func (b *body) ready() error {
	if b.f != nil {
		return nil
	}
	order, err := graph.Topological(b.g)
	if err != nil {
		return err
	}
	f := newFrame(b.outer.s, b.g, b.outer, b.owner)
	if err := f.makeSteps(order); err != nil {
		return err
	}
	if err := f.loadWeights(); err != nil {
		return err
	}
	unknown := &live.Sizes{Bytes: make([]int64, len(b.g.Values))}
	for i := range unknown.Bytes {
		unknown.Bytes[i] = live.Unsized
	}
	if err := f.plan(unknown); err != nil {
		return err
	}
	b.f = f
	return nil
}

// input gives body input i its tensor.
func (b *body) input(i int, t *Tensor) error {
	v := b.g.Inputs[i].Value
	if dst := b.f.vals[v]; dst.DType != graph.Undefined && dst.DType != t.DType {
		return fmt.Errorf("subgraph input %q is %v, wanted elements of %v", b.g.ValueName(v), t, dst.DType)
	}
	*b.f.vals[v] = *t
	return nil
}

// run executes the subgraph.
func (b *body) run(ctx context.Context, step uint64) error {
	if ctx == nil {
		ctx = context.Background()
	}
	b.f.release()
	b.f.step = step
	err := b.f.run(ctx)
	b.outer.space.ranInside(b.f.livePeak)
	return err
}

// output returns output i, which is valid until the next run.
func (b *body) output(i int) *Tensor { return b.f.vals[b.g.Outputs[i].Value] }

// copyOut copies a tensor to an output.
func copyOut(c *Ctx, i int, t *Tensor) error {
	if !c.Wants(i) {
		return nil
	}
	if c.out[i].DType != t.DType {
		return c.Errorf("output %d is %v, wanted elements of %v", i, t, c.out[i].DType)
	}
	copy(c.Out(i, t.Shape...).Data, t.Data)
	return nil
}

// truth returns the value of a bool of one element.
func truth(c *Ctx, i int) (bool, error) {
	t := c.In(i)
	if t.DType != graph.Bool || t.Len() != 1 {
		return false, c.Errorf("input %d is %v, wanted one bool", i, t)
	}
	return t.Data[0] != 0, nil
}

// ifKernel runs one of two branches.
// https://onnx.ai/onnx/operators/onnx__If.html
type ifKernel struct{ then, els *body }

func newIf(f *frame, st *step) (Kernel, error) {
	then, err := newBody(f, st, "then_branch")
	if err != nil {
		return nil, err
	}
	els, err := newBody(f, st, "else_branch")
	return &ifKernel{then, els}, err
}

// Run runs the branch that the condition picks.
func (k *ifKernel) Run(c *Ctx) error {
	cond, err := truth(c, 0)
	if err != nil {
		return err
	}
	b := k.els
	if cond {
		b = k.then
	}
	if err := b.ready(); err != nil {
		return err
	}
	if err := b.run(c.Context, c.Step); err != nil {
		return err
	}
	defer b.f.release()
	if len(b.g.Outputs) != c.Outputs() {
		return c.Errorf("the branch has %d outputs, the node %d", len(b.g.Outputs), c.Outputs())
	}
	for i := range c.Outputs() {
		if err := copyOut(c, i, b.output(i)); err != nil {
			return err
		}
	}
	return nil
}

// carried are the tensors that one iteration hands to the next, and the rows that
// iterations add to scan outputs. They lie in blocks of their own.
type carried struct {
	arena *share
	state []Tensor // read by the next iteration
	rows  []rows   // by scan output
}

// keep copies a tensor into a block.
func (s *carried) keep(t *Tensor) (Tensor, error) {
	data, err := s.arena.Alloc(len(t.Data))
	if err != nil {
		return Tensor{}, err
	}
	copy(data, t.Data)
	return Tensor{DType: t.DType, Shape: slices.Clone(t.Shape), Data: data}, nil
}

// carry hands the results of a body that has run to the next iteration: from output first on those
// that replace the state, behind them the rows. One result may be a view of another's old state, so
// all are copied before any is replaced.
func (s *carried) carry(b *body, first int) error {
	n := len(s.state)
	for i := range s.rows {
		if err := s.add(i, b.output(first+n+i)); err != nil {
			return err
		}
	}
	return s.carryStates(b, first)
}

// carryStates hands the results that replace the state to the next iteration.
func (s *carried) carryStates(b *body, first int) error {
	n := len(s.state)
	next := make([]Tensor, n)
	for i := range n {
		kept, err := s.keep(b.output(first + i))
		if err != nil {
			return err
		}
		next[i] = kept
	}
	for i := range n {
		s.arena.Free(s.state[i].Data)
		s.state[i] = next[i]
	}
	return nil
}

// set replaces state i.
func (s *carried) set(i int, t *Tensor) error {
	kept, err := s.keep(t)
	if err != nil {
		return err
	}
	s.arena.Free(s.state[i].Data)
	s.state[i] = kept
	return nil
}

// add appends a row to scan output i; all rows must have the first one's shape.
func (s *carried) add(i int, t *Tensor) error {
	if err := s.rows[i].add(s.arena, t); err != nil {
		return fmt.Errorf("scan output %d after %d iterations: %w", i, s.rows[i].n, err)
	}
	return nil
}

func (s *carried) release() {
	for i := range s.state {
		s.arena.Free(s.state[i].Data)
		s.state[i] = Tensor{}
	}
	for i := range s.rows {
		s.rows[i].release(s.arena)
	}
}

// stack copies the rows of scan output i into an output of the node, along axis, in reverse order
// if backward is set. Without rows, the output has the shape empty.
func (s *carried) stack(c *Ctx, i, out int, empty []int, axis int, backward bool) error {
	if !c.Wants(out) {
		return nil
	}
	r, row := &s.rows[i], empty
	if r.n > 0 {
		if row = r.shape; c.out[out].DType != r.dtype {
			return c.Errorf("output %d has elements of %v, the rows of %v", out, c.out[out].DType, r.dtype)
		}
	}
	if axis < 0 {
		axis += len(row) + 1
	}
	if axis < 0 || axis > len(row) {
		return c.Errorf("scan output axis %d; the rows have rank %d", axis, len(row))
	}
	t := c.Out(out, slices.Insert(slices.Clone(row), axis, r.n)...)
	r.each(func(j int, data []byte) {
		if backward {
			j = r.n - 1 - j
		}
		copyRow(t, axis, j, data, true)
	})
	return nil
}

// copyRow copies row i of a tensor along an axis to or from contiguous memory.
func copyRow(t *Tensor, axis, i int, row []byte, toTensor bool) {
	outer, inner := 1, t.DType.Bits()/8
	for _, d := range t.Shape[:axis] {
		outer *= d
	}
	for _, d := range t.Shape[axis+1:] {
		inner *= d
	}
	for o := range outer {
		at := (o*t.Shape[axis] + i) * inner
		if toTensor {
			copy(t.Data[at:at+inner], row[o*inner:])
		} else {
			copy(row[o*inner:(o+1)*inner], t.Data[at:])
		}
	}
}

// emptyRow returns the shape of a scan output's rows if there was no iteration: unknown dims are 0.
func (b *body) emptyRow(i int) []int {
	t := b.g.Values[b.g.Outputs[i].Value].Type
	var row []int
	for _, d := range t.Shape.Dims {
		n, _ := d.Const()
		row = append(row, max(int(n), 0))
	}
	return row
}
