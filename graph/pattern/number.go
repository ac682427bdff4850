package pattern

import (
	"encoding/binary"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
)

// Number returns the number that a value of one element holds in every run. It looks through casts
// to floats.
func Number(g *graph.Graph, v graph.ValueID) (x float64, ok bool) {
	for {
		val := &g.Values[v]
		if val.IsConstant() {
			return oneElement(val.Data)
		}
		if val.Def == graph.NoNode {
			return 0, false
		}
		n := g.Nodes[val.Def]
		switch info := op.Of(n.Kind); {
		case info.Has(op.ConstantRole) && n.Attr("value_float") != nil:
			return float64(n.Float("value_float", 0)), true
		case info.Has(op.ConstantRole) && n.Attr("value_int") != nil:
			return float64(n.Int("value_int", 0)), true
		case info.Has(op.ConstantRole):
			return oneElement(n.TensorAttr("value"))
		case info.Has(op.IdentityRole), info.Has(op.CastRole) && val.Type.DType.IsFloat():
			v = n.Input(0)
		default:
			return 0, false
		}
	}
}

// oneElement reads a tensor of one element.
func oneElement(t *graph.TensorData) (x float64, ok bool) {
	if t == nil {
		return 0, false
	}
	if n, err := t.Elements(); err != nil || n != 1 {
		return 0, false
	}
	switch d := t.DType; {
	case d == graph.Float32, d == graph.Float64:
		if all, err := t.Float64s(); err == nil {
			return all[0], true
		}
	case d == graph.Float16, d == graph.BFloat16:
		raw, err := t.Source.Bytes()
		if err != nil || len(raw) < 2 {
			return 0, false
		}
		bits := binary.LittleEndian.Uint16(raw)
		if d == graph.Float16 {
			return float64(half.Float16(bits).Float32()), true
		}
		return float64(half.BFloat16(bits).Float32()), true
	case d.IsInteger():
		if all, err := t.Int64s(); err == nil {
			return float64(all[0]), true
		}
	}
	return 0, false
}
