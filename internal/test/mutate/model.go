package mutate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Operator names an operator that nodes may be turned into.
type Operator struct{ Domain, Name string }

// Models mutates ONNX models.
type Models struct {
	// Operators replace those of nodes, besides those that the model has.
	Operators []Operator
	// Donors are encoded models whose parts are put into others.
	Donors [][]byte
}

// Mutate makes a mutant of an encoded model and returns the changes, a line for each gene.
func (o *Models) Mutate(model, genome []byte) ([]byte, []string) {
	return o.mutate("ModelProto", model, genome)
}

// MutateTensor makes a mutant of an encoded TensorProto.
func (o *Models) MutateTensor(tensor, genome []byte) ([]byte, []string) {
	return o.mutate("TensorProto", tensor, genome)
}

func (o *Models) mutate(typ string, data, genome []byte) ([]byte, []string) {
	s := &state{models: o, root: decode(messages[typ], data, 0)}
	var did []string
	var noise []*rand.Rand
	for _, rng := range genes(genome) {
		if one(rng, 40) {
			noise = append(noise, rng)
			continue
		}
		if s.root.size() > largest {
			did = append(did, "nothing: the mutant is large enough")
			continue
		}
		s.rng = rng
		did = append(did, s.step())
	}
	out := s.root.encode()
	for _, rng := range noise { // after all others, which want messages
		var what string
		out, what = flipBytes(rng, out)
		did = append(did, what)
	}
	return out, did
}

// state is a model being mutated.
type state struct {
	models *Models
	root   *message
	rng    *rand.Rand

	sites  map[string][]site // by key of the field
	keys   []string          // of sites, sorted
	graphs []*message        // all graphs and function bodies
}

// site is where a field stands.
type site struct {
	in     *message
	f      *field
	graphs []*message // those that enclose it, the innermost last
}

// index lists the sites again.
func (s *state) index() {
	s.sites, s.keys, s.graphs = map[string][]site{}, nil, nil
	var walk func(m *message, graphs []*message)
	walk = func(m *message, graphs []*message) {
		if m.typ.name == "GraphProto" || m.typ.name == "FunctionProto" {
			graphs = append(graphs[:len(graphs):len(graphs)], m)
			s.graphs = append(s.graphs, m)
		}
		for _, f := range m.fields {
			if f.info != nil && f.is(f.info.key) {
				s.sites[f.info.key] = append(s.sites[f.info.key], site{m, f, graphs})
			}
			if f.msg != nil {
				walk(f.msg, graphs)
			}
		}
	}
	walk(s.root, nil)
	for key := range s.sites {
		s.keys = append(s.keys, key)
	}
	slices.Sort(s.keys)
}

// any returns a site of one of the keys.
func (s *state) any(keys ...string) (site, bool) {
	n := 0
	for _, key := range keys {
		n += len(s.sites[key])
	}
	if n == 0 {
		return site{}, false
	}
	at := s.rng.IntN(n)
	for _, key := range keys {
		if at < len(s.sites[key]) {
			return s.sites[key][at], true
		}
		at -= len(s.sites[key])
	}
	panic("unreachable")
}

// where returns a site of a key that meets a condition.
func (s *state) where(want func(*fieldInfo) bool) (site, bool) {
	var keys []string
	for _, key := range s.keys {
		if want(fields[key]) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return site{}, false
	}
	return s.any(pick(s.rng, keys))
}

// delete removes a field from its message.
func (x site) delete() { x.in.fields = slices.Delete(x.in.fields, x.at(), x.at()+1) }

// insert puts a field after this one.
func (x site) insert(f *field) { x.in.fields = slices.Insert(x.in.fields, x.at()+1, f) }

func (x site) at() int { return slices.Index(x.in.fields, x.f) }

// String names a site for people.
func (x site) String() string {
	text := x.f.info.key
	if name := x.in.text("name"); name != "" {
		text += fmt.Sprintf(" of %.40q", name)
	} else if name := x.in.text("op_type"); name != "" {
		text += fmt.Sprintf(" of a %.40q", name)
	}
	return text
}

// operation is one kind of mutation. It returns its change, for example "without the last operand",
// or "" if the model has no place for it.
type operation struct {
	weight int
	run    func(*state) string
}

// operations are all kinds; most of them contradict the operators' rules.
var operations = []operation{
	{6, (*state).element}, {3, (*state).number}, {1, (*state).float}, {2, (*state).name},
	{6, (*state).input}, {3, (*state).output}, {3, (*state).graphOutput}, {2, (*state).graphInput},
	{5, (*state).operator},
	{5, (*state).elementType}, {5, (*state).shape}, {3, (*state).form}, {4, (*state).payload}, {2, (*state).contents},
	{2, (*state).external},
	{5, (*state).attribute}, {4, (*state).newAttribute}, {4, (*state).node}, {2, (*state).nest}, {2, (*state).control},
	{2, (*state).splice},
	{2, (*state).opset}, {1, (*state).function}, {2, (*state).order}, {1, (*state).symbol},
}

var weights = func() (n int) {
	for _, o := range operations {
		n += o.weight
	}
	return n
}()

// tries is the number of other kinds of mutation that are drawn if the model has no place for one.
const tries = 20

// step makes one mutation.
func (s *state) step() string {
	s.index()
	for range tries {
		at := s.rng.IntN(weights)
		for _, o := range operations {
			if at -= o.weight; at < 0 {
				if what := o.run(s); what != "" {
					return what
				}
				break
			}
		}
	}
	return "nothing: the model has too little"
}

// HasLoss gives the first float output of a model's graph a mean that is a scalar output of its
// own, so that commands that need a loss have one. A model without a float output stays as it is.
func HasLoss(model []byte) []byte {
	root := decode(messages["ModelProto"], model, 0)
	graph := root.get("graph")
	if graph == nil {
		return model
	}
	g := graph.msg
	for _, f := range g.all("output") {
		if name := f.msg.text("name"); isFloat(f.msg) {
			n := g.add("node").msg
			n.addText("input", name)
			n.addText("output", "loss of the sample")
			n.addText("op_type", "ReduceSum")
			a := n.add("attribute").msg
			a.addText("name", "keepdims")
			a.addNum("i", 0)
			a.addNum("type", 2)
			out := g.add("output").msg
			out.addText("name", "loss of the sample")
			t := out.add("type").msg.add("tensor_type").msg
			t.addNum("elem_type", 1)
			t.add("shape")
			return root.encode()
		}
	}
	return model
}

// isFloat reports whether a declaration is one of a float32 tensor.
func isFloat(decl *message) bool {
	typ := decl.get("type")
	if typ == nil {
		return false
	}
	t := typ.msg.get("tensor_type")
	return t != nil && t.msg.get("elem_type") != nil && t.msg.get("elem_type").num == 1
}

// Symbols lists the symbols in the dims of a model's graph inputs, in their order.
func Symbols(model []byte) []string {
	root := decode(messages["ModelProto"], model, 0)
	g := root.get("graph")
	if g == nil {
		return nil
	}
	var list []string
	s := &state{root: &message{typ: g.msg.typ, fields: g.msg.all("input")}}
	s.index()
	for _, x := range s.sites["Dimension.dim_param"] {
		if name := string(x.f.data); name != "" && !strings.ContainsAny(name, ",=") && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
