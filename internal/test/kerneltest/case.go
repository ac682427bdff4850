package kerneltest

import (
	"fmt"
	"slices"
	"sync"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// Case is one node with its inputs.
type Case struct {
	Name  string // unique among the cases of the kind
	Kind  graph.Kind
	Opset int // of the operator's domain; 0 means the newest in the table
	Attrs []graph.Attr
	Meta  []graph.Property   // of the node
	In    []*executor.Tensor // nil if left out
	// Out has the element types of the outputs; Undefined: left out.
	Out []graph.DType
	// Want has the outputs, as an independent computation gives them; nil for those left out. See
	// OracleOf for the oracles that hold them.
	Want []*executor.Tensor
	// Tol bounds the error of floating-point elements: |got-want| ≤ Tol*(1+|want|). 0 means equal
	// bit for bit, NaN being equal to NaN.
	Tol float64
	// Fails is a part of the wanted error message; "" if the run succeeds.
	Fails string
}

// Attr makes an attribute of a case.
func Attr(name string, value any) graph.Attr { return graph.Attr{Name: name, Value: value} }

// families lists the cases by family; each has a file of its own.
var families []func() []Case

// register adds a family of cases. Families call it from init.
func register(f func() []Case) { families = append(families, f) }

// All returns all cases, which are made once: their tensors are not to be changed.
func All() []Case { return slices.Clip(made()) }

var made = sync.OnceValue(func() (all []Case) {
	for _, f := range families {
		all = append(all, f()...)
	}
	return all
})

// Label names a case in test output.
func (c *Case) Label() string {
	return fmt.Sprintf("%s/%s", op.Of(c.Kind).Name, c.Name)
}

// prep makes the node and the Prep that a session would give its kernel.
func (c *Case) prep(threads int) *executor.Prep {
	info := op.Of(c.Kind)
	n := &graph.Node{Name: c.Label(), Op: info.Name, Domain: info.Domain, Kind: c.Kind, Attrs: c.Attrs}
	n.EditRare(func(r *graph.Rare) { r.Metadata = c.Meta })
	p := &executor.Prep{Node: n, Label: n.Name, Info: info, Seed: 1, Threads: threads, Out: c.Out}
	version := int64(c.Opset)
	if version == 0 {
		version = 1 << 30
	}
	p.Version = info.SinceVersion(version)
	for i, t := range c.In {
		d := graph.Undefined
		if t != nil {
			d = t.DType
		}
		p.In = append(p.In, d)
		n.Inputs = append(n.Inputs, graph.ValueID(i))
	}
	for i := range c.Out {
		n.Outputs = append(n.Outputs, graph.ValueID(len(c.In)+i))
	}
	return p
}
