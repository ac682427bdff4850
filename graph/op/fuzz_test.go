package op_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// FuzzInfer builds graphs of every operator from the fuzzer's bytes, with operands and
// attributes that rarely fit, and demands of inference an error or a result, and of a result
// that contents fill their shapes.
func FuzzInfer(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		seed := make([]byte, 300)
		for i := range seed {
			seed[i] = byte(rnd.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) { inferHostile(t, data) })
}

// TestHostileNodes runs every operator many times on operands that rarely fit.
func TestHostileNodes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, 400)
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		for range 60 {
			for i := range data {
				data[i] = byte(rnd.Uint32())
			}
			binary.LittleEndian.PutUint16(data, uint16(k))
			inferHostile(t, data)
		}
	}
}

func inferHostile(t *testing.T, data []byte) {
	c := &chooser{data: data}
	m := c.model()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("panic: %v\n%s", r, describe(m))
			panic(r)
		}
	}()
	res, err := op.Infer(m)
	if err != nil {
		return
	}
	op.FLOPs(m.Graph, m.Opsets, res)
	for i := range m.Graph.Values {
		v := &m.Graph.Values[i]
		elems, ok := res.Contents(graph.ValueID(i))
		n, known := v.Type.Shape.Elements().Const()
		if ok && known && int64(len(elems)) != n && len(res.Conflicts) == 0 {
			t.Errorf("value %q has type %v and %d elements\n%s", v.Name, v.Type, len(elems), describe(m))
		}
	}
}

// describe prints the nodes and types of a small model.
func describe(m *graph.Model) string {
	s := fmt.Sprintf("opset %d\n", m.OpsetVersion(""))
	for _, n := range m.Graph.Nodes {
		s += n.Op + "("
		for _, id := range n.Inputs {
			if id == graph.NoValue {
				s += "_, "
				continue
			}
			v := &m.Graph.Values[id]
			s += fmt.Sprintf("%s %v, ", v.Name, v.Type)
		}
		s += fmt.Sprintf(") %d outputs", len(n.Outputs))
		for _, a := range n.Attrs {
			s += fmt.Sprintf(" %s=%v", a.Name, a.Value)
		}
		s += "\n"
	}
	return s
}

// chooser turns bytes into choices; after the last byte all of them are 0.
type chooser struct {
	data []byte
	b    builder
	ids  []graph.ValueID
}

func (c *chooser) n(below int) int {
	if len(c.data) == 0 {
		return 0
	}
	x := int(c.data[0])
	c.data = c.data[1:]
	return x % below
}

// model starts with a kind of two bytes and then has up to four nodes.
func (c *chooser) model() *graph.Model {
	first := op.Unknown + 1
	if len(c.data) >= 2 {
		first = graph.Kind(binary.LittleEndian.Uint16(c.data)%uint16(op.NumKinds-1)) + 1
		c.data = c.data[2:]
	}
	c.b = builder{g: graph.New("hostile", nil)}
	opset := int64(7 + c.n(20))
	for i := range 6 {
		c.value(i)
	}
	c.node(first)
	for range c.n(4) {
		c.node(graph.Kind(1 + (c.n(256)*256+c.n(256))%int(op.NumKinds-1)))
	}
	return &graph.Model{
		Graph: c.b.g, Opsets: []graph.Opset{{Version: opset}, {Domain: "com.microsoft", Version: 1},
			{Domain: "org.pytorch.aten", Version: 1}},
	}
}

// value adds a graph input or a constant.
func (c *chooser) value(i int) {
	name := fmt.Sprintf("in%d", i)
	switch c.n(3) {
	case 0:
		elems := make([]int64, c.n(6))
		for k := range elems {
			elems[k] = c.int()
		}
		dims := []int64{int64(len(elems))}
		if len(elems) == 1 && c.n(2) == 0 {
			dims = nil
		}
		if len(elems) == 4 && c.n(2) == 0 {
			dims = []int64{2, 2}
		}
		id, err := c.b.g.AddInitializer(graph.Int64Tensor(name, dims, elems...))
		if err != nil {
			panic(err)
		}
		c.ids = append(c.ids, id)
	default:
		id := c.b.g.Value(name)
		if err := c.b.g.AddInput(graph.Decl{Value: id, Type: c.typ()}); err != nil {
			panic(err)
		}
		c.ids = append(c.ids, id)
	}
}

func (c *chooser) typ() graph.Type {
	types := []graph.DType{graph.Float32, graph.Float32, graph.Float16, graph.Int64, graph.Int32, graph.Bool,
		graph.Uint8, graph.String, graph.Undefined}
	t := graph.Tensor(types[c.n(len(types))], graph.Shape{})
	if c.n(8) != 0 {
		dims := make([]symbolic.Expr, c.n(6))
		for i := range dims {
			dims[i] = c.dim()
		}
		t.Shape = graph.Dims(dims...)
	}
	switch c.n(16) {
	case 0:
		return graph.Type{}
	case 1:
		return graph.Type{Form: graph.FormSequence, Elem: &t}
	case 2:
		return graph.Type{Form: graph.FormOptional, Elem: &t}
	case 3:
		return graph.Type{Form: graph.FormSequence}
	}
	return t
}

func (c *chooser) dim() symbolic.Expr {
	switch c.n(12) {
	case 0:
		return symbolic.Unknown()
	case 1:
		return symbolic.Const(0)
	case 2:
		return symbolic.Const(math.MaxInt64)
	case 3:
		return symbolic.Const(-1)
	case 4, 5:
		return symbolic.Sym(string(rune('A' + c.n(3))))
	case 6:
		return symbolic.Sym("A").Add(symbolic.Const(-2))
	}
	return symbolic.Const(int64(1 + c.n(4)))
}

func (c *chooser) int() int64 {
	list := []int64{0, 1, -1, 2, 3, -2, 4, math.MaxInt64, math.MinInt64, math.MaxInt32, 1 << 40, 7, 1 << 31}
	return list[c.n(len(list))]
}

// attrNames are the attributes that rules read.
var attrNames = []string{"axis", "axes", "keepdims", "to", "perm", "shape", "value", "dtype", "blocksize",
	"starts", "ends", "split", "num_outputs", "equation", "mode", "pads", "start", "end", "allowzero", "batch_dims",
	"transA", "transB", "k", "scales", "keep_aspect_ratio_policy", "sample_size", "fmod", "noop_with_empty_axes",
	"kernel_shape", "strides", "dilations", "group", "auto_pad", "ceil_mode", "output_shape", "hidden_size",
	"direction",
	"layout", "num_heads", "q_num_heads", "kv_num_heads", "reduction", "size", "block_size", "value_ints",
	"num_scan_inputs",
	"ratio", "seed", "output_padding", "output_height", "output_width", "pooled_shape", "num_groups", "epsilon",
	"stash_type"}

func (c *chooser) attr() graph.Attr {
	a := graph.Attr{Name: attrNames[c.n(len(attrNames))]}
	switch c.n(9) {
	case 0, 1, 2:
		a.Value = c.int()
	case 3, 4:
		list := make([]int64, c.n(5))
		for i := range list {
			list[i] = c.int()
		}
		a.Value = list
	case 5:
		texts := []string{"", "ij,jk->ik", "...i->i...", "ij", "none", "not_larger", "SAME_UPPER", "VALID",
			"bidirectional", "a->,", "float"}
		a.Value = texts[c.n(len(texts))]
	case 6:
		a.Value = []float32{float32(c.int()), float32(math.NaN())}[:c.n(3)]
	case 7:
		a.Value = graph.Int64Tensor("", []int64{1}, c.int())
	case 8:
		a.Value = float32(c.n(5)) / 2
	}
	return a
}

// node adds an operator with operands and attributes at random.
func (c *chooser) node(k graph.Kind) {
	row := op.Of(k)
	pick := func(a op.Arity, limit int) int {
		most := a.Max
		if most < 0 || most > a.Min+3 {
			most = a.Min + 3
		}
		return min(a.Min+c.n(most-a.Min+1), limit)
	}
	n := &graph.Node{Op: row.Name, Domain: row.Domain}
	for range pick(row.Inputs, 12) {
		if c.n(10) == 0 {
			n.Inputs = append(n.Inputs, graph.NoValue)
		} else {
			n.Inputs = append(n.Inputs, c.ids[c.n(len(c.ids))])
		}
	}
	for range c.n(4) {
		if a := c.attr(); n.Attr(a.Name) == nil {
			n.Attrs = append(n.Attrs, a)
		}
	}
	for i := range pick(row.Outputs, 12) {
		id := c.b.g.Value(fmt.Sprintf("out%d_%d", len(c.b.g.Nodes), i))
		n.Outputs = append(n.Outputs, id)
		c.ids = append(c.ids, id)
	}
	if err := c.b.g.AddNode(n); err != nil {
		panic(err)
	}
}
