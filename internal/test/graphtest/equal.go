package graphtest

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// Equal compares the contents of two models and returns the first difference, with its place.
// Values are compared by name, since IDs depend on how a graph was made. Not compared are
// Model.Path, encoded forms (Wire), kinds, types that only inference knows, and whether a list
// without elements is nil. Contents of tensors are compared byte by byte; those that neither model
// can read count as equal.
func Equal(a, b *graph.Model) error {
	var d differ
	d.eq("ir_version", a.IRVersion, b.IRVersion)
	d.eq("producer_name", a.ProducerName, b.ProducerName)
	d.eq("producer_version", a.ProducerVersion, b.ProducerVersion)
	d.eq("domain", a.Domain, b.Domain)
	d.eq("model_version", a.ModelVersion, b.ModelVersion)
	d.notes(a.Doc, b.Doc, a.Metadata, b.Metadata, a.Extra, b.Extra)
	d.opsets(a.Opsets, b.Opsets)
	d.eq("configuration", fmt.Sprint(a.Configurations), fmt.Sprint(b.Configurations))
	d.graph(a.Graph, b.Graph)
	all(&d, "function", a.Functions, b.Functions, d.function)
	return d.err
}

// EqualGraph is Equal for two graphs.
func EqualGraph(a, b *graph.Graph) error {
	var d differ
	d.graph(a, b)
	return d.err
}

// differ keeps the first difference and the place where it looks.
type differ struct {
	place []string
	err   error
}

// within calls f with a step added to the place.
func (d *differ) within(step string, f func()) {
	if d.err != nil {
		return
	}
	d.place = append(d.place, step)
	f()
	d.place = d.place[:len(d.place)-1]
}

func (d *differ) fail(format string, args ...any) {
	if d.err != nil {
		return
	}
	text := ""
	for _, step := range d.place {
		text += step + ": "
	}
	d.err = fmt.Errorf("%s%s", text, fmt.Sprintf(format, args...))
}

func (d *differ) eq(what string, a, b any) {
	if a != b {
		d.fail("%s: %#v and %#v", what, a, b)
	}
}

func (d *differ) bytes(what string, a, b []byte) {
	if !bytes.Equal(a, b) {
		d.fail("%s: % x and % x", what, clip(a), clip(b))
	}
}

// clip keeps messages short.
func clip(b []byte) []byte { return b[:min(len(b), 64)] }

// all compares two lists element by element.
func all[T any](d *differ, what string, a, b []T, f func(a, b T)) {
	if len(a) != len(b) {
		d.fail("%s: %d and %d of them", what, len(a), len(b))
		return
	}
	for i := range a {
		if d.err != nil {
			return
		}
		d.within(fmt.Sprintf("%s %d", what, i), func() { f(a[i], b[i]) })
	}
}

func (d *differ) notes(aDoc, bDoc string, aMeta, bMeta []graph.Property, aExtra, bExtra []byte) {
	d.eq("doc_string", aDoc, bDoc)
	all(d, "metadata entry", aMeta, bMeta, func(x, y graph.Property) {
		d.eq("key", x.Key, y.Key)
		d.eq("value", x.Value, y.Value)
		d.bytes("extra", x.Extra, y.Extra)
	})
	d.bytes("extra", aExtra, bExtra)
}

func (d *differ) opsets(a, b []graph.Opset) {
	all(d, "operator set", a, b, func(x, y graph.Opset) {
		d.eq("domain", x.Domain, y.Domain)
		d.eq("version", x.Version, y.Version)
		d.bytes("extra", x.Extra, y.Extra)
	})
}

func (d *differ) graph(a, b *graph.Graph) {
	if d.err != nil {
		return
	}
	d.within(fmt.Sprintf("graph %q", a.Name), func() {
		d.eq("name", a.Name, b.Name)
		d.notes(a.Doc, b.Doc, a.Metadata, b.Metadata, a.Extra, b.Extra)
		d.decls("input", a, b, a.Inputs, b.Inputs)
		d.decls("output", a, b, a.Outputs, b.Outputs)
		d.decls("value_info", a, b, a.ValueInfo, b.ValueInfo)
		d.initializers(a, b)
		all(d, "node", a.Nodes, b.Nodes, func(x, y *graph.Node) { d.node(a, b, x, y) })
	})
}

func (d *differ) decls(what string, a, b *graph.Graph, x, y []graph.Decl) {
	all(d, what, x, y, func(x, y graph.Decl) {
		d.eq("name", a.ValueName(x.Value), b.ValueName(y.Value))
		d.eq("doc_string", x.Doc, y.Doc)
		d.typ(&x.Type, &y.Type)
	})
}

func (d *differ) initializers(a, b *graph.Graph) {
	all(d, "initializer", a.Initializers, b.Initializers, func(x, y graph.ValueID) {
		d.eq("value", a.ValueName(x), b.ValueName(y))
		d.tensor(a.Values[x].Data, b.Values[y].Data)
	})
	all(d, "sparse initializer", a.Sparse, b.Sparse, func(x, y graph.ValueID) {
		d.eq("value", a.ValueName(x), b.ValueName(y))
		d.sparse(a.Values[x].SparseData, b.Values[y].SparseData)
	})
}

func (d *differ) node(a, b *graph.Graph, x, y *graph.Node) {
	d.eq("name", x.Name, y.Name)
	d.eq("operator", x.Op, y.Op)
	d.eq("domain", x.Domain, y.Domain)
	p, q := x.Rare(), y.Rare()
	d.eq("overload", p.Overload, q.Overload)
	d.notes(p.Doc, q.Doc, p.Metadata, q.Metadata, p.Extra, q.Extra)
	d.devices(a, b, x, y)
	d.names("input", a, b, x.Inputs, y.Inputs)
	d.names("output", a, b, x.Outputs, y.Outputs)
	d.captures(a, b, x, y)
	all(d, "attribute", x.Attrs, y.Attrs, d.attr)
}

// devices compares annotations by the names of their tensors.
func (d *differ) devices(a, b *graph.Graph, x, y *graph.Node) {
	named := func(g *graph.Graph, n *graph.Node) []graph.NodeDevices {
		var out []graph.NodeDevices
		for _, c := range n.Devices() {
			c.Sharding = slices.Clone(c.Sharding)
			for i := range c.Sharding {
				s := &c.Sharding[i]
				s.Operand, s.Tensor = graph.NoOperand, g.ShardedTensor(n, s)
			}
			out = append(out, c)
		}
		return out
	}
	d.eq("device_configurations", fmt.Sprint(named(a, x)), fmt.Sprint(named(b, y)))
}

func (d *differ) names(what string, a, b *graph.Graph, x, y []graph.ValueID) {
	all(d, what, x, y, func(x, y graph.ValueID) { d.eq("value", a.ValueName(x), b.ValueName(y)) })
}

// captures compares the captured values as sets: their order is that of their IDs.
func (d *differ) captures(a, b *graph.Graph, x, y *graph.Node) {
	sorted := func(g *graph.Graph, ids []graph.ValueID) []string {
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = g.ValueName(id)
		}
		slices.Sort(names)
		return names
	}
	if s, t := sorted(a, x.Captures()), sorted(b, y.Captures()); !slices.Equal(s, t) {
		d.fail("captures: %q and %q", s, t)
	}
}

func (d *differ) function(a, b *graph.Function) {
	d.eq("name", a.Name, b.Name)
	d.eq("domain", a.Domain, b.Domain)
	d.eq("overload", a.Overload, b.Overload)
	d.eq("doc_string", a.Doc, b.Doc)
	d.opsets(a.Opsets, b.Opsets)
	all(d, "attribute name", a.AttrNames, b.AttrNames, func(x, y string) { d.eq("name", x, y) })
	all(d, "attribute default", a.AttrDefaults, b.AttrDefaults, d.attr)
	d.names("input", a.Body, b.Body, a.Inputs, b.Inputs)
	d.names("output", a.Body, b.Body, a.Outputs, b.Outputs)
	d.graph(a.Body, b.Body)
}

func (d *differ) attr(a, b graph.Attr) {
	d.within(fmt.Sprintf("%q", a.Name), func() {
		d.eq("name", a.Name, b.Name)
		d.eq("reference", a.Ref, b.Ref)
		d.eq("doc_string", a.Doc, b.Doc)
		if s, t := fmt.Sprintf("%T", a.Value), fmt.Sprintf("%T", b.Value); s != t {
			d.fail("type of the value: %s and %s", s, t)
			return
		}
		d.value(a.Value, b.Value)
	})
}

func (d *differ) value(a, b any) {
	switch x := a.(type) {
	case float32:
		d.float(x, b.(float32))
	case *graph.TensorData:
		d.tensor(x, b.(*graph.TensorData))
	case *graph.Sparse:
		d.sparse(x, b.(*graph.Sparse))
	case *graph.Graph:
		d.graph(x, b.(*graph.Graph))
	case graph.Type:
		y := b.(graph.Type)
		d.typ(&x, &y)
	case []int64:
		all(d, "element", x, b.([]int64), func(x, y int64) { d.eq("value", x, y) })
	case []string:
		all(d, "element", x, b.([]string), func(x, y string) { d.eq("value", x, y) })
	case []float32:
		all(d, "element", x, b.([]float32), d.float)
	case []*graph.TensorData:
		all(d, "element", x, b.([]*graph.TensorData), d.tensor)
	case []*graph.Sparse:
		all(d, "element", x, b.([]*graph.Sparse), d.sparse)
	case []*graph.Graph:
		all(d, "element", x, b.([]*graph.Graph), d.graph)
	case []graph.Type:
		all(d, "element", x, b.([]graph.Type), func(x, y graph.Type) { d.typ(&x, &y) })
	default:
		d.eq("value", a, b)
	}
}

// float compares bits: a NaN equals itself, 0 and -0 differ.
func (d *differ) float(a, b float32) {
	if math.Float32bits(a) != math.Float32bits(b) {
		d.fail("value: %v (%#x) and %v (%#x)", a, math.Float32bits(a), b, math.Float32bits(b))
	}
}

func (d *differ) typ(a, b *graph.Type) {
	if a == nil || b == nil {
		if a != b {
			d.fail("only one has a type inside")
		}
		return
	}
	d.eq("form", a.Form, b.Form)
	d.eq("element type", a.DType, b.DType)
	d.eq("name of the type", a.Name, b.Name)
	d.eq("rank", a.Shape.Rank(), b.Shape.Rank())
	all(d, "dim", a.Shape.Dims, b.Shape.Dims, func(x, y symbolic.Expr) {
		if x.IsKnown() != y.IsKnown() || x.IsKnown() && !x.Equal(y) {
			d.fail("%v and %v", x, y)
		}
	})
	d.typ(a.Elem, b.Elem)
}

func (d *differ) tensor(a, b *graph.TensorData) {
	d.eq("name", a.Name, b.Name)
	d.eq("element type", a.DType, b.DType)
	d.eq("doc_string", a.Doc, b.Doc)
	all(d, "dim", a.Dims, b.Dims, func(x, y int64) { d.eq("size", x, y) })
	all(d, "string", a.Strings, b.Strings, func(x, y string) { d.eq("value", x, y) })
	if (a.External == nil) != (b.External == nil) {
		d.fail("only one is external data")
		return
	}
	if a.External != nil {
		d.eq("external data", *a.External, *b.External)
		return
	}
	x, xErr := contents(a)
	y, yErr := contents(b)
	if (xErr == nil) != (yErr == nil) {
		d.fail("contents of only one can be read: %v, %v", xErr, yErr)
	}
	d.bytes("contents", x, y)
}

func contents(t *graph.TensorData) ([]byte, error) {
	if t.Source == nil {
		return nil, nil
	}
	return t.Source.Bytes()
}

func (d *differ) sparse(a, b *graph.Sparse) {
	all(d, "dim", a.Dims, b.Dims, func(x, y int64) { d.eq("size", x, y) })
	d.within("values", func() { d.tensor(a.Values, b.Values) })
	d.within("indices", func() { d.tensor(a.Indices, b.Indices) })
}
