package examples

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"memopt/graph"
	"memopt/symbolic"
)

const (
	onnxDomain = ""
	msDomain   = "com.microsoft"

	onnxVersion = 17 // the first with LayerNormalization in ONNX's own domain
	msVersion   = 1
	irVersion   = 8 // the one that came with operator set 17
)

// builder adds nodes to a model. It keeps the first error, and discards everything built after it.
type builder struct {
	m   *graph.Model
	g   *graph.Graph
	err error
}

func newBuilder(name string, opsets ...graph.Opset) *builder {
	g := graph.New(name, nil)
	m := &graph.Model{IRVersion: irVersion, ProducerName: "memopt", Opsets: opsets, Graph: g}
	return &builder{m: m, g: g}
}

// ortOpsets are the operator sets of the graphs in ORTModule's dialect.
func ortOpsets() []graph.Opset {
	return []graph.Opset{{Version: onnxVersion}, {Domain: msDomain, Version: msVersion}}
}

func (b *builder) check(err error) {
	if b.err == nil {
		b.err = err
	}
}

// node adds a node whose outputs get the given names; an empty name leaves an output out.
func (b *builder) node(domain, op, name string, in []graph.ValueID, out []string, attrs ...graph.Attr) []graph.ValueID {
	n := &graph.Node{Name: name, Op: op, Domain: domain, Inputs: in, Attrs: attrs}
	for _, o := range out {
		n.Outputs = append(n.Outputs, b.g.Value(o))
	}
	b.check(b.g.AddNode(n))
	return n.Outputs
}

func (b *builder) input(name string, t graph.Type) graph.ValueID {
	id := b.g.Value(name)
	b.check(b.g.AddInput(graph.Decl{Value: id, Type: t}))
	return id
}

func (b *builder) output(id graph.ValueID, t graph.Type) {
	if b.err == nil { // else the value may be missing
		b.check(b.g.AddOutput(graph.Decl{Value: id, Type: t}))
	}
}

// constant adds an initializer unless one of that name exists: equal constants share one, as after
// ONNX Runtime's constant sharing.
func (b *builder) constant(t *graph.TensorData) graph.ValueID {
	if id, ok := b.g.Lookup(t.Name); ok {
		return id
	}
	id, err := b.g.AddInitializer(t)
	b.check(err)
	return id
}

// ints is a constant list of integers.
func (b *builder) ints(elems ...int64) graph.ValueID {
	return b.constant(graph.Int64Tensor(intsName(elems), []int64{int64(len(elems))}, elems...))
}

// intScalar is a constant integer without dims.
func (b *builder) intScalar(x int64) graph.ValueID {
	return b.constant(graph.Int64Tensor("shared_scalar"+strings.TrimPrefix(intsName([]int64{x}), "shared"), nil, x))
}

func intsName(elems []int64) string {
	var s strings.Builder
	s.WriteString("shared_int64")
	for _, e := range elems {
		fmt.Fprintf(&s, "_%d", e)
	}
	return strings.ReplaceAll(s.String(), "-", "m")
}

// floatScalar is a constant number without dims, rounded to the given type.
func (b *builder) floatScalar(name string, d graph.DType, x float64) graph.ValueID {
	if d == graph.Float16 {
		raw := binary.LittleEndian.AppendUint16(nil, float16(x))
		return b.constant(&graph.TensorData{Name: name, DType: d, Source: graph.Raw(raw)})
	}
	return b.constant(graph.Float32Tensor(name, nil, float32(x)))
}

// float16 encodes a number in the normal range of float16, [2^-14, 65504], rounding
// half to even.
func float16(x float64) uint16 {
	frac, exp := math.Frexp(x) // x = frac × 2^exp, frac in [0.5, 1)
	mant := math.RoundToEven(frac * (1 << 11))
	return uint16(int(mant) + (exp+13)<<10) // a carry out of the mantissa lands in the exponent
}

// boolScalar is a constant truth value without dims.
func (b *builder) boolScalar(name string, x bool) graph.ValueID {
	raw := graph.Raw{0}
	if x {
		raw[0] = 1
	}
	return b.constant(&graph.TensorData{Name: name, DType: graph.Bool, Source: raw})
}

// finish ends the building of the model.
func (b *builder) finish() (*graph.Model, error) {
	b.check(b.g.Seal())
	if b.err != nil {
		return nil, fmt.Errorf("example %q: %w", b.g.Name, b.err)
	}
	return b.m, nil
}

func intAttr(name string, x int64) graph.Attr { return graph.Attr{Name: name, Value: x} }

func floatAttr(name string, x float32) graph.Attr { return graph.Attr{Name: name, Value: x} }

func intsAttr(name string, x ...int64) graph.Attr { return graph.Attr{Name: name, Value: x} }

func strAttr(name, x string) graph.Attr { return graph.Attr{Name: name, Value: x} }

// dims makes a shape of numbers (int) and symbols (string).
func dims(list ...any) graph.Shape {
	exprs := make([]symbolic.Expr, len(list))
	for i, d := range list {
		switch d := d.(type) {
		case int:
			exprs[i] = symbolic.Const(int64(d))
		case string:
			exprs[i] = symbolic.Sym(d)
		}
	}
	return graph.Dims(exprs...)
}
