package remat

// blockGraph is the training graph of a transformer with so many equal layers: 13 forward tasks and
// as many backward tasks by layer.
func blockGraph(layers int) *Graph {
	b := &blockBuilder{g: &Graph{}, grads: map[int32][]int32{}}
	h := b.forward(nil, 1, 4, false, false)
	for range layers {
		norm := b.forward([]int32{h}, 1, 4, true, false)
		q := b.forward([]int32{norm}, 12, 4, true, false)
		k := b.forward([]int32{norm}, 12, 4, true, false)
		v := b.forward([]int32{norm}, 12, 4, true, false)
		scores := b.forward([]int32{q, k}, 6, 8, true, false)
		soft := b.forward([]int32{scores}, 2, 8, false, true)
		mix := b.forward([]int32{soft, v}, 6, 4, true, false)
		proj := b.forward([]int32{mix}, 12, 4, true, false)
		h = b.forward([]int32{h, proj}, 1, 4, false, false)
		norm = b.forward([]int32{h}, 1, 4, true, false)
		wide := b.forward([]int32{norm}, 48, 16, true, false)
		bent := b.forward([]int32{wide}, 2, 16, true, false)
		down := b.forward([]int32{bent}, 48, 4, true, false)
		h = b.forward([]int32{h, down}, 1, 4, false, false)
	}
	return b.backward(h)
}

// blockBuilder builds a forward graph and its backward half.
type blockBuilder struct {
	g     *Graph
	ops   []blockOp
	grads map[int32][]int32 // by forward value: the gradients that its readers give
}

// blockOp is a forward task and what its backward task reads besides the gradient.
type blockOp struct{ reads []int32 }

func (b *blockBuilder) add(task Task, sizes ...int64) int32 {
	for _, size := range sizes {
		task.Makes = append(task.Makes, int32(len(b.g.Values)))
		b.g.Values = append(b.g.Values, Value{Size: size})
	}
	b.g.Tasks = append(b.g.Tasks, task)
	return task.Makes[0]
}

// forward adds a task with one value; its backward task reads its inputs or its output.
func (b *blockBuilder) forward(uses []int32, cost, size int64, inputs, output bool) int32 {
	v := b.add(Task{Cost: cost * 100, Uses: uses}, size*1000)
	var op blockOp
	if inputs {
		op.reads = append(op.reads, uses...)
	}
	if output {
		op.reads = append(op.reads, v)
	}
	b.ops = append(b.ops, op)
	return v
}

// backward adds the backward tasks, last layer first. Each makes a gradient for every input of its
// forward task.
func (b *blockBuilder) backward(loss int32) *Graph {
	b.g.From = int32(len(b.ops))
	b.grads[loss] = []int32{b.add(Task{Cost: 100, Uses: []int32{loss}}, 4000)}
	for t := len(b.ops) - 1; t > 0; t-- {
		forward := &b.g.Tasks[t]
		task := Task{Cost: 2 * forward.Cost}
		task.Uses = append(append(task.Uses, b.ops[t].reads...), b.grads[int32(t)]...)
		var sizes []int64
		for _, u := range forward.Uses {
			sizes = append(sizes, b.g.Values[u].Size)
		}
		if first := b.grads[int32(t)][0]; b.g.Values[first].Size == sizes[0] {
			task.InPlace = []int32{first}
		}
		uses := forward.Uses
		grad := b.add(task, sizes...)
		for i, u := range uses {
			b.grads[u] = append(b.grads[u], grad+int32(i))
		}
	}
	return b.g
}
