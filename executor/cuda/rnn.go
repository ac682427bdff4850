package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda/driver"
	"memopt/graph"
	"memopt/graph/op"
)

// recurrence is RNN, GRU or LSTM. For each direction, one product makes the contributions of all
// steps' inputs to the gates; then each step takes the product of its state with R, one kernel for
// its cell and, for GRU without linear_before_reset, another product and kernel for the reset
// state. executor/cpu/rnn.go lists the operands.
type recurrence struct {
	*product
	kind              graph.Kind
	cell, reset, copy *launch
	gates             int
	acts              [][3]cpu.RecurrentActivation // by direction
	backward          []bool                       // by direction
	clip              float32
	couple, linear    bool
	batchFirst        bool
	hiddenAttr        int // 0 if not given

	seq, batch, input, hidden int
	size                      int // of an element
	shape                     []int
	lens                      []byte
	workspace                 []byte // of the library
	pre, rec, h, side, state  []byte // state: LSTM's C, in float32
	index, time               int    // of the current direction and step
}

// recurrent makes the kernels of RNN, GRU and LSTM, by their number of gates.
func recurrent(cell string, gates int) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		types := slices.Clone(p.In)
		if len(types) > 4 {
			types[4] = graph.Undefined
		}
		if !isFloat(p.DType(0)) || !p.Has(1) || !p.Has(2) ||
			slices.ContainsFunc(types, func(t graph.DType) bool { return t != graph.Undefined && t != p.DType(0) }) {
			return nil, noTypes(p)
		}
		x := *p
		x.In = types
		gemm, err := d.product(&x)
		if err != nil {
			return nil, err
		}
		k := newRecurrence(p, gemm, gates)
		if k.acts, err = cpu.RecurrentActivations(p, len(k.backward)); err != nil {
			return nil, err
		}
		for _, l := range []named{{&k.cell, cell}, {&k.reset, "gru_reset"}, {&k.copy, "state_copy"}} {
			if *l.to, err = d.launch("recurrent", l.name); err != nil {
				return nil, err
			}
		}
		return k, nil
	}
}

// newRecurrence reads the attributes.
func newRecurrence(p *executor.Prep, gemm *product, gates int) *recurrence {
	n := p.Node
	k := &recurrence{product: gemm, kind: n.Kind, gates: gates, clip: n.Float("clip", 0),
		couple: n.Int("input_forget", 0) != 0,
		linear: n.Int("linear_before_reset", 0) != 0, batchFirst: p.Version >= 14 && n.Int("layout", 0) == 1,
		hiddenAttr: int(n.Int("hidden_size", 0)), backward: []bool{false}, size: p.DType(0).Bits() / 8}
	switch n.Str("direction", "forward") {
	case "reverse":
		k.backward = []bool{true}
	case "bidirectional":
		k.backward = []bool{false, true}
	}
	return k
}

// Workspace counts products, states, lengths and the library's loan.
func (k *recurrence) Workspace(in, _ [][]int) int {
	if len(in[0]) != 3 || len(in[2]) != 3 {
		return 0
	}
	batch, hidden := in[0][1], in[2][2]
	if k.batchFirst {
		batch = in[0][0]
	}
	n := k.d.libraryWorkspace()
	for _, room := range k.rooms(in[0][0]*in[0][1], batch, hidden) {
		n += executor.RoundUp(room)
	}
	return n
}

// rooms lists the bytes of pre, rec, h, side, state and lens.
func (k *recurrence) rooms(steps, batch, hidden int) [6]int {
	n := [6]int{k.size * steps * k.gates * hidden, k.size * batch * k.gates * hidden, k.size * batch * hidden, 0,
		0, 4 * batch}
	switch {
	case k.kind == op.GRU && !k.linear:
		n[3] = n[2]
	case k.kind == op.LSTM:
		n[4] = 4 * batch * hidden
	}
	return n
}

// Run checks the operands and runs the directions.
func (k *recurrence) Run(c *executor.Ctx) error {
	if err := k.operands(c); err != nil {
		return err
	}
	d := len(k.backward)
	y, yh, yc := k.out(c, 0, k.seq, d), k.out(c, 1, -1, d), k.out(c, 2, -1, d)
	k.workspace = c.Scratch(k.d.libraryWorkspace())
	rooms := k.rooms(k.seq*k.batch, k.batch, k.hidden)
	for i, to := range []*[]byte{&k.pre, &k.rec, &k.h, &k.side, &k.state, &k.lens} {
		*to = c.Scratch(rooms[i])
	}
	if t := c.In(4); t == nil {
		k.lens = nil
	} else if len(k.lens) > 0 {
		if err := k.d.Memory().CopyIn(k.lens, t.Data); err != nil {
			return err
		}
	}
	for i := range k.backward {
		if k.index = i; k.batch == 0 || k.hidden == 0 {
			break
		}
		if err := k.direction(c, y, yh, yc); err != nil {
			return err
		}
	}
	return nil
}

// out makes an output of states: of seq steps, or of one without an axis for steps if seq is
// negative.
func (k *recurrence) out(c *executor.Ctx, i, seq, d int) *executor.Tensor {
	switch {
	case seq < 0 && k.batchFirst:
		k.shape = append(k.shape[:0], k.batch, d, k.hidden)
	case seq < 0:
		k.shape = append(k.shape[:0], d, k.batch, k.hidden)
	case k.batchFirst:
		k.shape = append(k.shape[:0], k.batch, seq, d, k.hidden)
	default:
		k.shape = append(k.shape[:0], seq, d, k.batch, k.hidden)
	}
	return c.Out(i, k.shape...)
}

// operands checks the inputs.
func (k *recurrence) operands(c *executor.Ctx) error {
	s, err := cpu.RecurrentSizesOf(c, k.batchFirst, k.hiddenAttr)
	if err != nil {
		return err
	}
	k.seq, k.batch, k.input, k.hidden = s.Seq, s.Batch, s.Input, s.Hidden
	d, rows := len(k.backward), k.gates*k.hidden
	first, second := d, k.batch
	if k.batchFirst {
		first, second = second, first
	}
	for i, want := range [8][3]int{1: {d, rows, k.input}, 2: {d, rows, k.hidden}, 3: {d, 2 * rows, 1},
		5: {first, second, k.hidden},
		6: {first, second, k.hidden}, 7: {d, 3 * k.hidden, 1}} {
		t := c.In(i)
		if t == nil || i == 0 || i == 4 {
			continue
		}
		rank := 3
		if i == 3 || i == 7 {
			rank = 2
		}
		if !slices.Equal(t.Shape, want[:rank]) {
			return c.Errorf("input %d is %v, wanted shape %v", i, t, slices.Clone(want[:rank]))
		}
	}
	return k.lengths(c)
}

// lengths checks sequence_lens, which are in host memory.
func (k *recurrence) lengths(c *executor.Ctx) error {
	t := c.In(4)
	if t == nil {
		return nil
	}
	if t.Rank() != 1 || t.Shape[0] != k.batch {
		return c.Errorf("input 4, the sequences' lengths, is %v, wanted shape [%d]", t, k.batch)
	}
	for i, n := range executor.Of[int32](t) {
		if n < 0 || int(n) > k.seq {
			return c.Errorf("input 4: sequence %d has length %d, wanted 0 to %d", i, n, k.seq)
		}
	}
	return nil
}

// multiply makes a product of rows of A with the rows of B.
func (k *recurrence) multiply(m, n, depth int, a, b, y []byte, ldy int) error {
	if m == 0 || n == 0 {
		return nil
	}
	if depth == 0 {
		return k.d.Memory().Fill(y, 0)
	}
	g := &k.gemm
	*g = driver.Gemm{Elem: g.Elem, TF32: g.TF32, Alpha: 1, Batch: 1, Workspace: k.workspace, TransB: true, M: m, N: n,
		K: depth, A: a, B: b, C: y,
		LDA: depth, LDB: depth, LDC: ldy}
	return k.d.driver.Gemm(k.d.stream, g)
}
