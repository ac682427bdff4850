package autograd

import (
	"errors"

	"memopt/graph"
	"memopt/graph/op"
)

// Changes of Upsample and Resize.

// upsampleToResize: Resize repeats Upsample.
func upsampleToResize(x *conversion) (string, error) {
	x.rename("Resize")
	x.grows[x.n] = true
	return "replaced by Resize", nil
}

// resizeModes: before 11 places were scaled without a shift, and the nearest neighbour was that
// below when growing, and above when shrinking.
func resizeModes(x *conversion) (string, error) {
	scales := x.n.Input(1)
	nearest := "floor"
	if x.n.Str("mode", "nearest") == "nearest" {
		shrinks, err := x.shrinks(scales)
		if err != nil {
			return "", err
		}
		if shrinks {
			nearest = "ceil"
		}
		x.n.SetAttr("nearest_mode", nearest)
	}
	x.n.SetAttr("coordinate_transformation_mode", "asymmetric")
	roi, err := x.constant(&graph.TensorData{DType: graph.Float32, Dims: []int64{0}, Source: graph.Raw{}})
	x.set(1, roi)
	x.set(2, scales)
	return "asymmetric coordinates are stated", err
}

// shrinks reports whether scales are 1 or less, and fails where that is unknown or only so for
// some. The scales of an Upsample are 1 or more by definition.
func (x *conversion) shrinks(scales Value) (bool, error) {
	t := x.data(scales)
	if t == nil && x.grows[x.n] {
		return false, nil
	}
	if t == nil {
		return false, errors.New("its scales are not known before the run, and with them not which neighbour is the " +
			"nearest")
	}
	list, err := t.Float64s()
	if err != nil {
		return false, err
	}
	up, down := false, false
	for _, s := range list {
		up, down = up || s > 1, down || s < 1
	}
	if up && down {
		return false, errors.New("some of its axes grow and some shrink: that has no nearest_mode")
	}
	return down, nil
}

// data returns the contents of a constant, of this graph or one around it, or nil. The default of
// an input counts: older files list every initializer as an input.
func (x *conversion) data(v Value) *graph.TensorData {
	g := x.g
	for v != None {
		value := &g.Values[v]
		switch {
		case value.Data != nil:
			return value.Data
		case value.Outer != None:
			g, v = g.Outer, value.Outer
		case value.Def != graph.NoNode && op.Of(g.Nodes[value.Def].Kind).Has(op.ConstantRole):
			return g.Nodes[value.Def].TensorAttr("value")
		default:
			return nil
		}
	}
	return nil
}

// resizeModeGone: the coordinates tf_half_pixel_for_nn, which 13 does not have, are those of
// half_pixel plus half a pixel; rounding differently has the same effect.
func resizeModeGone(x *conversion) (string, error) {
	if x.n.Str("coordinate_transformation_mode", "half_pixel") != "tf_half_pixel_for_nn" {
		return "", nil
	}
	shifted := map[string]string{"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
	nearest, ok := shifted[x.n.Str("nearest_mode", "round_prefer_floor")]
	if !ok || x.n.Str("mode", "nearest") != "nearest" {
		return "", errors.New("coordinates tf_half_pixel_for_nn are gone since operator set 13")
	}
	x.n.SetAttr("coordinate_transformation_mode", "half_pixel")
	x.n.SetAttr("nearest_mode", nearest)
	return "coordinates tf_half_pixel_for_nn are expressed by half_pixel", nil
}
