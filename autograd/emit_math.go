package autograd

import "memopt/graph/pattern"

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

// mathConstant returns the number that a value of one element holds in every run.
func (e *emitter) mathConstant(v Value) (x float64, ok bool) { return pattern.Number(e.j.g, v) }
