package autograd

import (
	"encoding/binary"

	"memopt/executor/half"
	"memopt/graph"
	"memopt/graph/op"
)

// mathScale returns v * x; v itself for 1.
func (e *emitter) mathScale(v Value, x float64) Value {
	if x == 1 {
		return v
	}
	return e.Mul(v, e.Scalar(x, v))
}

// mathShift returns v + x; v itself for 0.
func (e *emitter) mathShift(v Value, x float64) Value {
	if x == 0 {
		return v
	}
	return e.Add(v, e.Scalar(x, v))
}

// mathFromOne returns 1 - v.
func (e *emitter) mathFromOne(v Value) Value { return e.Sub(e.Scalar(1, v), v) }

// mathOf emits an operator with one input and no attributes.
func (e *emitter) mathOf(name string, v Value) Value { return e.Op(name, nil, v) }

// mathAbove returns v > x.
func (e *emitter) mathAbove(v Value, x float64) Value {
	return e.Op("Greater", nil, v, e.Scalar(x, v))
}

// mathBelow returns v < x.
func (e *emitter) mathBelow(v Value, x float64) Value {
	return e.Op("Less", nil, v, e.Scalar(x, v))
}

// mathEqual returns a == b. Before operator set 11 Equal compares no floats.
func (e *emitter) mathEqual(a, b Value) Value {
	if e.j.opset() >= 11 {
		return e.Op("Equal", nil, a, b)
	}
	differ := e.Op("Or", nil, e.Op("Less", nil, a, b), e.Op("Greater", nil, a, b))
	return e.mathOf("Not", differ)
}

// mathWhere returns a where cond holds, else b. Before operator set 9 there is no such operator.
func (e *emitter) mathWhere(cond, a, b Value) Value {
	e.need(9)
	return e.Where(cond, a, b)
}

// mathIf returns v where cond holds, else 0.
func (e *emitter) mathIf(cond, v Value) Value { return e.mathWhere(cond, v, e.Scalar(0, v)) }

// mathUnless returns 0 where cond holds, else v.
func (e *emitter) mathUnless(cond, v Value) Value { return e.mathWhere(cond, e.Scalar(0, v), v) }

// mathSign returns the sign of v. Before operator set 9 there is no such operator.
func (e *emitter) mathSign(v Value) Value {
	e.need(9)
	return e.mathOf("Sign", v)
}

// mathConstant returns the number that a value of one element holds in every run. It looks through
// casts to floats.
func (e *emitter) mathConstant(v Value) (x float64, ok bool) {
	for {
		val := &e.j.g.Values[v]
		if val.IsConstant() {
			return mathOneElement(val.Data)
		}
		if val.Def == graph.NoNode {
			return 0, false
		}
		n := e.j.g.Nodes[val.Def]
		switch info := opInfo(n); {
		case info.Has(op.ConstantRole) && n.Attr("value_float") != nil:
			return float64(n.Float("value_float", 0)), true
		case info.Has(op.ConstantRole) && n.Attr("value_int") != nil:
			return float64(n.Int("value_int", 0)), true
		case info.Has(op.ConstantRole):
			return mathOneElement(n.TensorAttr("value"))
		case info.Has(op.IdentityRole), info.Has(op.CastRole) && val.Type.DType.IsFloat():
			v = n.Input(0)
		default:
			return 0, false
		}
	}
}

// mathOneElement reads a tensor of one element.
func mathOneElement(t *graph.TensorData) (x float64, ok bool) {
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
