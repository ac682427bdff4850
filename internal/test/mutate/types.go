package mutate

import (
	"fmt"
	"math"
)

// dataTypes are the numbers of ONNX's element types, and some numbers that are not.
const dataTypes = 30

// elementType changes the element type of a tensor or of a declaration.
func (s *state) elementType() string {
	x, ok := s.any("TensorType.elem_type", "TensorProto.data_type", "MapType.key_type")
	if !ok {
		return ""
	}
	old := x.f.num
	x.f.num = uint64(s.rng.IntN(dataTypes))
	if one(s.rng, 3) {
		x.f.num = []uint64{1, 6, 7, 9, 10, 11}[s.rng.IntN(6)]
	}
	return fmt.Sprintf("%v: %d in place of %d", x, int64(x.f.num), old)
}

// shape changes a declared shape: a dim, the rank, or whether there is one.
func (s *state) shape() string {
	x, ok := s.any("TensorType.shape")
	if !ok {
		return ""
	}
	shape := x.f.msg
	list := shape.all("dim")
	switch s.rng.IntN(6) {
	case 0:
		x.delete()
		return fmt.Sprintf("%v: left out", x)
	case 1:
		d := shape.add("dim").msg
		return fmt.Sprintf("%v: a dim more, %s", x, s.setDim(d))
	case 2:
		if len(list) == 0 {
			return ""
		}
		site{in: shape, f: pick(s.rng, list)}.delete()
		return fmt.Sprintf("%v: a dim less", x)
	case 3:
		shape.fields = nil
		return fmt.Sprintf("%v: a scalar", x)
	}
	if len(list) == 0 {
		return ""
	}
	d := pick(s.rng, list)
	return fmt.Sprintf("%v: %s", x, s.setDim(d.msg))
}

// form makes a declaration that of a sequence, an optional, a map or a sparse tensor, or leaves its
// type out. A declaration without a type gets one.
func (s *state) form() string {
	x, ok := s.any("GraphProto.input", "GraphProto.output", "GraphProto.value_info", "FunctionProto.value_info")
	if !ok {
		return ""
	}
	decl := x.f.msg
	if one(s.rng, 4) { // a type for a value without one
		y := x.f.clone()
		y.info, y.id = fields["GraphProto.value_info"], fields["GraphProto.value_info"].num
		name := s.value(x)
		y.msg.only("name").data = []byte(name)
		if x.in.typ.name == "GraphProto" {
			x.in.fields = append(x.in.fields, y)
			return fmt.Sprintf("%v: %.40q is declared as it is", x, name)
		}
	}
	typ := decl.get("type")
	if typ == nil || one(s.rng, 5) {
		decl.drop("type")
		return fmt.Sprintf("%v: %.40q has no type", x, decl.text("name"))
	}
	kind := pick(s.rng, []string{"sequence_type", "optional_type", "map_type", "sparse_tensor_type", "opaque_type"})
	outer := &message{typ: messages["TypeProto"]}
	inner := outer.add(kind).msg
	switch kind {
	case "map_type":
		inner.addNum("key_type", int64(s.rng.IntN(dataTypes)))
		inner.add("value_type").msg = typ.msg
	case "sparse_tensor_type":
		inner.addNum("elem_type", 1)
	case "sequence_type", "optional_type":
		if !one(s.rng, 4) {
			inner.add("elem_type").msg = typ.msg
		}
	}
	typ.msg = outer
	return fmt.Sprintf("%v: %.40q is a %s", x, decl.text("name"), kind)
}

// attributeForms are the fields of an attribute's value with the number of its type.
var attributeForms = []struct {
	field string
	typ   int64
}{{"f", 1}, {"i", 2}, {"s", 3}, {"t", 4}, {"g", 5}, {"floats", 6}, {"ints", 7}, {"strings", 8}, {"tensors", 9},
	{"sparse_tensor", 11}, {"tp", 13}}

// attribute changes the value of an attribute, its type, or its name.
func (s *state) attribute() string {
	x, ok := s.any("NodeProto.attribute")
	if !ok {
		return ""
	}
	a := x.f.msg
	name := a.text("name")
	switch s.rng.IntN(7) {
	case 0:
		x.delete()
		return fmt.Sprintf("%v: %.40q left out", x, name)
	case 1:
		a.only("type").num = uint64(s.rng.IntN(16))
		return fmt.Sprintf("%v: %.40q says it has type %d", x, name, a.get("type").num)
	case 2:
		y, ok := s.any("AttributeProto.name")
		if !ok {
			return ""
		}
		a.only("name").data = append([]byte(nil), y.f.data...)
		return fmt.Sprintf("%v: %.40q is called %.40q", x, name, y.f.data)
	case 3:
		return fmt.Sprintf("%v: %.40q %s", x, name, s.setAttribute(a))
	}
	if ints := a.all("ints"); len(ints) > 0 {
		f := pick(s.rng, ints)
		switch s.rng.IntN(4) {
		case 0:
			a.addNum("ints", whole(s.rng, 1))
			return fmt.Sprintf("%v: %.40q has a number more", x, name)
		case 1:
			site{in: a, f: f}.delete()
			return fmt.Sprintf("%v: %.40q has a number less", x, name)
		}
		f.num = uint64(whole(s.rng, int64(f.num)))
		return fmt.Sprintf("%v: %.40q has %d", x, name, int64(f.num))
	}
	if f := a.get("i"); f != nil {
		f.num = uint64(whole(s.rng, int64(f.num)))
		return fmt.Sprintf("%v: %.40q is %d", x, name, int64(f.num))
	}
	if f := a.get("s"); f != nil {
		f.data = []byte(s.attributeText())
		return fmt.Sprintf("%v: %.40q is %.40q", x, name, f.data)
	}
	return fmt.Sprintf("%v: %.40q %s", x, name, s.setAttribute(a))
}

// attributeText returns a text that some attribute may have.
func (s *state) attributeText() string {
	if y, ok := s.any("AttributeProto.s"); ok && one(s.rng, 3) {
		return string(y.f.data)
	}
	return pick(s.rng, []string{"", "SAME_UPPER", "VALID", "NOTSET", "reverse", "bidirectional", "sum", "mean", "none",
		"i->", "ij,jk->ik", "...ij->...ji", "ii->i", ",->", "a,b", "linear", "cubic", "edge", "reflect", "wrap", "tanh",
		"exact", "DCR", "\xff"})
}

// setAttribute gives an attribute a value of any form.
func (s *state) setAttribute(a *message) string {
	name := a.get("name")
	a.fields = nil
	if name != nil {
		a.fields = append(a.fields, name)
	}
	form := pick(s.rng, attributeForms)
	a.addNum("type", form.typ)
	switch form.field {
	case "i":
		a.addNum("i", whole(s.rng, 1))
	case "ints":
		for range s.rng.IntN(6) {
			a.addNum("ints", whole(s.rng, 1))
		}
	case "f", "floats":
		a.add(form.field).num = uint64(math.Float32bits(float32(pick(s.rng, floats))))
	case "s", "strings":
		a.addText(form.field, s.attributeText())
	case "t", "tensors":
		if y, ok := s.tensor(); ok && !one(s.rng, 4) {
			a.add(form.field).msg = y.f.msg.clone()
		} else {
			a.add(form.field)
		}
	default:
		a.add(form.field)
	}
	return "is of the form " + form.field
}

// attributeNames are those that rules and kernels read; a node seldom has the ones that its
// operator does not know.
var attributeNames = []string{"axis", "axes", "keepdims", "to", "perm", "shape", "value", "value_ints", "value_float",
	"dtype", "blocksize", "starts", "ends", "split", "num_outputs", "equation", "mode", "pads",
	"allowzero", "batch_dims", "transA", "transB", "alpha", "beta", "k", "keep_aspect_ratio_policy",
	"noop_with_empty_axes", "kernel_shape", "strides", "dilations", "group", "auto_pad", "ceil_mode",
	"output_shape", "output_padding", "hidden_size", "direction", "layout", "num_heads", "q_num_heads", "kv_num_heads",
	"reduction", "ignore_index", "epsilon", "momentum", "training_mode", "seed", "ratio",
	"count_include_pad", "storage_order", "body", "then_branch", "else_branch", "num_scan_inputs", "scan_input_axes",
	"scan_input_directions", "exclusive", "reverse", "largest", "sorted", "stash_type", "num_groups",
	"is_causal", "scale", "linear_before_reset", "activations", "clip", "select_last_index", "fmod", "upper",
	"time_axis", "p", "min", "max"}

// newAttribute gives a node one more attribute.
func (s *state) newAttribute() string {
	x, ok := s.any("NodeProto.op_type")
	if !ok {
		return ""
	}
	name := pick(s.rng, attributeNames)
	a := x.in.add("attribute").msg
	a.addText("name", name)
	return fmt.Sprintf("%v: has %s, which %s", x, name, s.setAttribute(a))
}
