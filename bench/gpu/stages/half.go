package stages

import (
	"encoding/binary"
	"fmt"
	"math"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/half"
)

// From operator set halfOpset on, the operators of transformers and of convolutions take bfloat16;
// Where was the last to do so.
const halfOpset = 16

// convertFile writes a forward model with bfloat16 in place of float32: in inputs, weights,
// constants and all values computed from them. Operators may use other types inside:
// normalizations, softmax and losses sum up in float32 and round once.
func convertFile(from, to string) error {
	m, closer, err := onnx.Open(from)
	if err != nil {
		return err
	}
	defer closer.Close()
	if err := toBFloat16(m); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return onnx.WriteFile(to, m, onnx.Options{})
}

// toBFloat16 changes a model in memory. The error names an operator that does not take bfloat16.
func toBFloat16(m *graph.Model) error {
	if err := graph.RunPasses(m, graph.Pass{Name: "inline", Run: op.InlineFunctions}); err != nil {
		return err
	}
	if _, err := op.Infer(m); err != nil { // knows the nodes' operators from then on
		return err
	}
	if m.OpsetVersion("") < halfOpset {
		if _, err := autograd.Convert(m, halfOpset); err != nil {
			return err
		}
	}
	if err := halveGraph(m.Graph); err != nil {
		return err
	}
	_, err := op.Infer(m)
	return err
}

// halveGraph changes the types and contents that a graph and its subgraphs declare.
func halveGraph(g *graph.Graph) error {
	for i := range g.Values {
		v := &g.Values[i]
		halveType(&v.Type)
		if v.SparseData != nil && v.SparseData.Values.DType == graph.Float32 {
			return fmt.Errorf("initializer %q is sparse, and stays float32", v.Name)
		}
		if err := halveTensor(v.Data); err != nil {
			return err
		}
	}
	for _, list := range [][]graph.Decl{g.Inputs, g.Outputs, g.ValueInfo} {
		for i := range list {
			if halveType(&list[i].Type) {
				list[i].Wire = nil
			}
		}
	}
	for _, n := range g.Nodes {
		if err := halveNode(n); err != nil {
			return fmt.Errorf("node %q (%s): %w", g.NodeLabel(n.ID), n.Op, err)
		}
		var err error
		n.Subgraphs(func(_ string, body *graph.Graph) {
			if e := halveGraph(body); err == nil {
				err = e
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// halveType changes a type of float32 and reports whether it was one.
func halveType(t *graph.Type) bool {
	if t.DType != graph.Float32 {
		return false
	}
	t.DType = graph.BFloat16
	return true
}

// halveNode changes the attributes that say which type a node's output has.
func halveNode(n *graph.Node) error {
	switch n.Kind {
	case op.Constant:
		if f := n.Attr("value_float"); f != nil {
			n.Attrs = []graph.Attr{{Name: "value", Value: graph.Float32Tensor("", nil, f.Value.(float32))}}
		}
		if f := n.Attr("value_floats"); f != nil {
			list := f.Value.([]float32)
			n.Attrs = []graph.Attr{{Name: "value", Value: graph.Float32Tensor("", []int64{int64(len(list))}, list...)}}
		}
	case op.ConstantOfShape:
		if n.Attr("value") == nil { // which means one float32 of 0
			n.SetAttr("value", graph.Float32Tensor("", []int64{1}, 0))
		}
	case op.Cast:
		if n.Int("to", 0) == int64(graph.Float32) {
			n.SetAttr("to", int64(graph.BFloat16))
		}
	}
	if n.Int("dtype", 0) == int64(graph.Float32) { // for random operators
		n.SetAttr("dtype", int64(graph.BFloat16))
	}
	t := n.TensorAttr("value")
	if t == nil || t.DType != graph.Float32 {
		return nil
	}
	n.Attr("value").Wire = nil
	return halveTensor(t)
}

// halveTensor rounds a tensor's contents, if they are float32. Finite numbers stay finite: masks
// add the lowest float32, and an infinity in its place would lead to NaN.
func halveTensor(t *graph.TensorData) error {
	if t == nil || t.DType != graph.Float32 {
		return nil
	}
	from, err := t.Float64s()
	if err != nil {
		return err
	}
	raw := make([]byte, 0, 2*len(from))
	for _, f := range from {
		raw = binary.LittleEndian.AppendUint16(raw, uint16(finite(float32(f))))
	}
	t.DType, t.Source, t.External, t.Wire = graph.BFloat16, graph.Raw(raw), nil, nil
	return nil
}

// finite rounds to the nearest number of the type, towards 0 where that would be infinite.
func finite(f float32) half.BFloat16 {
	h := half.BFloat16From(f)
	if math.IsInf(float64(h.Float32()), 0) && !math.IsInf(float64(f), 0) {
		return half.BFloat16From(math.Float32frombits(math.Float32bits(f) &^ 0xffff))
	}
	return h
}
