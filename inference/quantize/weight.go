package quantize

import (
	"encoding/binary"
	"math"

	"memopt/graph"
	"memopt/inference/edit"
)

// weight is a quantized weight in the graph.
type weight struct {
	name   string
	scales []float32 // one, or one for each channel
	// Values of the graph: the integers as the file's weight has them and with the two axes swapped
	// (NoValue until needed), the scales, and the zero points. Those of int8 are 0, and written all
	// the same: without them, ONNX Runtime may read int8 as uint8.
	straight, swapped graph.ValueID
	scale, zero       graph.ValueID
}

// perChannel reports whether the weight has more scales than one.
func (w *weight) perChannel() bool { return len(w.scales) != 1 }

// limits is the range of the integers.
func (q *quantizer) limits() (low, high float32) {
	switch {
	case q.o.Signed && q.o.ReduceRange:
		return -64, 64
	case q.o.Signed:
		return -127, 127
	case q.o.ReduceRange:
		return 0, 127
	}
	return 0, 255
}

// smallestScale is the smallest scale that loses no bits: weights below it are zeros.
const smallestScale = 0x1p-126

// scaleOf is the scale and the zero point of numbers between two bounds.
func (q *quantizer) scaleOf(least, greatest float32) (scale, zero float32) {
	low, high := q.limits()
	least, greatest = min(least, 0), max(greatest, 0)
	if q.o.Signed {
		greatest = max(-least, greatest)
		least = -greatest
	}
	scale = float32((float64(greatest) - float64(least)) / float64(high-low))
	if scale < smallestScale {
		return 1, 0
	}
	if !q.o.Signed {
		zero = float32(math.RoundToEven(float64(low - least/scale)))
	}
	return scale, zero
}

// integer is the number that stands for x.
func (q *quantizer) integer(x, scale, zero float32) int32 {
	low, high := q.limits()
	return int32(min(max(float32(math.RoundToEven(float64(x/scale)))+zero, low), high))
}

// channelAxis is the axis along which all uses of a weight can have scales of their own, or -1.
func (q *quantizer) channelAxis(t *graph.TensorData, uses []use) int {
	if !q.o.PerChannel || len(t.Dims) != 2 {
		return -1
	}
	axis := -1
	for _, u := range uses {
		own := 1 - q.summed(u)
		if u.role.rows {
			if own = 0; u.node.Int("axis", 0) != 0 && u.node.Int("axis", 0) != -2 {
				return -1
			}
		}
		if axis >= 0 && own != axis {
			return -1
		}
		axis = own
	}
	return axis
}

// quantize replaces a weight and the nodes that read it.
func (q *quantizer) quantize(v graph.ValueID, uses []use) error {
	t := q.G.Values[v].Data
	elems, err := edit.Floats(t)
	if err != nil {
		return err
	}
	w := &weight{name: q.G.ValueName(v), straight: graph.NoValue, swapped: graph.NoValue, zero: graph.NoValue}
	axis := q.channelAxis(t, uses)
	x := q.integers(t, elems, axis)
	w.scales = x.scales
	swap := true // all want the axes swapped: then that is how the file has them
	for _, u := range uses {
		swap = swap && u.transposed && !u.role.rows
	}
	if err := q.store(w, x, t.Dims, swap); err != nil {
		return err
	}
	report := Weight{Name: w.name, Dims: t.Dims, PerChannel: axis >= 0, Bytes: 4 * int64(len(elems)),
		Quantized: int64(len(elems) + 4*len(x.scales) + len(x.zeros)), MaxError: x.maxError, MaxAbs: x.maxAbs}
	for _, u := range uses {
		report.Nodes = append(report.Nodes, q.G.NodeLabel(u.node.ID))
		if err := u.role.write(q, u, w); err != nil {
			return err
		}
	}
	q.r.Weights = append(q.r.Weights, report)
	return nil
}

// integers are the contents of a quantized weight.
type integers struct {
	bytes            []byte
	scales           []float32
	zeros            []byte
	maxError, maxAbs float64
}

// integers quantizes elements, with a scale for each index of an axis, or one for all.
func (q *quantizer) integers(t *graph.TensorData, elems []float32, axis int) *integers {
	channels, inner := 1, 1
	if axis >= 0 {
		channels = int(t.Dims[axis])
		for _, d := range t.Dims[axis+1:] {
			inner *= int(d)
		}
	}
	least, greatest := make([]float32, channels), make([]float32, channels)
	for i, x := range elems {
		c := i / inner % channels
		least[c], greatest[c] = min(least[c], x), max(greatest[c], x)
	}
	out := &integers{bytes: make([]byte, len(elems)), scales: make([]float32, channels)}
	zeros := make([]float32, channels)
	for c := range channels {
		out.scales[c], zeros[c] = q.scaleOf(least[c], greatest[c])
		out.maxAbs = max(out.maxAbs, float64(greatest[c]), -float64(least[c]))
	}
	for i, x := range elems {
		c := i / inner % channels
		n := q.integer(x, out.scales[c], zeros[c])
		out.bytes[i] = byte(n)
		out.maxError = max(out.maxError, math.Abs(float64(x)-float64(out.scales[c])*float64(n-int32(zeros[c]))))
	}
	for _, z := range zeros {
		out.zeros = append(out.zeros, byte(z))
	}
	return out
}

// store adds the integers, scales and zero points of a weight to the graph.
func (q *quantizer) store(w *weight, x *integers, dims []int64, swap bool) error {
	d := graph.Uint8
	if q.o.Signed {
		d = graph.Int8
	}
	data, at := x.bytes, &w.straight
	if swap {
		data, at, dims = swapped(data, dims), &w.swapped, []int64{dims[1], dims[0]}
	}
	var channels []int64
	if w.perChannel() {
		channels = []int64{int64(len(x.scales))}
	}
	var err error
	add := func(suffix string, d graph.DType, dims []int64, raw []byte) graph.ValueID {
		if err != nil {
			return graph.NoValue
		}
		var v graph.ValueID
		v, err = q.Constant(&graph.TensorData{Name: w.name + suffix, DType: d, Dims: dims, Source: graph.Raw(raw)},
			graph.NoValue)
		return v
	}
	*at = add("_quantized", d, dims, data)
	w.scale = add("_scale", graph.Float32, channels, floatBytes(x.scales))
	w.zero = add("_zero_point", d, channels, x.zeros)
	return err
}

// swapped swaps the axes of a matrix.
func swapped(data []byte, dims []int64) []byte {
	rows, cols := int(dims[0]), int(dims[1])
	out := make([]byte, len(data))
	for i := range rows {
		for k := range cols {
			out[k*rows+i] = data[i*cols+k]
		}
	}
	return out
}

// floatBytes are floats as a file has them.
func floatBytes(list []float32) []byte {
	raw := make([]byte, 0, 4*len(list))
	for _, x := range list {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return raw
}
