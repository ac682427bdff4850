package mutate

import (
	"fmt"
	"slices"
)

// element leaves out a field, doubles it, swaps it with another, moves it to another message, or
// replaces it by another.
func (s *state) element() string {
	x, ok := s.where(func(*fieldInfo) bool { return true })
	if !ok {
		return ""
	}
	y, _ := s.any(x.f.info.key)
	what := ""
	switch s.rng.IntN(8) {
	case 0, 1, 2:
		what = "left out"
		x.delete()
	case 3, 4:
		what = "doubled"
		x.insert(x.f.clone())
	case 5:
		what = "swapped with another"
		x.in.fields[x.at()], y.in.fields[y.at()] = y.f, x.f
	case 6:
		what = "moved"
		x.delete()
		y.in.fields = append(y.in.fields, x.f)
	case 7:
		what = "replaced by another"
		x.in.fields[x.at()] = y.f.clone()
	}
	return fmt.Sprintf("%v: %s", x, what)
}

// order reverses the order of the elements of a message, or shuffles it.
func (s *state) order() string {
	x, ok := s.any("GraphProto.node", "GraphProto.input", "NodeProto.input", "NodeProto.output", "AttributeProto.ints")
	if !ok {
		return ""
	}
	if one(s.rng, 2) {
		slices.Reverse(x.in.fields)
		return fmt.Sprintf("%v: the message turned around", x)
	}
	s.rng.Shuffle(len(x.in.fields), func(i, j int) { x.in.fields[i], x.in.fields[j] = x.in.fields[j], x.in.fields[i] })
	return fmt.Sprintf("%v: the message shuffled", x)
}

// splice puts an element of a donor among those of its kind.
func (s *state) splice() string {
	if len(s.models.Donors) == 0 {
		return ""
	}
	donor := &state{models: s.models, rng: s.rng, root: decode(messages["ModelProto"], pick(s.rng, s.models.Donors), 0)}
	donor.index()
	x, ok := s.any("GraphProto.node", "GraphProto.initializer", "GraphProto.value_info", "GraphProto.input",
		"GraphProto.output", "NodeProto.attribute", "ModelProto.opset_import", "AttributeProto.t",
		"ValueInfoProto.type")
	if !ok {
		return ""
	}
	y, ok := donor.any(x.f.info.key)
	if !ok {
		return ""
	}
	f := y.f.clone()
	if f.info.key == "GraphProto.node" { // so that it is connected to this graph
		s.adopt(f.msg, x)
	}
	if one(s.rng, 2) {
		x.in.fields[x.at()] = f
		return fmt.Sprintf("%v: one of another model in its place", x)
	}
	x.insert(f)
	return fmt.Sprintf("%v: one of another model behind it", x)
}

// adopt has a node of another model read values that are there.
func (s *state) adopt(n *message, x site) {
	names := s.names(x.graphs)
	for _, f := range n.all("input") {
		if len(names) > 0 && len(f.data) > 0 {
			f.data = []byte(pick(s.rng, names))
		}
	}
}

// opset changes the operator sets that the model imports.
func (s *state) opset() string {
	if s.root.typ.name != "ModelProto" {
		return ""
	}
	switch s.rng.IntN(4) {
	case 0:
		f := s.root.only("ir_version")
		f.num = uint64(whole(s.rng, int64(f.num)))
		return fmt.Sprintf("IR version %d", int64(f.num))
	case 1:
		o := s.root.add("opset_import")
		o.msg.addText("domain", pick(s.rng, []string{"", "ai.onnx", "com.microsoft", "ai.onnx.ml", "custom"}))
		o.msg.addNum("version", whole(s.rng, 17))
		return "an operator set more"
	}
	x, ok := s.any("OperatorSetIdProto.version")
	if !ok {
		return ""
	}
	n := int64(s.rng.IntN(26))
	if one(s.rng, 4) {
		n = whole(s.rng, n)
	}
	x.f.num = uint64(n)
	return fmt.Sprintf("operator set %q: version %d", x.in.text("domain"), n)
}
