package graph_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/symbolic"
)

// TestTextOfRandomModels prints and parses models that hold everything that a model can.
func TestTextOfRandomModels(t *testing.T) {
	for seed := range uint64(300) {
		r := &anything{rand.New(rand.NewPCG(seed, 21)), 0}
		m := r.model(t)
		require.NoError(t, graph.Verify(m), "seed %d", seed)
		checkText(t, fmt.Sprintf("seed %d", seed), m)
	}
}

// anything makes models without regard to what operators exist.
type anything struct {
	*rand.Rand
	serial int
}

func pick[T any](r *anything, list ...T) T { return list[r.IntN(len(list))] }

func (r *anything) word() string {
	return pick(r, "", "x", "a/b.c:0", "float", "nan", "\"", "\\", "\n\t\r", "\x00\xff", "é→", "# no comment", "(", "?",
		"...", "`", "_1", "9")
}

// unique returns a name that does not occur twice.
func (r *anything) unique() string {
	r.serial++
	return fmt.Sprintf("%s%d", r.word(), r.serial)
}

func (r *anything) extra() []byte {
	if r.IntN(4) > 0 {
		return nil
	}
	return []byte(r.word())
}

func (r *anything) doc() string {
	if r.IntN(3) > 0 {
		return ""
	}
	return r.word()
}

func (r *anything) metadata() (list []graph.Property) {
	for range max(0, r.IntN(5)-2) {
		list = append(list, graph.Property{Key: r.word(), Value: r.word(), Extra: r.extra()})
	}
	return list
}

func (r *anything) opsets() (list []graph.Opset) {
	for range r.IntN(3) {
		list = append(list, graph.Opset{Domain: r.word(), Version: int64(r.IntN(20)), Extra: r.extra()})
	}
	return list
}

func (r *anything) model(t *testing.T) *graph.Model {
	m := &graph.Model{IRVersion: int64(r.IntN(10)), ProducerName: r.word(), ProducerVersion: r.word(), Domain: r.word(),
		ModelVersion: int64(r.IntN(3)), Doc: r.doc(), Opsets: r.opsets(), Metadata: r.metadata(), Extra: r.extra()}
	m.Configurations = r.configurations()
	m.Graph = r.graph(t, nil, 3)
	for range r.IntN(3) {
		m.Functions = append(m.Functions, r.function(t))
	}
	return m
}

func (r *anything) function(t *testing.T) *graph.Function {
	g := graph.New(r.unique(), nil)
	f := &graph.Function{Name: g.Name, Domain: r.word(), Overload: r.word(), Doc: r.doc(), Opsets: r.opsets(), Body: g}
	g.Metadata = r.metadata()
	for range r.IntN(3) {
		id := g.Value(r.unique())
		f.Inputs = append(f.Inputs, id)
		require.NoError(t, g.AddInput(graph.Decl{Value: id}))
	}
	for range r.IntN(3) {
		f.AttrNames = append(f.AttrNames, r.unique())
	}
	for range r.IntN(3) {
		f.AttrDefaults = append(f.AttrDefaults, r.attr(t, g, 2))
	}
	r.nodes(t, g, 2)
	for i := range g.Values {
		if r.IntN(3) == 0 {
			f.Outputs = append(f.Outputs, graph.ValueID(i))
			require.NoError(t, g.AddOutput(graph.Decl{Value: graph.ValueID(i)}))
		}
	}
	require.NoError(t, g.Seal())
	return f
}

func (r *anything) decl(g *graph.Graph, name string) graph.Decl {
	return graph.Decl{Value: g.Value(name), Type: r.typ(2), Doc: r.doc()}
}

func (r *anything) graph(t *testing.T, outer *graph.Graph, depth int) *graph.Graph {
	g := graph.New(r.word(), outer)
	g.Doc, g.Metadata, g.Extra = r.doc(), r.metadata(), r.extra()
	for range r.IntN(3) {
		require.NoError(t, g.AddInput(r.decl(g, r.unique())))
	}
	for range r.IntN(3) {
		d := r.tensor()
		d.Name = r.unique()
		if len(g.Inputs) > 0 && r.IntN(4) == 0 {
			d.Name = g.ValueName(g.Inputs[0].Value)
		}
		if v, ok := g.Lookup(d.Name); ok && g.Values[v].IsInitializer() {
			continue
		}
		_, err := g.AddInitializer(d)
		require.NoError(t, err)
	}
	if r.IntN(3) == 0 {
		s := r.sparse()
		s.Values.Name = r.unique()
		_, err := g.AddSparse(s)
		require.NoError(t, err)
	}
	r.nodes(t, g, depth)
	for i := range g.Values {
		switch r.IntN(4) {
		case 0:
			require.NoError(t, g.AddOutput(r.decl(g, g.Values[i].Name)))
		case 1:
			g.ValueInfo = append(g.ValueInfo, r.decl(g, g.Values[i].Name))
		}
	}
	require.NoError(t, g.Seal())
	return g
}

// readable lists the values that a node of g may read, those of enclosing graphs
// included, and nothing.
func (r *anything) readable(g *graph.Graph) []string {
	names := []string{""}
	for ; g != nil; g = g.Outer {
		for i := range g.Values {
			names = append(names, g.Values[i].Name)
		}
	}
	return names
}

func (r *anything) nodes(t *testing.T, g *graph.Graph, depth int) {
	for range r.IntN(5) {
		n := &graph.Node{Name: r.word(), Op: "Op" + r.word(), Domain: r.word()}
		n.SetRare(graph.Rare{Overload: r.word(), Doc: r.doc(), Metadata: r.metadata(), Devices: r.devices(),
			Extra: r.extra()})
		names := r.readable(g)
		for range r.IntN(4) {
			n.Inputs = append(n.Inputs, g.Value(pick(r, names...)))
		}
		for range r.IntN(4) {
			a := r.attr(t, g, depth)
			a.Name = r.unique()
			n.Attrs = append(n.Attrs, a)
		}
		for range r.IntN(3) {
			n.Outputs = append(n.Outputs, g.Value(pick(r, "", r.unique())))
		}
		require.NoError(t, g.AddNode(n))
		g.ResolveShardings(n)
	}
}

func (r *anything) float() float32 {
	return pick[float32](r, 0, 1, -1.5, 1e-45, math.MaxFloat32, float32(math.NaN()), math.Float32frombits(0xffc00001),
		float32(math.Inf(-1)), float32(math.Copysign(0, -1)), math.Float32frombits(r.Uint32()))
}

func several[T any](r *anything, one func() T) []T {
	list := make([]T, r.IntN(4))
	for i := range list {
		list[i] = one()
	}
	return list
}

func (r *anything) attr(t *testing.T, g *graph.Graph, depth int) graph.Attr {
	a := graph.Attr{Name: r.unique(), Doc: r.doc()}
	if depth > 0 && r.IntN(3) == 0 {
		a.Value = r.graph(t, g, depth-1)
		if r.IntN(3) == 0 {
			a.Value = several(r, func() *graph.Graph { return r.graph(t, g, depth-1) })
		}
		return a
	}
	integer := func() int64 { return pick[int64](r, 0, -1, math.MaxInt64, math.MinInt64) }
	switch r.IntN(13) {
	case 0:
		a.Value = integer()
	case 1:
		a.Value = r.float()
	case 2:
		a.Value = r.word()
	case 3:
		a.Value = several(r, integer)
	case 4:
		a.Value = several(r, r.float)
	case 5:
		a.Value = several(r, r.word)
	case 6:
		a.Value = r.tensor()
	case 7:
		a.Value = several(r, r.tensor)
	case 8:
		a.Value = r.sparse()
	case 9:
		a.Value = several(r, r.sparse)
	case 10:
		a.Value = r.typ(3)
	case 11:
		a.Value = several(r, func() graph.Type { return r.typ(3) })
	default:
		a.Ref = "x" + r.word()
	}
	return a
}

func (r *anything) dtype() graph.DType { return graph.DType(r.IntN(30)) }

func (r *anything) typ(depth int) graph.Type {
	forms := 4
	if depth > 0 {
		forms = 7
	}
	var elem *graph.Type
	if r.IntN(4) > 0 {
		t := graph.Type{}
		if depth > 0 {
			t = r.typ(depth - 1)
		}
		elem = &t
	}
	switch r.IntN(forms) {
	case 0:
		return graph.Type{}
	case 1:
		return graph.Tensor(r.dtype(), r.shape())
	case 2:
		return graph.Type{Form: graph.FormSparse, DType: r.dtype(), Shape: r.shape()}
	case 3:
		return graph.Type{Form: graph.FormOpaque, Name: r.word()}
	case 4:
		return graph.Type{Form: graph.FormSequence, Elem: elem}
	case 5:
		return graph.Type{Form: graph.FormOptional, Elem: elem}
	}
	return graph.Type{Form: graph.FormMap, DType: r.dtype(), Elem: elem}
}

func (r *anything) shape() graph.Shape {
	if r.IntN(5) == 0 {
		return graph.Shape{}
	}
	dims := several(r, func() symbolic.Expr {
		a, b := symbolic.Sym(r.word()), symbolic.Sym("batch")
		return pick(r, a, b, symbolic.Const(int64(r.IntN(9))), symbolic.Const(-3), symbolic.Unknown(),
			a.Mul(b).Add(symbolic.Const(1)),
			a.FloorDiv(symbolic.Const(2)), b.Sub(a), b.CeilDiv(a.Add(b)))
	})
	return graph.Dims(dims...)
}

func (r *anything) tensor() *graph.TensorData {
	d := &graph.TensorData{Name: r.word(), DType: r.dtype(), Doc: r.doc()}
	for range r.IntN(3) {
		d.Dims = append(d.Dims, int64(r.IntN(4)))
	}
	n, _ := d.Elements()
	size, _ := d.Bytes()
	raw := make([]byte, size)
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	switch {
	case r.IntN(8) == 0:
		d.External = &graph.External{
			Location: "a file" + r.word(), Offset: int64(r.IntN(2)), Length: int64(r.IntN(3)) - 1, Checksum: r.word(),
		}
	case r.IntN(8) == 0: // no contents
	case d.DType == graph.String:
		for range n {
			d.Strings = append(d.Strings, r.word())
		}
	case r.IntN(8) == 0:
		d.Source = graph.Raw(r.word()) // of a wrong length
	default:
		d.Source = graph.Raw(raw)
	}
	return d
}

func (r *anything) sparse() *graph.Sparse {
	s := &graph.Sparse{Values: r.tensor(), Indices: r.tensor()}
	for range r.IntN(3) {
		s.Dims = append(s.Dims, int64(r.IntN(4)))
	}
	return s
}
