package autograd

import "memopt/symbolic"

// shapeVia returns the shape of like as an int64 vector, without reading like if that can be
// avoided: dims that are not numbers are taken from other values that have the same ones. A value
// is then not kept alive for its shape.
func (e *emitter) shapeVia(like Value, others ...Value) Value {
	dims, ok := e.Dims(like)
	if !ok {
		return e.Shape(like)
	}
	shapes := map[Value]Value{}
	parts := make([]Value, len(dims))
	for i, d := range dims {
		if n, ok := d.Const(); ok {
			parts[i] = e.Vector(n)
			continue
		}
		from, axis := e.sameDim(d, int64(i), others)
		if from == None {
			return e.Shape(like)
		}
		if _, have := shapes[from]; !have {
			shapes[from] = e.Shape(from)
		}
		parts[i] = e.Op("Gather", nil, shapes[from], e.Vector(axis))
	}
	return e.joinInts(parts...)
}

// sameDim finds a value with a dim, best in the same place.
func (e *emitter) sameDim(d symbolic.Expr, place int64, others []Value) (Value, int64) {
	found, at := None, int64(0)
	for _, o := range others {
		dims, _ := e.Dims(o)
		for i, have := range dims {
			if d.Equal(have) && (found == None || int64(i) == place) {
				found, at = o, int64(i)
			}
		}
	}
	return found, at
}

// formVia gives v the shape of like. With at most one dim that is not a number, that one is left to
// Reshape; else the shape is found by shapeVia.
func (e *emitter) formVia(v, like Value, others ...Value) Value {
	dims, ok := e.Dims(like)
	if shape, ok2 := inferredShape(dims); ok && ok2 {
		return e.Reshape(v, e.Vector(shape...))
	}
	return e.Reshape(v, e.shapeVia(like, others...))
}
