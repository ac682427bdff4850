package onnx

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"

	"memopt/graph"
	"memopt/symbolic"
)

// StructureSHA256 returns the SHA-256 of a model's structure in hexadecimal. Two
// files with the same structure can share a plan. The hash covers, in this order:
//
//   - the imported operator sets: domain, version;
//   - the main graph: its name; inputs, outputs and value_info, each with name
//     and type as the file states them; initializers with name, element type,
//     dims and bytes, and sparse ones likewise, in file order; then the nodes
//     in file order: name, operator, domain, overload, the names of inputs
//     and outputs, and every attribute with its name, reference and value;
//   - the model-local functions: domain, name, overload, operator sets,
//     attribute names and defaults, the names of inputs and outputs, and the body
//     as a graph.
//
// A tensor's contents are left out wherever it occurs: its element type, dims and
// length in bytes (elements, for strings) stand for them. Left out as well are
// documentation, metadata, producer, versions of IR and model, training_info,
// quantization and device annotations, unknown fields, and whether a tensor lies in the file or in
// external data. "ai.onnx" and the empty domain are one. Since the hash is
// made of decoded values, it does not change when a file is encoded anew, by
// whatever tool.
func StructureSHA256(m *graph.Model) string {
	s := &structure{h: sha256.New()}
	s.text("memopt.structure/v1")
	s.opsets(m.Opsets)
	if m.Graph != nil {
		s.graph(m.Graph)
	}
	s.list(len(m.Functions))
	for _, f := range m.Functions {
		s.function(f)
	}
	s.flush()
	return hex.EncodeToString(s.h.Sum(nil))
}

// structure feeds a hash with values, each with its length or of fixed width, so
// that no two structures give one sequence of bytes.
type structure struct {
	h   hash.Hash
	buf []byte
}

func (s *structure) flush() {
	s.h.Write(s.buf)
	s.buf = s.buf[:0]
}

func (s *structure) int(v int64) {
	const full = 4096
	if len(s.buf) > full {
		s.flush()
	}
	s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(v))
}

func (s *structure) list(n int) { s.int(int64(n)) }

func (s *structure) text(v string) {
	s.list(len(v))
	s.buf = append(s.buf, v...)
}

func (s *structure) domain(d string) { s.text(graph.CanonicalDomain(d)) }

func (s *structure) opsets(list []graph.Opset) {
	s.list(len(list))
	for _, o := range list {
		s.domain(o.Domain)
		s.int(o.Version)
	}
}

func (s *structure) function(f *graph.Function) {
	s.domain(f.Domain)
	s.text(f.Name)
	s.text(f.Overload)
	s.opsets(f.Opsets)
	s.list(len(f.AttrNames))
	for _, name := range f.AttrNames {
		s.text(name)
	}
	s.attrs(f.AttrDefaults)
	s.values(f.Body, f.Inputs)
	s.values(f.Body, f.Outputs)
	s.graph(f.Body)
}

func (s *structure) values(g *graph.Graph, ids []graph.ValueID) {
	s.list(len(ids))
	for _, id := range ids {
		s.text(g.ValueName(id))
	}
}

func (s *structure) graph(g *graph.Graph) {
	s.text(g.Name)
	for _, list := range [][]graph.Decl{g.Inputs, g.Outputs, g.ValueInfo} {
		s.list(len(list))
		for i := range list {
			s.text(g.ValueName(list[i].Value))
			s.typ(&list[i].Type)
		}
	}
	s.list(len(g.Initializers))
	for _, id := range g.Initializers {
		s.tensor(g.Values[id].Data)
	}
	s.list(len(g.Sparse))
	for _, id := range g.Sparse {
		s.sparse(g.Values[id].SparseData)
	}
	s.list(len(g.Nodes))
	for _, n := range g.Nodes {
		s.text(n.Name)
		s.text(n.Op)
		s.domain(n.Domain)
		s.text(n.Rare().Overload)
		s.values(g, n.Inputs)
		s.values(g, n.Outputs)
		s.attrs(n.Attrs)
	}
}

func (s *structure) tensor(t *graph.TensorData) {
	s.text(t.Name)
	s.int(int64(t.DType))
	s.ints(t.Dims)
	size, err := t.Bytes()
	if t.DType == graph.String {
		size, err = t.Elements()
	}
	if err != nil {
		size = -1 // decoding refuses such tensors
	}
	s.int(size)
}

func (s *structure) sparse(t *graph.Sparse) {
	s.ints(t.Dims)
	s.tensor(t.Values)
	s.tensor(t.Indices)
}

func (s *structure) ints(list []int64) {
	s.list(len(list))
	for _, v := range list {
		s.int(v)
	}
}

func (s *structure) typ(t *graph.Type) {
	s.int(int64(t.Form))
	s.int(int64(t.DType))
	s.int(int64(t.Shape.Rank()))
	for _, d := range t.Shape.Dims {
		s.dim(d)
	}
	s.text(t.Name)
	if t.Elem == nil {
		s.int(0)
		return
	}
	s.int(1)
	s.typ(t.Elem)
}

func (s *structure) dim(d symbolic.Expr) {
	if c, ok := d.Const(); ok {
		s.text("number")
		s.int(c)
		return
	}
	if !d.IsKnown() {
		s.text("unknown")
		return
	}
	s.text("symbol")
	s.text(d.String())
}

func (s *structure) attrs(list []graph.Attr) {
	s.list(len(list))
	for i := range list {
		a := &list[i]
		s.text(a.Name)
		s.text(a.Ref)
		s.int(kindOf(a.Value))
		s.attrValue(a.Value)
	}
}

func (s *structure) attrValue(value any) {
	switch v := value.(type) {
	case nil:
	case int64:
		s.int(v)
	case float32:
		s.int(int64(math.Float32bits(v)))
	case string:
		s.text(v)
	case []int64:
		s.ints(v)
	case *graph.TensorData:
		s.tensor(v)
	case *graph.Sparse:
		s.sparse(v)
	case *graph.Graph:
		s.graph(v)
	case graph.Type:
		s.typ(&v)
	case []float32:
		hashAll(s, v, func(f float32) { s.int(int64(math.Float32bits(f))) })
	case []string:
		hashAll(s, v, s.text)
	case []*graph.TensorData:
		hashAll(s, v, s.tensor)
	case []*graph.Sparse:
		hashAll(s, v, s.sparse)
	case []*graph.Graph:
		hashAll(s, v, s.graph)
	case []graph.Type:
		hashAll(s, v, func(t graph.Type) { s.typ(&t) })
	default:
		s.text(fmt.Sprintf("%T", v)) // no value that a decoder or an encoder knows
	}
}

func hashAll[T any](s *structure, list []T, f func(T)) {
	s.list(len(list))
	for _, v := range list {
		f(v)
	}
}
