package cpu

import (
	"unsafe"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
	"memopt/graph/op"
)

// RNN, GRU and LSTM. For each direction, the products of all inputs with the weights W
// [gates*hidden, input] are one matrix product; then each step adds the product of the state with R
// [gates*hidden, hidden] and computes its cell. Operands, with the default layout:
//
//	X [seq, batch, input]   B [directions, 2*gates*hidden], first W's bias, then R's
//	initial_h, initial_c, Y_h, Y_c [directions, batch, hidden]   P [directions, 3*hidden]
//	Y [seq, directions, batch, hidden]
//
// With layout 1, batch comes first in all but W, R, B and P. A sequence that is shorter than seq
// keeps its state and has zeros in Y after its end; the reverse direction starts at its end.
// https://onnx.ai/onnx/operators/onnx__LSTM.html https://onnx.ai/onnx/operators/onnx__GRU.html
// https://onnx.ai/onnx/operators/onnx__RNN.html

type rnnKernel[T chunkFloat] struct {
	kind       graph.Kind
	gates      int
	directions []rnnDirection
	hiddenAttr int // 0 if not given
	clip       T   // 0 means no clipping
	couple     bool
	linear     bool // linear_before_reset
	batchFirst bool

	seq, batch, input, hidden int
	x, w, r                   []T
	bias, h0, c0, peepholes   []T // nil means zeros
	lens                      []int32
	y, yh, yc                 []T

	pre    []T // inputs of the gates [seq, batch, gates, hidden], or batch first
	h, c   []T // state [batch, hidden]
	side   []T // [batch, hidden]: GRU's reset state, or its product
	sums   []T // biases that are added to pre
	resets []T // GRU's bias of the product in side, or nil
	pp     []T // peepholes of the direction, or nil

	project, recur, again blas.Gemm[T]
	now                   *rnnDirection
	index, time           int // of the current direction and step
	base, ld              int // of pre's rows of the step
	chunks                int // of a row, for cells
}

// rnnDirection is one way through the sequence, with its activations f, g and h.
type rnnDirection struct {
	reverse bool
	act     [3]rnnActivation
}

// New kernels by the number of gates.
var (
	newRNN  = newRecurrence(1)
	newGRU  = newRecurrence(3)
	newLSTM = newRecurrence(4)
)

func newRecurrence(gates int) func(*executor.Prep) (executor.Kernel, error) {
	return widened(func(p *executor.Prep) (executor.Kernel, error) {
		for i, d := range p.In {
			want := p.DType(0)
			if i == 4 {
				want = graph.Int32
			}
			if d != graph.Undefined && d != want {
				return nil, p.Errorf("input %d has type %v, wanted %v", i, d, want)
			}
		}
		switch p.DType(0) {
		case graph.Float32:
			return makeRecurrence[float32](p, gates)
		case graph.Float64:
			return makeRecurrence[float64](p, gates)
		}
		return nil, unsupportedTypes(p)
	})
}

func makeRecurrence[T chunkFloat](p *executor.Prep, gates int) (executor.Kernel, error) {
	n := p.Node
	if p.Version < 7 {
		return nil, p.Unsupported("no kernel below operator set 7")
	}
	k := &rnnKernel[T]{kind: n.Kind, gates: gates, clip: T(n.Float("clip", 0)),
		hiddenAttr: int(n.Int("hidden_size", 0)),
		couple:     n.Int("input_forget", 0) != 0, linear: n.Int("linear_before_reset", 0) != 0,
		batchFirst: p.Version >= 14 && n.Int("layout", 0) == 1}
	if l := n.Int("layout", 0); p.Version >= 14 && l != 0 && l != 1 {
		return nil, p.Errorf("attribute layout is %d, wanted 0 or 1", l)
	}
	if k.clip < 0 {
		return nil, p.Errorf("attribute clip is %v, wanted no negative number", k.clip)
	}
	switch d := n.Str("direction", "forward"); d {
	case "forward":
		k.directions = []rnnDirection{{}}
	case "reverse":
		k.directions = []rnnDirection{{reverse: true}}
	case "bidirectional":
		k.directions = []rnnDirection{{}, {reverse: true}}
	default:
		return nil, p.Errorf("attribute direction is %q, wanted forward, reverse or bidirectional", d)
	}
	return k, rnnActivations(p, k.directions)
}

// Workspace counts the gates' inputs, the state and biases.
func (k *rnnKernel[T]) Workspace(in, out [][]int) int {
	if len(in[0]) != 3 || len(in[2]) != 3 {
		return 0
	}
	var e T
	size := int(unsafe.Sizeof(e))
	hidden := in[2][2]
	gates := k.gates * hidden
	batch := in[0][1]
	if k.batchFirst {
		batch = in[0][0]
	}
	return executor.RoundUp(size*in[0][0]*in[0][1]*gates) + 3*executor.RoundUp(size*batch*hidden) +
		executor.RoundUp(size*gates)
}

// Run checks the operands and runs the directions.
func (k *rnnKernel[T]) Run(c *executor.Ctx) error {
	if err := k.operands(c); err != nil {
		return err
	}
	d, states := len(k.directions), k.batch*k.hidden
	shape, state := [4]int{k.seq, d, k.batch, k.hidden}, [3]int{d, k.batch, k.hidden}
	if k.batchFirst {
		shape, state = [4]int{k.batch, k.seq, d, k.hidden}, [3]int{k.batch, d, k.hidden}
	}
	k.y, k.yh, k.yc = rnnOut[T](c, 0, shape[:]), rnnOut[T](c, 1, state[:]), rnnOut[T](c, 2, state[:])
	k.pre = executor.ScratchOf[T](c, k.seq*k.batch*k.gates*k.hidden)
	k.sums = executor.ScratchOf[T](c, k.gates*k.hidden)
	k.h, k.side = executor.ScratchOf[T](c, states), executor.ScratchOf[T](c, states)
	if k.kind == op.LSTM {
		k.c = executor.ScratchOf[T](c, states)
	}
	for i := range k.directions {
		k.index, k.now = i, &k.directions[i]
		k.direction(c)
	}
	return nil
}

// RecurrentSizes are the sizes of a recurrent operator: steps, sequences, and elements of an input
// and of a state.
type RecurrentSizes struct{ Seq, Batch, Input, Hidden int }

// RecurrentSizesOf reads the sizes from the shapes of X, W and R; hidden is the attribute
// hidden_size, or 0.
func RecurrentSizesOf(c *executor.Ctx, batchFirst bool, hidden int) (s RecurrentSizes, err error) {
	x, w, r := c.In(0), c.In(1), c.In(2)
	if x.Rank() != 3 || w.Rank() != 3 || r.Rank() != 3 {
		return s, c.Errorf("inputs 0 to 2 are %v, %v and %v, wanted rank 3", x, w, r)
	}
	s = RecurrentSizes{x.Shape[0], x.Shape[1], x.Shape[2], r.Shape[2]}
	if batchFirst {
		s.Seq, s.Batch = s.Batch, s.Seq
	}
	if hidden != 0 && hidden != s.Hidden {
		return s, c.Errorf("attribute hidden_size is %d; input 2 is %v", hidden, r)
	}
	return s, nil
}

// rnnOut makes output i, which may not be wanted or may not exist.
func rnnOut[T chunkFloat](c *executor.Ctx, i int, shape []int) []T {
	if t := c.Out(i, shape...); t != nil {
		return executor.Of[T](t)
	}
	return nil
}

// operands checks the inputs.
func (k *rnnKernel[T]) operands(c *executor.Ctx) error {
	s, err := RecurrentSizesOf(c, k.batchFirst, k.hiddenAttr)
	if err != nil {
		return err
	}
	k.seq, k.batch, k.input, k.hidden = s.Seq, s.Batch, s.Input, s.Hidden
	d, rows := len(k.directions), k.gates*k.hidden
	state := [3]int{d, k.batch, k.hidden}
	if k.batchFirst {
		state[0], state[1] = k.batch, d
	}
	k.x = executor.Of[T](c.In(0))
	k.w = rnnIn[T](c, 1, &err, d, rows, k.input)
	k.r = rnnIn[T](c, 2, &err, d, rows, k.hidden)
	k.bias = rnnIn[T](c, 3, &err, d, 2*rows)
	k.h0 = rnnIn[T](c, 5, &err, state[:]...)
	k.c0 = rnnIn[T](c, 6, &err, state[:]...)
	k.peepholes = rnnIn[T](c, 7, &err, d, 3*k.hidden)
	if err != nil {
		return err
	}
	return k.lengths(c)
}

// rnnIn returns the elements of an input, or nil if it is left out or empty. The first wrong shape
// goes to err.
func rnnIn[T chunkFloat](c *executor.Ctx, i int, err *error, shape ...int) []T {
	t := c.In(i)
	if t == nil {
		return nil
	}
	if !sameDims(t.Shape, shape) && *err == nil {
		*err = rnnShapeError(c, i, t, shape)
	}
	return executor.Of[T](t)
}

// rnnShapeError keeps the shape that an error message needs off the heap of runs without one.
func rnnShapeError(c *executor.Ctx, i int, t *executor.Tensor, shape []int) error {
	return c.Errorf("input %d is %v, wanted shape %v", i, t, append([]int(nil), shape...))
}

// lengths reads sequence_lens.
func (k *rnnKernel[T]) lengths(c *executor.Ctx) error {
	t := c.In(4)
	if k.lens = nil; t == nil {
		return nil
	}
	if t.Rank() != 1 || t.Shape[0] != k.batch {
		return c.Errorf("input 4, the sequences' lengths, is %v, wanted shape [%d]", t, k.batch)
	}
	k.lens = executor.Of[int32](t)
	for i, n := range k.lens {
		if n < 0 || int(n) > k.seq {
			return c.Errorf("input 4: sequence %d has length %d, wanted 0 to %d", i, n, k.seq)
		}
	}
	return nil
}
