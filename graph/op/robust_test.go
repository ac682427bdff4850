package op

import (
	"fmt"
	"math/rand"
	"testing"

	"memopt/graph"
	"memopt/symbolic"
)

// TestRulesSurviveNonsense gives layers, control flow (with bodies) and ONNX Runtime's operators
// inputs and attributes that mostly make no sense. A rule may object, but must neither panic
// nor give a negative dim; nor may the FLOPs.
func TestRulesSurviveNonsense(t *testing.T) {
	for k := AffineGrid; k < NumKinds; k++ {
		for trial := range 60 {
			seed := int64(k)*1000 + int64(trial)
			rng := rand.New(rand.NewSource(seed))
			m := nonsense(rng, Of(k))
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("op %s, seed %d: %v\n%s", Of(k).Name, seed, p, describe(m))
					}
				}()
				r, err := Infer(m)
				if err != nil {
					return
				}
				checkDims(t, m, seed)
				FLOPs(m.Graph, m.Opsets, r)
			}()
		}
	}
}

func checkDims(t *testing.T, m *graph.Model, seed int64) {
	n := m.Graph.Nodes[len(m.Graph.Nodes)-1]
	for slot, id := range n.Outputs {
		if id == graph.NoValue {
			continue
		}
		for _, d := range m.Graph.Values[id].Type.Shape.Dims {
			if v, ok := d.Const(); ok && v < 0 {
				t.Errorf("op %s, seed %d: output %d is %v\n%s", n.Op, seed, slot, m.Graph.Values[id].Type, describe(m))
			}
		}
	}
}

// nonsense makes a model of one node of a kind.
func nonsense(rng *rand.Rand, info *Info) *graph.Model {
	g := graph.New("g", nil)
	n := &graph.Node{Op: info.Name, Domain: info.Domain}
	count := info.Inputs.Min
	if most := info.Inputs.Max; most < 0 || most > count {
		if most < 0 {
			most = count + 3
		}
		count += rng.Intn(most - count + 1)
	}
	for i := range count {
		n.Inputs = append(n.Inputs, nonsenseInput(rng, g, i))
	}
	outputs := max(1, info.Outputs.Min)
	if info.Outputs.Max > outputs && rng.Intn(2) == 0 {
		outputs = info.Outputs.Max
	}
	for i := range outputs {
		n.Outputs = append(n.Outputs, g.Value(fmt.Sprintf("y%d", i)))
	}
	n.Attrs = nonsenseAttrs(rng, g)
	if err := g.AddNode(n); err != nil {
		panic(err)
	}
	if err := g.Seal(); err != nil {
		panic(err)
	}
	opset := 7 + rng.Int63n(19)
	return &graph.Model{
		Graph: g, Opsets: []graph.Opset{{Version: opset}, {Domain: domainMS, Version: 1},
			{Domain: domainATen, Version: 1}},
	}
}

func nonsenseInput(rng *rand.Rand, g *graph.Graph, i int) graph.ValueID {
	name := fmt.Sprintf("x%d", i)
	switch rng.Intn(12) {
	case 0:
		return graph.NoValue
	case 1, 2, 3:
		elems := make([]int64, rng.Intn(5))
		for j := range elems {
			elems[j] = rng.Int63n(9) - 2
		}
		dims := []int64{int64(len(elems))}
		if len(elems) == 1 && rng.Intn(2) == 0 {
			dims = nil
		}
		id, err := g.AddInitializer(graph.Int64Tensor(name, dims, elems...))
		if err != nil {
			panic(err)
		}
		return id
	}
	id := g.Value(name)
	if err := g.AddInput(graph.Decl{Value: id, Type: nonsenseType(rng)}); err != nil {
		panic(err)
	}
	return id
}

func nonsenseType(rng *rand.Rand) graph.Type {
	dtype := []graph.DType{graph.Float32, graph.Float32, graph.Float32, graph.Float16, graph.Int64, graph.Bool,
		graph.String, graph.Undefined}[rng.Intn(8)]
	t := graph.Tensor(dtype, graph.Shape{})
	if rng.Intn(8) > 0 {
		t.Shape.Ranked = true
		for range rng.Intn(6) {
			t.Shape.Dims = append(t.Shape.Dims, nonsenseDim(rng))
		}
	}
	switch rng.Intn(12) {
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

func nonsenseDim(rng *rand.Rand) symbolic.Expr {
	switch rng.Intn(6) {
	case 0:
		return symbolic.Unknown()
	case 1:
		return symbolic.Sym("n")
	case 2:
		return symbolic.Sym("m")
	}
	return symbolic.Const([]int64{0, 1, 2, 3, 4, 8, 12}[rng.Intn(7)])
}

// nonsenseAttrs sets about a third of all attributes that rules read.
func nonsenseAttrs(rng *rand.Rand, g *graph.Graph) []graph.Attr {
	var attrs []graph.Attr
	add := func(name string, value any) {
		if rng.Intn(3) == 0 {
			attrs = append(attrs, graph.Attr{Name: name, Value: value})
		}
	}
	for _, name := range []string{"axis", "group", "num_heads", "kv_num_heads", "q_num_heads", "to",
		"num_groups", "groups",
		"keepdims", "ceil_mode", "size", "hidden_size", "layout", "batch_dims", "blocksize", "num_outputs",
		"num_scan_inputs",
		"output_height", "output_width", "offset_group", "p", "transA", "transB", "transBatchA", "training_mode",
		"output_dtype",
		"dtype", "k", "start", "end", "new_axis", "noop_with_empty_axes", "stash_type", "output_datatype",
		"fuse_outputs", "output_type",
		"exclusive", "reverse", "block_size", "allowzero", "past_present_share_buffer", "sample_size", "batch_axis",
		"time_axis"} {
		v := rng.Int63n(12) - 2
		if rng.Intn(20) == 0 {
			v = []int64{-1 << 63, 1<<63 - 1, 1 << 40}[rng.Intn(3)]
		}
		add(name, v)
	}
	for _, name := range []string{"kernel_shape", "strides", "pads", "dilations", "axes", "perm", "split",
		"output_padding",
		"output_shape", "pooled_shape", "shape", "scan_input_axes", "scan_output_axes", "directions",
		"scan_input_directions",
		"qkv_hidden_sizes", "output_tensor_types", "output_tensor_ranks", "non_differentiable_outputs",
		"full_shape_outputs",
		"starts", "ends", "repeats", "block_shape"} {
		list := make([]int64, rng.Intn(5))
		for i := range list {
			if list[i] = rng.Int63n(8) - 1; rng.Intn(30) == 0 {
				list[i] = []int64{-1 << 63, 1<<63 - 1, 1 << 40}[rng.Intn(3)]
			}
		}
		add(name, list)
	}
	add("auto_pad", []string{"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "?"}[rng.Intn(5)])
	add("direction", []string{"forward", "bidirectional", "?"}[rng.Intn(3)])
	add("reduction", []string{"none", "mean", "?"}[rng.Intn(3)])
	add("operator", []string{"embedding", "embedding_backward", "?"}[rng.Intn(3)])
	add("equation", []string{"ij,jk->ik", "...i,i->...", "ii->", "->?", "i j , k"}[rng.Intn(5)])
	add("mode", []string{"nearest", "linear", "DCR"}[rng.Intn(3)])
	add("scales", []float32{1, 2, 0, -1}[:rng.Intn(5)])
	add("value", graph.Int64Tensor("v", []int64{1}, rng.Int63n(5)))
	for _, name := range []string{"then_branch", "else_branch", "body"} {
		if rng.Intn(3) > 0 {
			attrs = append(attrs, graph.Attr{Name: name, Value: nonsenseBody(rng, g)})
		}
	}
	return attrs
}

// nonsenseBody makes a subgraph that passes its inputs on.
func nonsenseBody(rng *rand.Rand, outer *graph.Graph) *graph.Graph {
	g := graph.New("body", outer)
	count := rng.Intn(5)
	for i := range count {
		if err := g.AddInput(graph.Decl{Value: g.Value(fmt.Sprintf("i%d", i)), Type: nonsenseType(rng)}); err != nil {
			panic(err)
		}
	}
	for i := range rng.Intn(5) {
		name := fmt.Sprintf("o%d", i)
		n := &graph.Node{
			Op:      []string{"Identity", "Relu", "Unsqueeze", "Transpose"}[rng.Intn(4)],
			Outputs: []graph.ValueID{g.Value(name)},
		}
		if count > 0 {
			n.Inputs = append(n.Inputs, graph.ValueID(rng.Intn(count)))
		}
		if err := g.AddNode(n); err != nil {
			panic(err)
		}
		if err := g.AddOutput(graph.Decl{Value: g.Value(name), Type: nonsenseType(rng)}); err != nil {
			panic(err)
		}
	}
	return g
}

func describe(m *graph.Model) string {
	s := ""
	for _, n := range m.Graph.Nodes {
		s += fmt.Sprintf("%s (opset %d)", n.Op, m.Opsets[0].Version)
		for _, id := range n.Inputs {
			if id == graph.NoValue {
				s += " -"
				continue
			}
			s += fmt.Sprintf(" %v", m.Graph.Values[id].Type)
		}
		for _, a := range n.Attrs {
			if _, sub := a.Value.(*graph.Graph); !sub {
				s += fmt.Sprintf(" %s=%v", a.Name, a.Value)
			}
		}
	}
	return s
}
