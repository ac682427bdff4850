package cuda

import (
	"memopt/executor"
	"memopt/graph"
)

// embedNorm is ONNX Runtime's EmbedLayerNormalization: the norm of rows of a word table, a position
// table and, where there are segments, a segment table. The ids are checked on the host, where an
// invalid one can be reported, and sent to the device.
type embedNorm struct {
	sumNorm
	count *launch
	in    [3]sumAddend
}

// embedTables lists for each table the input slots of the table and of the ids that choose its
// rows.
var embedTables = [3]struct{ table, ids int }{{2, 0}, {3, 8}, {4, 1}}

// newEmbedNorm makes the kernel.
func newEmbedNorm(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := p.DType(2)
	for i := 2; i < 7; i++ {
		if have := p.DType(i); have != graph.Undefined && have != t {
			return nil, noTypes(p)
		}
	}
	if !isFloat(t) {
		return nil, noTypes(p)
	}
	k := &embedNorm{}
	var err error
	if k.sumNorm, err = newSumNorm(d, p, t, false); err != nil {
		return nil, err
	}
	k.count, err = d.launch("countones", "countones_i32")
	return k, err
}

// Workspace holds the ids.
func (k *embedNorm) Workspace(in, _ [][]int) int {
	n := 0
	for _, t := range embedTables {
		if t.ids < len(in) && in[t.ids] != nil {
			n += executor.RoundUp(4 * elements(in[t.ids]))
		}
	}
	return n
}

// Run looks up, adds and normalises.
func (k *embedNorm) Run(c *executor.Ctx) error {
	ids, word, mask := c.In(0), c.In(2), c.In(7)
	if ids.Rank() != 2 || word.Rank() != 2 {
		return c.Errorf("input 0, the ids, is %v, and input 2, the word table, %v, wanted rank 2", ids, word)
	}
	batch, seq, n := ids.Shape[0], ids.Shape[1], word.Shape[1]
	for _, i := range [2]int{5, 6} {
		if err := channelVector(c, i, "scale or shift", n); err != nil {
			return err
		}
	}
	for _, i := range [2]int{1, 7} {
		if t := c.In(i); t != nil && t.Len() != batch*seq {
			return c.Errorf("input %d is %v, wanted shape [%d %d]", i, t, batch, seq)
		}
	}
	for i := range embedTables {
		if err := k.addend(c, i, batch, seq, n); err != nil {
			return err
		}
	}
	out := sumOutputs{y: c.Out(0, batch, seq, n), sum: c.Out(2, batch, seq, n)}
	if t := c.Out(1, batch); t != nil {
		if err := k.countMask(t, mask, batch, seq); err != nil {
			return err
		}
	}
	if out.y == nil || out.y.Len() == 0 {
		return nil
	}
	return k.normalise(word.DType, batch*seq, n, k.in, c.In(5).Data, c.In(6).Data, out)
}

// addend checks a table and the ids of its rows, and sends these to the device.
func (k *embedNorm) addend(c *executor.Ctx, i, batch, seq, n int) error {
	slots, a := embedTables[i], &k.in[i]
	table, ids := c.In(slots.table), c.In(slots.ids)
	*a = sumAddend{period: seq}
	if i == 2 && ids == nil {
		return nil // no segments
	}
	if table.Rank() != 2 || table.Shape[1] != n || ids == nil && table.Shape[0] < seq {
		return c.Errorf("input %d, a table, is %v, wanted rows of %d elements, %d at least where positions are counted",
			slots.table, table, n, seq)
	}
	if a.data = table.Data; ids == nil {
		return nil
	}
	if a.period = ids.Len(); a.period != seq && a.period != batch*seq {
		return c.Errorf("input %d, the rows of input %d, is %v, wanted shape [%d %d]",
			slots.ids, slots.table, ids, batch, seq)
	}
	for j, r := range executor.Of[int32](ids) {
		if r < 0 || int(r) >= table.Shape[0] {
			return c.Errorf("element %d of input %d is %d; input %d has %d rows", j, slots.ids, r, slots.table,
				table.Shape[0])
		}
	}
	var err error
	a.places, err = k.d.send(c, ids.Data)
	return err
}

// send copies bytes of the host to workspace.
func (d *Device) send(c *executor.Ctx, from []byte) ([]byte, error) {
	to := c.Scratch(len(from))
	if len(to) == 0 {
		return to, nil
	}
	return to, d.Memory().CopyIn(to, from)
}

// countMask counts the ones of the mask in each row; without one there are none.
func (k *embedNorm) countMask(y, mask *executor.Tensor, batch, seq int) error {
	if batch == 0 {
		return nil
	}
	if mask == nil || mask.Len() == 0 {
		return k.d.Memory().Fill(y.Data, 0)
	}
	a := k.count.begin()
	a.In(mask.Data)
	a.Out(y.Data)
	a.Int(batch)
	a.Int(seq)
	const warp = 32
	return k.count.line(batch*warp, 1)
}
