package memopt_test

import (
	"fmt"
	"math"
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
	"memopt/symbolic"
)

// specimen is a node to be, with its operands, that can be bent in every way.
type specimen struct {
	label  string
	info   *op.Info
	opset  int64 // of the operator's domain; 0: the newest
	attrs  []graph.Attr
	in     []operand
	out    []graph.Type // as the file states them; FormUnknown: nothing is stated
	absent []bool       // by output: it is left out
}

// operand is an input of a specimen.
type operand struct {
	absent   bool
	constant bool // an initializer, and not an input of the graph
	dtype    graph.DType
	shape    []int
	data     []byte // as much of it as there is; the rest is zeros
	form     graph.Form
}

// specimens are the samples of kernels that are small, as many of each operator as are asked for.
func specimens(each int) []specimen {
	var list []specimen
	count := map[graph.Kind]int{}
	for _, c := range kerneltest.All() {
		if c.Fails != "" || count[c.Kind] >= each || !small(c.In) {
			continue
		}
		count[c.Kind]++
		s := specimen{label: c.Label(), info: op.Of(c.Kind), opset: int64(c.Opset), attrs: c.Attrs}
		for _, t := range c.In {
			if t == nil {
				s.in = append(s.in, operand{absent: true})
				continue
			}
			s.in = append(s.in,
				operand{
					dtype: t.DType, shape: t.Shape, data: t.Data, constant: !t.DType.IsFloat(), form: graph.FormTensor,
				})
		}
		for _, d := range c.Out {
			s.out, s.absent = append(s.out, graph.Type{}), append(s.absent, d == graph.Undefined)
		}
		list = append(list, s)
	}
	return list
}

func small(in []*executor.Tensor) bool {
	bytes := 0
	for _, t := range in {
		if t != nil {
			bytes += len(t.Data)
		}
	}
	return bytes <= 1<<13
}

// clone returns a copy that can be changed.
func (s *specimen) clone(format string, args ...any) *specimen {
	c := *s
	c.label += ": " + fmt.Sprintf(format, args...)
	c.attrs, c.in, c.out, c.absent = slices.Clone(s.attrs), slices.Clone(s.in), slices.Clone(s.out),
		slices.Clone(s.absent)
	return &c
}

// dtypes are the element types that operands are given: of every width, and one that no device has.
var dtypes = []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16, graph.Int64, graph.Int32,
	graph.Int8, graph.Uint8,
	graph.Uint16, graph.Bool, graph.String, graph.Complex64, graph.Int4, graph.Float8E5M2}

// mutants calls f with every way to bend a specimen.
func (s *specimen) mutants(f func(*specimen)) {
	f(s)
	s.counts(f)
	for i := range s.in {
		s.bendInput(i, f)
	}
	for i := range s.out {
		s.bendOutput(i, f)
	}
	s.bendAttrs(f)
	flipped := s.clone("constants and inputs changed places")
	for i := range flipped.in {
		flipped.in[i].constant = !flipped.in[i].constant
	}
	f(flipped)
}

// counts gives the node fewer and more operands.
func (s *specimen) counts(f func(*specimen)) {
	for n := range s.in {
		c := s.clone("%d inputs", n)
		c.in = c.in[:n]
		f(c)
	}
	for _, more := range []int{1, 2, 5} {
		c := s.clone("%d inputs more", more)
		for range more {
			c.in = append(c.in, operand{dtype: graph.Int64, shape: []int{1}, constant: true, form: graph.FormTensor})
		}
		f(c)
		c = s.clone("%d empty inputs more", more)
		for range more {
			c.in = append(c.in, operand{absent: true})
		}
		f(c)
		c = s.clone("%d outputs more", more)
		for range more {
			c.out, c.absent = append(c.out, graph.Type{}), append(c.absent, false)
		}
		f(c)
	}
	for n := range s.out {
		c := s.clone("%d outputs", n)
		c.out, c.absent = c.out[:n], c.absent[:n]
		f(c)
	}
	c := s.clone("no output wanted")
	for i := range c.absent {
		c.absent[i] = true
	}
	f(c)
}

// bendInput leaves an input out, and gives it other types, shapes and contents.
func (s *specimen) bendInput(i int, f func(*specimen)) {
	with := func(format string, bend func(*operand), args ...any) {
		c := s.clone("input %d "+format, append([]any{i}, args...)...)
		bend(&c.in[i])
		f(c)
	}
	with("left out", func(o *operand) { *o = operand{absent: true} })
	if s.in[i].absent {
		with("given", func(o *operand) { *o = operand{dtype: graph.Float32, shape: []int{2}, form: graph.FormTensor} })
		return
	}
	with("of the other kind", func(o *operand) { o.constant = !o.constant })
	for _, d := range dtypes {
		with("is %v", func(o *operand) { o.dtype, o.data = d, nil }, d)
	}
	for _, form := range []graph.Form{graph.FormUnknown, graph.FormSequence, graph.FormOptional} {
		with("has form %v", func(o *operand) { o.form, o.constant = form, false }, form)
	}
	shapes := [][]int{{}, {0}, {1}, {3}, {2, 3}, {1, 1, 1, 1, 1, 1}, append([]int{1}, s.in[i].shape...),
		append([]int{0}, s.in[i].shape...),
		append(slices.Clone(s.in[i].shape), 1), append(slices.Clone(s.in[i].shape), 2)}
	for axis, d := range s.in[i].shape {
		for _, n := range []int{0, 1, d + 1} {
			shape := slices.Clone(s.in[i].shape)
			shape[axis] = n
			shapes = append(shapes, shape)
		}
		shapes = append(shapes, slices.Delete(slices.Clone(s.in[i].shape), axis, axis+1))
	}
	for _, shape := range shapes {
		with("has shape %v", func(o *operand) { o.shape = shape }, shape)
	}
	if s.in[i].dtype == graph.Int64 || s.in[i].dtype == graph.Int32 {
		for _, v := range []int64{-1, 0, 1, 3, -5, 99, 1 << 20, math.MaxInt32, math.MinInt64, math.MaxInt64} {
			with("holds %d", func(o *operand) { o.data = repeated(o.dtype, o.shape, v) }, v)
		}
	}
}

// repeated are the bytes of a tensor of equal integers.
func repeated(d graph.DType, shape []int, v int64) []byte {
	n := 1
	for _, x := range shape {
		n *= x
	}
	var data []byte
	for range n {
		for b := range d.Bits() / 8 {
			data = append(data, byte(v>>(8*b)))
		}
	}
	return data
}

// bendOutput leaves an output out, and has the file state other types.
func (s *specimen) bendOutput(i int, f func(*specimen)) {
	c := s.clone("output %d left out", i)
	c.absent[i] = true
	f(c)
	states := func(t graph.Type) {
		c := s.clone("output %d stated to be %v", i, t)
		c.out[i], c.absent[i] = t, false
		f(c)
	}
	for _, d := range dtypes {
		states(graph.Tensor(d, graph.Shape{}))
	}
	for _, shape := range []graph.Shape{graph.Ints(), graph.Ints(0), graph.Ints(7), graph.Ints(2, 3),
		graph.Ints(1, 1, 1, 1, 1), graph.UnknownDims(3),
		graph.Dims(symbolic.Sym("n"), symbolic.Const(2)), graph.Ints(1 << 40)} {
		states(graph.Tensor(graph.Float32, shape))
		states(graph.Tensor(graph.Int64, shape))
		states(graph.Tensor(graph.Undefined, shape))
	}
	elem := graph.Tensor(graph.Float32, graph.Shape{})
	states(graph.Type{Form: graph.FormSequence, Elem: &elem})
	states(graph.Type{Form: graph.FormOptional, Elem: &elem})
}

// attrValues are what attributes are given: of every kind, and out of every range.
var attrValues = []any{int64(0), int64(1), int64(-1), int64(2), int64(7), int64(99), int64(math.MaxInt64),
	int64(math.MinInt64), int64(1 << 33),
	float32(0), float32(-1), float32(math.NaN()), float32(math.Inf(1)), "", "?", "mean", "linear",
	[]int64{}, []int64{0}, []int64{-1}, []int64{1, 1}, []int64{2, 0, 1}, []int64{1, 1, 1, 1}, []int64{0, 0, 0, 0, 0, 0},
	[]int64{math.MaxInt64, 1}, []int64{-3, math.MinInt64}, []int64{1 << 33, 1 << 33},
	[]float32{}, []float32{0, 0}, []float32{float32(math.NaN()), 1, 1, 1}, []string{"Relu"}, []string{},
	graph.Int64Tensor("", []int64{1}, 3), graph.Float32Tensor("", []int64{0}), graph.Int64Tensor("", nil, 1)}

// bendAttrs takes attributes away, and gives each of the schema other values.
func (s *specimen) bendAttrs(f func(*specimen)) {
	version := s.info.SinceVersion(s.version())
	names := map[string]bool{}
	var list []string
	add := func(name string) {
		if !names[name] {
			names[name], list = true, append(list, name)
		}
	}
	for i, a := range s.attrs {
		add(a.Name)
		c := s.clone("no %s", a.Name)
		c.attrs = slices.Delete(c.attrs, i, i+1)
		f(c)
	}
	for _, a := range s.info.Attrs(version) {
		add(a.Name)
	}
	for _, name := range list {
		for _, v := range attrValues {
			c := s.clone("%s = %T %v", name, v, v)
			c.attrs = slices.DeleteFunc(c.attrs, func(a graph.Attr) bool { return a.Name == name })
			c.attrs = append(c.attrs, graph.Attr{Name: name, Value: v})
			f(c)
		}
	}
}

func (s *specimen) version() int64 {
	if s.opset == 0 {
		return int64(s.info.Since[len(s.info.Since)-1])
	}
	return s.opset
}

// model builds a graph of the node. With a boundary, the float outputs go through a YieldOp and are
// read behind it, as a training graph's stashed activations are.
func (s *specimen) model(boundary bool) (*graph.Model, error) {
	g := graph.New("specimen", nil)
	n := &graph.Node{Name: "bent", Op: s.info.Name, Domain: s.info.Domain, Attrs: slices.Clone(s.attrs)}
	for i := range s.in {
		id, err := s.in[i].add(g, fmt.Sprintf("x%d", i))
		if err != nil {
			return nil, err
		}
		n.Inputs = append(n.Inputs, id)
	}
	for i, t := range s.out {
		id := graph.NoValue
		if !s.absent[i] {
			id = g.Value(fmt.Sprintf("y%d", i))
		}
		n.Outputs = append(n.Outputs, id)
		if id != graph.NoValue && t.Form != graph.FormUnknown && boundary {
			g.ValueInfo = append(g.ValueInfo, graph.Decl{Value: id, Type: t})
		}
	}
	if err := g.AddNode(n); err != nil {
		return nil, err
	}
	if err := s.addOutputs(g, n, boundary); err != nil {
		return nil, err
	}
	if err := g.Seal(); err != nil {
		return nil, err
	}
	m := &graph.Model{
		IRVersion: 8, Graph: g,
		Opsets: []graph.Opset{{Version: 22}, {Domain: "com.microsoft", Version: 1},
			{Domain: "org.pytorch.aten", Version: 1}},
	}
	for i := range m.Opsets {
		if m.Opsets[i].Domain == s.info.Domain && s.info.Domain == "" {
			m.Opsets[i].Version = max(s.version(), 13)
			if s.opset != 0 {
				m.Opsets[i].Version = s.opset
			}
		}
	}
	return m, nil
}

func (s *specimen) addOutputs(g *graph.Graph, n *graph.Node, boundary bool) error {
	for i, id := range n.Outputs {
		if id == graph.NoValue {
			continue
		}
		if !boundary {
			if err := g.AddOutput(graph.Decl{Value: id, Type: s.out[i]}); err != nil {
				return err
			}
			continue
		}
		grad, read := g.Value(fmt.Sprintf("g%d", i)), g.Value(fmt.Sprintf("r%d", i))
		if err := g.AddNode(&graph.Node{Op: "YieldOp", Domain: "com.microsoft", Inputs: []graph.ValueID{id},
			Outputs: []graph.ValueID{grad},
			Attrs:   []graph.Attr{{Name: "full_shape_outputs", Value: []int64{0}}}}); err != nil {
			return err
		}
		if err := g.AddNode(&graph.Node{Op: "Mul", Inputs: []graph.ValueID{id, grad},
			Outputs: []graph.ValueID{read}}); err != nil {
			return err
		}
		if err := g.AddOutput(graph.Decl{Value: read}); err != nil {
			return err
		}
		boundary = false // one YieldOp is enough
	}
	return nil
}

// add makes the operand a value of the graph.
func (o *operand) add(g *graph.Graph, name string) (graph.ValueID, error) {
	if o.absent {
		return graph.NoValue, nil
	}
	dims := make([]int64, len(o.shape))
	for k, d := range o.shape {
		dims[k] = int64(d)
	}
	if o.constant && o.form == graph.FormTensor {
		t := &graph.TensorData{Name: name, DType: o.dtype, Dims: dims, Source: graph.Raw(o.bytes())}
		if o.dtype == graph.String {
			t.Source, t.Strings = nil, make([]string, o.elements())
		}
		return g.AddInitializer(t)
	}
	id := g.Value(name)
	t := graph.Tensor(o.dtype, graph.Ints(dims...))
	switch elem := t; o.form {
	case graph.FormUnknown:
		t = graph.Type{}
	case graph.FormSequence, graph.FormOptional:
		t = graph.Type{Form: o.form, Elem: &elem}
	}
	return id, g.AddInput(graph.Decl{Value: id, Type: t})
}

func (o *operand) elements() int {
	n := 1
	for _, d := range o.shape {
		n *= d
	}
	return n
}

// bytes are the operand's contents: as many as its type has.
func (o *operand) bytes() []byte {
	n := (o.elements()*o.dtype.Bits() + 7) / 8
	room := make([]byte, (n+7)&^7)[:n]
	copy(room, o.data)
	return room
}
