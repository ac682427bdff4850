package ort

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// kernels computes the memory that ONNX Runtime's kernels need besides their operands.
type kernels struct {
	g     *graph.Graph
	opset int64
	env   symbolic.Env
}

// workspaces returns, by node, the blocks that the kernel holds at once.
func (k *kernels) workspaces() [][]int64 {
	out := make([][]int64, len(k.g.Nodes))
	for i, n := range k.g.Nodes {
		for _, bytes := range k.workspace(n) {
			if bytes > 0 {
				out[i] = append(out[i], bytes)
			}
		}
	}
	return out
}

func (k *kernels) workspace(n *graph.Node) []int64 {
	if f := table[n.Kind].workspace; f != nil {
		return f(k, n)
	}
	return nil
}

// where keeps the values chosen from either side until they are combined.
func (k *kernels) where(n *graph.Node) []int64 {
	cond := k.dims(n.Input(0))
	size := k.elementBytes(n.Output(0))
	return []int64{
		size * elements(broadcast(cond, k.dims(n.Input(1)))),
		size * elements(broadcast(cond, k.dims(n.Input(2)))),
	}
}

// softmax along an axis other than the last works on two transposed copies.
func (k *kernels) softmax(n *graph.Node) []int64 {
	x := k.dims(n.Input(0))
	axis := n.Int("axis", -1)
	if k.opset < 13 || axis == -1 || axis == int64(len(x))-1 {
		return nil
	}
	copied := k.bytes(n.Output(0))
	return []int64{copied, copied}
}

// crossEntropy runs as its function body: the logarithmic softmax of the scores along an axis other
// than the last, on two transposed copies, and, unless it is an output, its result. If the scores
// have no later reader, the result is written over them.
func (k *kernels) crossEntropy(n *graph.Node) []int64 {
	copies := 3
	if n.Output(1) != graph.NoValue {
		copies = 2
	}
	return slices.Repeat([]int64{k.bytes(n.Input(0))}, copies)
}

// likelihood runs as its function body, too, with two copies of the targets.
func (k *kernels) likelihood(n *graph.Node) []int64 {
	return slices.Repeat([]int64{k.bytes(n.Input(1))}, 2)
}

// product is that of a function body that adds it to something.
func (k *kernels) product(n *graph.Node) []int64 { return []int64{k.bytes(n.Output(0))} }

// normGrad has the normalized input and three products of the gradient as arrays of their own (LayerNormGrad in
// orttraining/training_ops/cpu/nn/layer_norm.cc).
func (k *kernels) normGrad(n *graph.Node) []int64 {
	return slices.Repeat([]int64{k.bytes(n.Input(0))}, 4)
}

// conv spreads one image out if it has more filters than places to put them; otherwise a fixed
// buffer serves.
func (k *kernels) conv(n *graph.Node) []int64 {
	w, y := k.dims(n.Input(1)), k.dims(n.Output(0))
	if len(w) < 3 || len(y) != len(w) {
		return nil
	}
	patch, places := elements(w[1:]), elements(y[2:])
	if patch == w[1] || w[0]/max(n.Int("group", 1), 1) <= places {
		return nil
	}
	return []int64{patch * places * k.elementBytes(n.Output(0))}
}

// convTranspose multiplies into patches before it adds them up, one image at a time.
func (k *kernels) convTranspose(n *graph.Node) []int64 {
	x, w := k.dims(n.Input(0)), k.dims(n.Input(1))
	if len(w) < 3 || len(x) != len(w) {
		return nil
	}
	return []int64{elements(w[1:]) * elements(x[2:]) * k.elementBytes(n.Output(0))}
}

func (k *kernels) gru(n *graph.Node) []int64  { return k.recurrent(n, 3) }
func (k *kernels) lstm(n *graph.Node) []int64 { return k.recurrent(n, 4) }

// recurrent keeps the gates of all steps, and states of one step: as many as were measured for GRU.
func (k *kernels) recurrent(n *graph.Node, gates int64) []int64 {
	x, r := k.dims(n.Input(0)), k.dims(n.Input(2))
	if len(x) != 3 || len(r) != 3 {
		return nil
	}
	const states = 7
	step := r[0] * r[2] * x[1] * k.elementBytes(n.Input(0))
	return append(slices.Repeat([]int64{step}, states), gates*x[0]*step)
}

// loop keeps the scan outputs of the iterations, each in a buffer, until all are joined after the
// last one (LoopImpl::SaveOutputsAndUpdateFeeds and ConcatenateLoopOutput in loop.cc). Buffers
// start at multiples of 256 bytes.
func (k *kernels) loop(n *graph.Node) []int64 {
	const unit = 256
	var held []int64
	for i := max(len(n.Inputs)-2, 0); i < len(n.Outputs); i++ {
		rows := k.dims(n.Output(i))
		if len(rows) == 0 || rows[0] <= 0 {
			continue
		}
		row := (k.bytes(n.Output(i))/rows[0] + unit - 1) / unit * unit
		held = append(held, rows[0]*row)
	}
	return held
}

// dims evaluates a value's shape; nil where it is unknown.
func (k *kernels) dims(v graph.ValueID) []int64 {
	if v == graph.NoValue || !k.g.Values[v].Type.Shape.Known() {
		return nil
	}
	out := make([]int64, 0, 4)
	for _, d := range k.g.Values[v].Type.Shape.Dims {
		n, err := d.Eval(k.env)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

func (k *kernels) bytes(v graph.ValueID) int64 { return elements(k.dims(v)) * k.elementBytes(v) }

func (k *kernels) elementBytes(v graph.ValueID) int64 {
	if v == graph.NoValue {
		return 0
	}
	return int64(k.g.Values[v].Type.DType.Bits()+7) / 8
}

func elements(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

// broadcast returns the shape of two operands together.
func broadcast(a, b []int64) []int64 {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := append([]int64(nil), a...)
	for i, d := range b {
		at := len(a) - len(b) + i
		if out[at] == 1 {
			out[at] = d
		}
	}
	return out
}
