package op

import (
	"fmt"
	"slices"
	"sync"

	"memopt/graph"
)

// defined are the functions that define operators of memopt's own.
var defined = sync.OnceValue(func() []*graph.Function {
	m, err := graph.Parse(definitions, "definitions of operators")
	if err != nil {
		panic(err) // a fault of the program, found by the first test that runs
	}
	return m.Functions
})

// definitionOf returns the function that defines an operator, nil for operators that need no
// definition.
func definitionOf(domain, name string) *graph.Function {
	if domain != DomainMemopt {
		return nil
	}
	i := slices.IndexFunc(defined(), func(f *graph.Function) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return defined()[i]
}

// defines reports whether a function is the definition of an operator of memopt's own: equal but for
// the version of ONNX's operator set, its doc string and its metadata.
func defines(f *graph.Function) bool {
	d := definitionOf(f.Domain, f.Name)
	return d != nil && f.Overload == d.Overload && meaning(f) == meaning(d)
}

// meaning is a function's text without the fields that do not change its results.
func meaning(f *graph.Function) string {
	plain := *f
	plain.Doc, plain.Wire, plain.Opsets = "", nil, nil
	for _, o := range f.Opsets {
		if graph.CanonicalDomain(o.Domain) != "" {
			plain.Opsets = append(plain.Opsets, graph.Opset{Domain: o.Domain, Version: o.Version})
		}
	}
	return graph.Format(&graph.Model{Graph: graph.New("", nil), Functions: []*graph.Function{&plain}},
		graph.FormatOptions{})
}

// DefinedSince returns the version of ONNX's operator set that the definition of an operator of memopt's own needs; 0
// for operators without a definition.
func DefinedSince(k graph.Kind) int64 {
	info := Of(k)
	f := definitionOf(info.Domain, info.Name)
	if f == nil {
		return 0
	}
	return graph.OpsetVersion(f.Opsets, "")
}

// definesFrom is the first version of ONNX's file format that lets a file gain functions and keep its
// meaning: before, initializers had to be inputs.
const definesFrom = 4

// functionsSince is the version of ONNX's file format that came with model-local functions.
const functionsSince = 8

// CanDefine reports whether a model may have operators of memopt's own.
func CanDefine(m *graph.Model) bool { return m.IRVersion >= definesFrom }

// Define adds to a model the definitions of memopt's own operators that its nodes use (MatMulAdd, for example), and the
// imports of these. It returns an error if the model's file format has no place for them.
func Define(m *graph.Model) error {
	list := undefined(m)
	if len(list) == 0 {
		return nil
	}
	if !CanDefine(m) {
		return fmt.Errorf("operator %s is defined by a function, which a file of IR version %d cannot have: "+
			"wanted version %d or newer", list[0].Name, m.IRVersion, definesFrom)
	}
	for _, f := range list {
		if least := graph.OpsetVersion(f.Opsets, ""); m.OpsetVersion("") < least {
			return fmt.Errorf("operator %s is defined by operators of set %d, the model imports %d: raise it first",
				f.Name, least, m.OpsetVersion(""))
		}
	}
	m.IRVersion = max(m.IRVersion, functionsSince)
	Import(m, DomainMemopt)
	for _, f := range list {
		own := *f
		own.Opsets = nil
		for _, o := range f.Opsets {
			if o.Domain == "" {
				o.Version = m.OpsetVersion("")
			} else {
				Import(m, o.Domain)
				o.Version = m.OpsetVersion(o.Domain)
			}
			own.Opsets = append(own.Opsets, o)
		}
		m.Functions = append(m.Functions, &own)
	}
	return nil
}

// Import imports version 1 of a domain that a model does not import.
func Import(m *graph.Model, domain string) {
	if m.OpsetVersion(domain) == 0 {
		m.Opsets = append(m.Opsets, graph.Opset{Domain: domain, Version: 1})
	}
}

// undefined lists the definitions that a model's nodes need and that it has not.
func undefined(m *graph.Model) (list []*graph.Function) {
	for _, n := range m.Graph.Nodes {
		f := definitionOf(n.Domain, n.Op)
		same := func(g *graph.Function) bool { return g.Domain == f.Domain && g.Name == f.Name }
		if f != nil && n.Kind != Unknown && !slices.ContainsFunc(list, same) &&
			!slices.ContainsFunc(m.Functions, same) {
			list = append(list, f)
		}
	}
	return list
}

// InlineFunctions is graph.InlineFunctions but for the definitions of operators of memopt's own, which
// stay, and whose calls stay nodes. A body of another version of an operator set than the model's is
// inlined where its operators are the same in both.
func InlineFunctions(m *graph.Model) (changed bool, err error) {
	var own, others []*graph.Function
	for _, f := range m.Functions {
		if defines(f) {
			own = append(own, f)
		} else {
			others = append(others, f)
		}
	}
	if err := graph.CheckFunctions(m); err != nil {
		return false, err
	}
	m.Functions = others
	changed, err = graph.InlineFunctions(m, sameIn)
	m.Functions = append(m.Functions, own...)
	return changed, err
}

// matMulAddRule: a product, and C of its shape.
func matMulAddRule(product func(*Ctx)) func(*Ctx) {
	return func(c *Ctx) {
		c.want(0, floats)
		c.sameTypes(0, 1, 2)
		product(c)
		if c.Failed() {
			return
		}
		y, sum := c.outType(0).Shape, c.Shape(2)
		if !y.Ranked || !sum.Ranked {
			return
		}
		if len(y.Dims) != len(sum.Dims) {
			c.Errorf("input 2 has shape %v, wanted the product's, %v", sum, y)
			return
		}
		for i := range y.Dims {
			c.Unify("a dim of the product and of input 2", y.Dims[i], sum.Dims[i])
		}
	}
}

// matMulAddFactors: those of the product. Only one of the parts of the sum adds C.
func matMulAddFactors(product func(*Pieces) []Factor) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		if !p.hasIn(2) {
			return nil // the graph was not checked
		}
		list := product(p)
		for i := range list {
			f := &list[i]
			if f.Reduce != NoReduction {
				f.Once = []int{2}
				continue
			}
			f.In[2] = f.Out[0]
		}
		return list
	}
}
