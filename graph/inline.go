package graph

import (
	"fmt"
	"slices"
)

// maxInlined is the number of nodes up to which functions are inlined. Functions
// that call functions twice each grow exponentially with their depth.
const maxInlined = 2_000_000

// InlineFunctions replaces every call of a model-local function, in subgraphs too, by the
// function's body. Inner nodes and values are named "<call>/<inner name>". Attributes that the body
// takes from its function become the call's, or the function's defaults, or are left out. The operator sets of the
// functions join the model's; a domain that both import in different versions
// and that the body uses is an error. A model without calls is left as it is.
func InlineFunctions(m *Model) (changed bool, err error) {
	in := &inliner{m: m, functions: map[functionKey]*Function{}, sizes: map[*Function]int{}}
	for _, f := range m.Functions {
		in.functions[keyOf(f.Domain, f.Name, f.Overload)] = f
	}
	if !in.calls(m.Graph) {
		return false, nil
	}
	if err := CheckFunctions(m); err != nil {
		return false, err
	}
	if n := in.size(m.Graph); n > maxInlined {
		return false, fmt.Errorf("the model-local functions expand to more than %d nodes", maxInlined)
	}
	if err := in.graph(m.Graph); err != nil {
		return false, err
	}
	m.Functions = nil
	return true, nil
}

type inliner struct {
	m         *Model
	functions map[functionKey]*Function
	sizes     map[*Function]int // nodes of a function once it is inlined
}

func (in *inliner) callee(n *Node) *Function {
	return in.functions[keyOf(n.Domain, n.Op, n.Overload)]
}

// calls reports whether a graph or its subgraphs call a function.
func (in *inliner) calls(g *Graph) bool {
	for _, n := range g.Nodes {
		found := in.callee(n) != nil
		n.Subgraphs(func(_ string, sub *Graph) { found = found || in.calls(sub) })
		if found {
			return true
		}
	}
	return false
}

// size counts the nodes of a graph and its subgraphs after inlining, up to maxInlined + 1. Functions that
// call themselves count as 0, CheckFunctions reports them.
func (in *inliner) size(g *Graph) int {
	total := len(g.Nodes)
	for _, n := range g.Nodes {
		if f := in.callee(n); f != nil {
			if _, known := in.sizes[f]; !known {
				in.sizes[f] = 0
				in.sizes[f] = in.size(f.Body)
			}
			total += in.sizes[f]
		}
		n.Subgraphs(func(_ string, sub *Graph) { total += in.size(sub) })
		total = min(total, maxInlined+1)
	}
	return total
}

// graph inlines the calls in a graph and its subgraphs.
func (in *inliner) graph(g *Graph) error {
	nodes := make([]*Node, 0, len(g.Nodes))
	// Bodies are put in front of what is still to do: they may hold calls themselves.
	todo := slices.Clone(g.Nodes)
	slices.Reverse(todo)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if f := in.callee(n); f != nil {
			body, err := in.expand(g, n, f)
			if err != nil {
				return err
			}
			slices.Reverse(body)
			todo = append(todo, body...)
			continue
		}
		var err error
		n.Subgraphs(func(_ string, sub *Graph) {
			if err == nil {
				err = in.graph(sub)
			}
		})
		if err != nil {
			return err
		}
		if n.HasSubgraphs() {
			clearWire(n)
		}
		nodes = append(nodes, n)
	}
	g.SetNodes(nodes)
	return g.Seal()
}

// clearWire drops the encoded form of subgraphs, which may have changed.
func clearWire(n *Node) {
	for i := range n.Attrs {
		switch n.Attrs[i].Value.(type) {
		case *Graph, []*Graph:
			n.Attrs[i].Wire = nil
		}
	}
}

// expansion is one call that becomes nodes of a graph.
type expansion struct {
	g      *Graph
	call   *Node
	f      *Function
	prefix string
	ids    []ValueID // by value of the body: the value of g that stands for it
}

func (in *inliner) expand(g *Graph, call *Node, f *Function) ([]*Node, error) {
	label := call.Name
	if label == "" {
		label = g.ValueName(call.Output(0))
	}
	if len(call.Inputs) > len(f.Inputs) || len(call.Outputs) > len(f.Outputs) {
		return nil, fmt.Errorf("node %q calls function %q with %d inputs and %d outputs, it has %d and %d",
			label, f.Name, len(call.Inputs), len(call.Outputs), len(f.Inputs), len(f.Outputs))
	}
	if err := in.importOpsets(f, label); err != nil {
		return nil, err
	}
	body := f.Body.Clone(nil)
	x := &expansion{g: g, call: call, f: f, prefix: label + "/", ids: make([]ValueID, len(body.Values))}
	nodes := x.bindValues(body)
	for _, n := range body.Nodes {
		nodes = append(nodes, x.node(n))
	}
	return nodes, nil
}

// importOpsets adds a function's operator sets to the model's.
func (in *inliner) importOpsets(f *Function, label string) error {
	for _, o := range f.Opsets {
		have := OpsetVersion(in.m.Opsets, o.Domain)
		switch {
		case have == 0:
			in.m.Opsets = append(in.m.Opsets, Opset{Domain: o.Domain, Version: o.Version})
		case have != o.Version && usesDomain(f.Body, CanonicalDomain(o.Domain)):
			return fmt.Errorf("node %q: function %q is written for version %d of operator set %q, the model imports version %d",
				label, f.Name, o.Version, o.Domain, have)
		}
	}
	return nil
}

func usesDomain(g *Graph, domain string) bool {
	for _, n := range g.Nodes {
		used := CanonicalDomain(n.Domain) == domain
		n.Subgraphs(func(_ string, sub *Graph) { used = used || usesDomain(sub, domain) })
		if used {
			return true
		}
	}
	return false
}

// bindValues finds the values of g that stand for those of the body. It returns Identity nodes for outputs
// that are inputs or that are listed twice.
func (x *expansion) bindValues(body *Graph) []*Node {
	const unbound ValueID = -2
	for i := range x.ids {
		x.ids[i] = unbound
	}
	for i, v := range x.f.Inputs {
		x.ids[v] = x.call.Input(i)
	}
	var copies []*Node
	for i, v := range x.f.Outputs {
		out := x.call.Output(i)
		switch {
		case out == NoValue:
		case x.ids[v] == unbound:
			x.ids[v] = out
		default:
			copies = append(copies, &Node{Name: x.prefix + body.Values[v].Name, Op: "Identity", Inputs: []ValueID{x.ids[v]}, Outputs: []ValueID{out}})
		}
	}
	for i := range x.ids {
		if x.ids[i] == unbound {
			x.ids[i] = x.g.Value(x.freeName(body.Values[i].Name))
		}
	}
	return copies
}

// freeName returns the prefixed name of an inner value, numbered where it is taken.
func (x *expansion) freeName(inner string) string {
	name := x.prefix + inner
	for i := 2; ; i++ {
		if _, taken := x.g.Lookup(name); !taken {
			return name
		}
		name = fmt.Sprintf("%s%s_%d", x.prefix, inner, i)
	}
}

// node turns a node of the cloned body into one of g.
func (x *expansion) node(n *Node) *Node {
	if n.Name != "" {
		n.Name = x.prefix + n.Name
	}
	x.substitute(n)
	for _, list := range [][]ValueID{n.Inputs, n.Outputs} {
		for i, v := range list {
			if v != NoValue {
				list[i] = x.ids[v]
			}
		}
	}
	n.Subgraphs(func(_ string, sub *Graph) { x.subgraph(sub, x.g, x.ids) })
	clearWire(n)
	return n
}

// substitute replaces references to attributes of the function.
func (x *expansion) substitute(n *Node) {
	n.Attrs = slices.DeleteFunc(n.Attrs, func(a Attr) bool { return a.Ref != "" && x.attr(a.Ref) == nil })
	for i := range n.Attrs {
		if ref := n.Attrs[i].Ref; ref != "" {
			n.Attrs[i] = Attr{Name: n.Attrs[i].Name, Value: x.attr(ref).Value}
		}
	}
}

// attr returns the call's attribute, the function's default, or nil.
func (x *expansion) attr(name string) *Attr {
	if a := x.call.Attr(name); a != nil {
		return a
	}
	for i := range x.f.AttrDefaults {
		if x.f.AttrDefaults[i].Name == name {
			return &x.f.AttrDefaults[i]
		}
	}
	return nil
}

// subgraph moves a subgraph of the body into its new surroundings: captured values
// follow their new names, its own values are prefixed, for a name of the caller may be
// among them.
func (x *expansion) subgraph(sub, outer *Graph, ids []ValueID) {
	sub.Outer = outer
	sub.names = make(map[string]ValueID, len(sub.Values))
	for i := range sub.Values {
		v := &sub.Values[i]
		v.Outer = x.follow(v.Outer, ids)
		if v.Outer != NoValue {
			v.Name = outer.ValueName(v.Outer)
		} else {
			v.Name = x.prefix + v.Name
		}
		if v.Data != nil {
			data := *v.Data
			data.Name, data.Wire = v.Name, nil
			v.Data = &data
		}
		sub.names[v.Name] = ValueID(i)
	}
	for _, list := range [][]Decl{sub.Inputs, sub.Outputs, sub.ValueInfo} {
		for i := range list {
			list[i].Wire = nil
		}
	}
	for _, n := range sub.Nodes {
		if n.Name != "" {
			n.Name = x.prefix + n.Name
		}
		x.substitute(n)
		n.Subgraphs(func(_ string, inner *Graph) { x.subgraph(inner, sub, nil) })
		clearWire(n)
	}
}

// follow maps a captured value; ids is nil where the enclosing graph keeps its IDs.
func (x *expansion) follow(v ValueID, ids []ValueID) ValueID {
	if ids == nil || v == NoValue {
		return v
	}
	return ids[v]
}
