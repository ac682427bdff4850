package executor

import (
	"fmt"
	"slices"

	"memopt/internal/memlimit"
)

// scanKernel runs its body over the rows of its scan inputs, with a state carried along.
// https://onnx.ai/onnx/operators/onnx__Scan.html
//
// Version 8 has a batch axis in front of everything and an optional input of sequence lengths; the
// body sees one sequence of the batch at a time.
type scanKernel struct {
	body        *body
	state       carried
	scans       int // number of scan inputs
	batched     bool
	inAxes      []int64
	outAxes     []int64
	inBackward  []int64
	outBackward []int64
	rows        []Tensor // of the scan inputs, for the body
	// stacked are the scan outputs of the run, by their number, where rows are written as they are made;
	// nil before the first.
	stacked []*Tensor
}

func newScan(f *frame, st *step) (Kernel, error) {
	p := st.prep
	b, err := newBody(f, st, "body")
	if err != nil {
		return nil, err
	}
	n := p.Node
	k := &scanKernel{body: b, scans: int(n.Int("num_scan_inputs", 0)), batched: p.Version < 9,
		inAxes: n.IntList("scan_input_axes", nil), outAxes: n.IntList("scan_output_axes", nil),
		inBackward: n.IntList("scan_input_directions", nil), outBackward: n.IntList("scan_output_directions", nil)}
	first := 0
	if k.batched {
		first = 1
		k.inBackward = n.IntList("directions", nil)
	}
	states := len(p.In) - first - k.scans
	if k.scans < 1 || states < 0 || len(b.g.Inputs) != states+k.scans || len(b.g.Outputs) < states {
		return nil, p.Errorf("num_scan_inputs is %d; the node has %d inputs, the body %d inputs and %d outputs",
			k.scans, len(p.In), len(b.g.Inputs), len(b.g.Outputs))
	}
	k.state = carried{
		arena: f.s.shares.host, state: make([]Tensor, states), rows: make([]rows, len(b.g.Outputs)-states),
	}
	k.rows = make([]Tensor, k.scans)
	if k.batched && p.Has(0) {
		return nil, p.Unsupported("sequence_lens of Scan-8 is not supported")
	}
	return k, nil
}

func at(list []int64, i int) int {
	if i < len(list) {
		return int(list[i])
	}
	return 0
}

// Run scans.
func (k *scanKernel) Run(c *Ctx) error {
	if err := k.body.ready(); err != nil {
		return err
	}
	defer k.state.release()
	defer k.body.f.release()
	if k.batched {
		return k.runBatch(c)
	}
	n := len(k.state.state)
	ins := make([]*Tensor, n+k.scans)
	for i := range ins {
		if ins[i] = c.In(i); ins[i] == nil {
			return c.Errorf("input %d is left out", i)
		}
	}
	k.stacked = make([]*Tensor, len(k.state.rows))
	if err := k.scan(c, ins); err != nil {
		return err
	}
	for i := range n {
		if err := copyOut(c, i, &k.state.state[i]); err != nil {
			return err
		}
	}
	for i := range k.state.rows {
		if k.stacked[i] != nil {
			continue
		}
		backward := at(k.outBackward, i) == 1
		if err := k.state.stack(c, i, n+i, k.body.emptyRow(n+i), at(k.outAxes, i), backward); err != nil {
			return err
		}
	}
	return nil
}

// scan runs all iterations; the results are in k.state.
func (k *scanKernel) scan(c *Ctx, ins []*Tensor) error {
	n := len(k.state.state)
	for i := range n {
		if err := k.state.set(i, ins[i]); err != nil {
			return err
		}
	}
	length := -1
	for i := range k.scans {
		t, axis := ins[n+i], at(k.inAxes, i)
		if axis < 0 {
			axis += t.Rank()
		}
		if axis < 0 || axis >= t.Rank() {
			return c.Errorf("scan input %d is %v; axis %d is not one of it", i, t, axis)
		}
		if length >= 0 && t.Shape[axis] != length {
			return c.Errorf("scan input %d is %v; along axis %d it must have length %d as the first one",
				i, t, axis, length)
		}
		length = t.Shape[axis]
		row := slices.Delete(slices.Clone(t.Shape), axis, axis+1)
		size, _ := Bytes(t.DType, row)
		if err := memlimit.Check(int64(size), "a row of scan input %d", i); err != nil {
			return err
		}
		k.rows[i] = Tensor{DType: t.DType, Shape: row, Data: make([]byte, (size+7)&^7)[:size]}
	}
	for step := range length {
		if err := k.iterate(c, ins, step, length); err != nil {
			return c.Errorf("iteration %d: %w", step, err)
		}
	}
	return nil
}

func (k *scanKernel) iterate(c *Ctx, ins []*Tensor, step, length int) error {
	b, n := k.body, len(k.state.state)
	for i := range n {
		if err := b.input(i, &k.state.state[i]); err != nil {
			return err
		}
	}
	for i := range k.scans {
		t, axis := ins[n+i], at(k.inAxes, i)
		if axis < 0 {
			axis += t.Rank()
		}
		row := step
		if at(k.inBackward, i) == 1 {
			row = length - 1 - step
		}
		copyRow(t, axis, row, k.rows[i].Data, false)
		if err := b.input(n+i, &k.rows[i]); err != nil {
			return err
		}
	}
	if err := b.run(c.Context, c.Step<<20+uint64(step)); err != nil {
		return err
	}
	if k.batched {
		return k.state.carry(b, 0)
	}
	for i := range k.state.rows {
		if err := k.write(c, i, b.output(n+i), step, length); err != nil {
			return err
		}
	}
	return k.state.carryStates(b, 0)
}

// write writes a row of scan output i where it belongs: how many there will be is known.
func (k *scanKernel) write(c *Ctx, i int, row *Tensor, step, length int) error {
	out := len(k.state.state) + i
	if !c.Wants(out) {
		return nil
	}
	axis := at(k.outAxes, i)
	if axis < 0 {
		axis += row.Rank() + 1
	}
	if axis < 0 || axis > row.Rank() {
		return c.Errorf("scan output axis %d; the rows have rank %d", axis, row.Rank())
	}
	t := k.stacked[i]
	if t == nil {
		if c.out[out].DType != row.DType {
			return c.Errorf("output %d has elements of %v, the rows of %v", out, c.out[out].DType, row.DType)
		}
		t = c.Out(out, slices.Insert(slices.Clone(row.Shape), axis, length)...)
		k.stacked[i] = t
	}
	if first := slices.Delete(slices.Clone(t.Shape), axis, axis+1); !slices.Equal(first, row.Shape) {
		return fmt.Errorf("scan output %d: a row is %v in iteration %d and %v before; all must be equal", i, row, step,
			&Tensor{DType: t.DType, Shape: first})
	}
	place := step
	if at(k.outBackward, i) == 1 {
		place = length - 1 - step
	}
	copyRow(t, axis, place, row.Data, true)
	return nil
}

// runBatch scans sequence after sequence of a batch.
func (k *scanKernel) runBatch(c *Ctx) error {
	n := len(k.state.state)
	ins := make([]*Tensor, n+k.scans)
	batch := -1
	for i := range ins {
		t := c.In(i + 1)
		if t == nil || t.Rank() == 0 || batch >= 0 && t.Shape[0] != batch {
			return c.Errorf("input %d must have the batch as its first axis", i+1)
		}
		batch = t.Shape[0]
		ins[i] = &Tensor{DType: t.DType, Shape: t.Shape[1:]}
	}
	if batch == 0 {
		return c.Errorf("the batch is empty")
	}
	for b := range batch {
		for i := range ins {
			whole := c.In(i + 1)
			size := len(whole.Data) / batch
			ins[i].Data = whole.Data[b*size : (b+1)*size]
		}
		if err := k.scan(c, ins); err != nil {
			return err
		}
		for i := range n {
			state := &k.state.state[i]
			copy(k.place(c, i, b, batch, state.Shape), state.Data)
		}
		for i := range k.state.rows {
			r := &k.state.rows[i]
			if r.n == 0 {
				return c.Errorf("the sequences are empty")
			}
			dst := k.place(c, n+i, b, batch, append([]int{r.n}, r.shape...))
			r.each(func(_ int, data []byte) { dst = dst[copy(dst, data):] })
		}
		k.state.release()
	}
	return nil
}

// place returns the part of an output that one sequence gives; nil if it is not wanted.
func (k *scanKernel) place(c *Ctx, out, b, batch int, shape []int) []byte {
	if !c.Wants(out) {
		return nil
	}
	t := c.out[out]
	if b == 0 {
		t = c.Out(out, append([]int{batch}, shape...)...)
	}
	size := len(t.Data) / batch
	return t.Data[b*size : (b+1)*size]
}
