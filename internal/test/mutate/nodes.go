package mutate

import (
	"fmt"
	"slices"
	"strings"
)

// names lists the names of values in graphs.
func (s *state) names(graphs []*message) []string {
	var list []string
	for _, g := range graphs {
		for _, f := range g.fields {
			switch {
			case f.is("GraphProto.input") || f.is("GraphProto.initializer"):
				list = append(list, f.msg.text("name"))
			case f.is("FunctionProto.input"):
				list = append(list, string(f.data))
			case f.is("GraphProto.node") || f.is("FunctionProto.node"):
				list = append(list, f.msg.texts("output")...)
			}
		}
	}
	return slices.DeleteFunc(list, func(name string) bool { return name == "" })
}

// value returns the name of a value: one of the graphs around a site, one of any graph, or one
// without a value.
func (s *state) value(x site) string {
	graphs := x.graphs
	if one(s.rng, 8) {
		graphs = s.graphs
	}
	names := s.names(graphs)
	if len(names) == 0 || one(s.rng, 20) {
		return "a value that nothing makes"
	}
	return pick(s.rng, names)
}

// input empties an operand of a node, lets it read another value, or gives the node more or fewer
// operands.
func (s *state) input() string {
	x, ok := s.any("NodeProto.input")
	if !ok || x.f.msg != nil {
		return ""
	}
	old := string(x.f.data)
	switch s.rng.IntN(8) {
	case 0, 1, 2:
		x.f.data = nil
		return fmt.Sprintf("%v: empty in place of %.40q", x, old)
	case 3:
		name := s.value(x)
		x.in.addText("input", name)
		return fmt.Sprintf("%v: an operand more, %.40q", x, name)
	case 4:
		list := x.in.all("input")
		last := list[len(list)-1]
		x.in.fields = slices.DeleteFunc(x.in.fields, func(f *field) bool { return f == last })
		return fmt.Sprintf("%v: without the last operand", x)
	}
	x.f.data = []byte(s.value(x))
	return fmt.Sprintf("%v: %.40q in place of %.40q", x, x.f.data, old)
}

// output does the same to the outputs of a node.
func (s *state) output() string {
	x, ok := s.any("NodeProto.output")
	if !ok || x.f.msg != nil {
		return ""
	}
	old := string(x.f.data)
	switch s.rng.IntN(6) {
	case 0:
		x.f.data = nil
		return fmt.Sprintf("%v: empty in place of %.40q", x, old)
	case 1:
		x.in.addText("output", old+" too")
		return fmt.Sprintf("%v: a result more", x)
	case 2:
		x.in.addText("output", "")
		x.in.addText("output", old+" too")
		return fmt.Sprintf("%v: an empty result and another", x)
	case 3:
		x.delete()
		return fmt.Sprintf("%v: left out", x)
	}
	x.f.data = []byte(s.value(x))
	return fmt.Sprintf("%v: %.40q in place of %.40q", x, x.f.data, old)
}

// graphOutput lets a graph return another value, or one more.
func (s *state) graphOutput() string {
	if len(s.graphs) == 0 {
		return ""
	}
	x, ok := s.any("GraphProto.output", "FunctionProto.output")
	if !ok {
		return ""
	}
	name := s.value(x)
	if x.f.msg == nil {
		x.f.data = []byte(name)
		return fmt.Sprintf("%v: %.40q", x, name)
	}
	old := x.f.msg.text("name")
	if one(s.rng, 3) {
		f := x.f.clone()
		if one(s.rng, 2) {
			f.msg.drop("type")
		}
		f.msg.only("name").data = []byte(name)
		x.insert(f)
		return fmt.Sprintf("%v: %.40q is an output, too", x, name)
	}
	x.f.msg.only("name").data = []byte(name)
	return fmt.Sprintf("%v: %.40q in place of %.40q", x, name, old)
}

// graphInput declares a value that is made elsewhere, or an initializer, an input, or takes a
// declaration away.
func (s *state) graphInput() string {
	x, ok := s.any("GraphProto.input")
	if !ok {
		return ""
	}
	if one(s.rng, 3) {
		x.delete()
		return fmt.Sprintf("%v: %.40q left out", x, x.f.msg.text("name"))
	}
	f := x.f.clone()
	name := s.value(x)
	f.msg.only("name").data = []byte(name)
	x.insert(f)
	return fmt.Sprintf("%v: %.40q is an input, too", x, name)
}

// someOperator returns an operator for a node.
func (s *state) someOperator() Operator {
	if len(s.models.Operators) > 0 && !one(s.rng, 4) {
		return pick(s.rng, s.models.Operators)
	}
	x, ok := s.any("GraphProto.node", "FunctionProto.node")
	if !ok {
		return Operator{"", "Identity"}
	}
	return Operator{x.f.msg.text("domain"), x.f.msg.text("op_type")}
}

// operator turns a node into one of another operator.
func (s *state) operator() string {
	x, ok := s.any("NodeProto.op_type")
	if !ok {
		return ""
	}
	old, to := string(x.f.data), s.someOperator()
	s.setOperator(x.in, to)
	return fmt.Sprintf("%v: %s.%s in place of %.40s", x, to.Domain, to.Name, old)
}

func (s *state) setOperator(n *message, to Operator) {
	n.only("op_type").data = []byte(to.Name)
	n.drop("domain")
	if to.Domain != "" {
		n.addText("domain", to.Domain)
	}
}

// node puts a new node between a value and one of its readers.
func (s *state) node() string {
	x, ok := s.any("NodeProto.input")
	if !ok || len(x.graphs) == 0 {
		return ""
	}
	g := x.graphs[len(x.graphs)-1]
	before := slices.IndexFunc(g.fields, func(f *field) bool { return f.msg == x.in })
	if before < 0 {
		return ""
	}
	to, name := s.someOperator(), fmt.Sprintf("value %d of the mutant", s.rng.IntN(1000))
	n := &message{typ: messages["NodeProto"]}
	n.addText("input", string(x.f.data))
	for range s.rng.IntN(3) {
		n.addText("input", s.value(x))
	}
	n.addText("output", name)
	s.setOperator(n, to)
	info := g.typ.fields[1]
	if g.typ.name == "FunctionProto" {
		info = g.typ.fields[7]
	}
	g.fields = slices.Insert(g.fields, before, &field{info: info, id: info.num, wire: info.wire, msg: n})
	if one(s.rng, 4) {
		n.only("output").data = slices.Clone(x.f.data)
		return fmt.Sprintf("%v: %s.%s makes the same value", x, to.Domain, to.Name)
	}
	x.f.data = []byte(name)
	return fmt.Sprintf("%v: %s.%s before it", x, to.Domain, to.Name)
}

// nest makes a copy of a graph the subgraph of a node, once or to many levels.
func (s *state) nest() string {
	x, ok := s.any("GraphProto.node")
	if !ok {
		return ""
	}
	g := pick(s.rng, x.graphs)
	depth := 1
	if one(s.rng, 4) {
		depth = 2 + s.rng.IntN(30)
	}
	name := pick(s.rng, []string{"body", "then_branch", "else_branch", "other"})
	for range depth {
		if (&message{typ: g.typ, fields: g.fields}).size() > largest/8 {
			return "nothing: the graph is too large to nest"
		}
		c := g.clone()
		a := x.f.msg.add("attribute").msg
		a.addText("name", name)
		a.add("g").msg = c
		a.addNum("type", 5)
	}
	return fmt.Sprintf("%v: has a copy of %.40q as %s, %d times", x, g.text("name"), name, depth)
}

// control turns a node into an If, a Loop or a Scan, with the subgraphs that these need, and
// sometimes with ones that do not fit.
func (s *state) control() string {
	x, ok := s.any("GraphProto.node")
	if !ok {
		return ""
	}
	n := x.f.msg
	ins, outs := n.texts("input"), n.texts("output")
	kind := pick(s.rng, []string{"If", "Loop", "Scan", "SequenceMap"})
	names := map[string][]string{"If": {"then_branch", "else_branch"}, "Loop": {"body"}, "Scan": {"body"},
		"SequenceMap": {"body"}}[kind]
	inner := n.clone()
	n.drop("attribute")
	s.setOperator(n, Operator{"", kind})
	for _, name := range names {
		g := &message{typ: messages["GraphProto"]}
		g.addText("name", name)
		given := len(ins)
		if kind == "If" {
			given = 0
		}
		for i := range given {
			in := g.add("input").msg
			in.addText("name", fmt.Sprintf("%s %d", strings.TrimSpace(name), i))
		}
		body := inner.clone()
		for i, f := range body.all("input") {
			if i < given && one(s.rng, 2) {
				f.data = fmt.Appendf(nil, "%s %d", name, i)
			}
		}
		for i, f := range body.all("output") {
			f.data = fmt.Appendf(nil, "%s out %d", name, i)
		}
		g.add("node").msg = body
		if kind == "Loop" {
			g.add("output").msg.addText("name", pick(s.rng, append([]string{name + " 1"}, body.texts("output")...)))
		}
		for i := range outs {
			g.add("output").msg.addText("name", fmt.Sprintf("%s out %d", name, i))
		}
		a := n.add("attribute").msg
		a.addText("name", name)
		a.add("g").msg = g
		a.addNum("type", 5)
	}
	if kind == "Scan" {
		a := n.add("attribute").msg
		a.addText("name", "num_scan_inputs")
		a.addNum("i", int64(s.rng.IntN(len(ins)+2)))
		a.addNum("type", 2)
	}
	if kind != "SequenceMap" && one(s.rng, 2) {
		n.drop("input")
		for i := range len(ins) + s.rng.IntN(3) {
			if i < 2 && one(s.rng, 2) {
				n.addText("input", "")
				continue
			}
			n.addText("input", s.value(x))
		}
	}
	return fmt.Sprintf("%v: a %s around it", x, kind)
}

// function turns nodes into calls of model-local functions: of one that is made from a node, of
// itself, of another.
func (s *state) function() string {
	x, ok := s.any("GraphProto.node", "FunctionProto.node")
	if !ok {
		return ""
	}
	n := x.f.msg
	if y, ok := s.any("ModelProto.functions"); ok && one(s.rng, 2) {
		s.setOperator(n, Operator{y.f.msg.text("domain"), y.f.msg.text("name")})
		return fmt.Sprintf("%v: calls the function %.40q", x, y.f.msg.text("name"))
	}
	if s.root.typ.name != "ModelProto" {
		return ""
	}
	inner := n.clone()
	name := fmt.Sprintf("Function%d", s.rng.IntN(100))
	f := s.root.add("functions").msg
	f.addText("name", name)
	f.addText("domain", "mutant")
	for i, in := range inner.all("input") {
		in.data = fmt.Appendf(nil, "in %d", i)
		f.addText("input", string(in.data))
	}
	for i, out := range inner.all("output") {
		out.data = fmt.Appendf(nil, "out %d", i)
		f.addText("output", string(out.data))
	}
	f.add("node").msg = inner
	for _, o := range s.root.all("opset_import") {
		f.add("opset_import").msg = o.msg.clone()
	}
	if one(s.rng, 4) {
		s.setOperator(inner, Operator{"mutant", name})
	}
	if one(s.rng, 3) {
		for _, a := range inner.all("attribute") {
			a.msg.addText("ref_attr_name", a.msg.text("name"))
			f.addText("attribute", a.msg.text("name"))
		}
	}
	s.setOperator(n, Operator{"mutant", name})
	o := s.root.add("opset_import").msg
	o.addText("domain", "mutant")
	o.addNum("version", 1)
	return fmt.Sprintf("%v: a call of a function that has it as its body", x)
}
