package onnx_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/symbolic"
)

// view reads a message of the second decoder by field names.
type view struct{ protoreflect.Message }

func (v view) get(name string) protoreflect.Value {
	return v.Get(v.Descriptor().Fields().ByName(protoreflect.Name(name)))
}

func (v view) has(name string) bool {
	return v.Has(v.Descriptor().Fields().ByName(protoreflect.Name(name)))
}

func (v view) str(name string) string { return v.get(name).String() }
func (v view) msg(name string) view   { return view{v.get(name).Message()} }

func (v view) msgs(name string) []view {
	return items(v, name, func(x protoreflect.Value) view { return view{x.Message()} })
}

func (v view) strs(name string) []string {
	return items(v, name, func(x protoreflect.Value) string { return x.String() })
}

func (v view) byteStrs(name string) []string {
	return items(v, name, func(x protoreflect.Value) string { return string(x.Bytes()) })
}

func (v view) ints(name string) []int64 {
	return items(v, name, func(x protoreflect.Value) int64 { return x.Int() })
}

func items[T any](v view, name string, f func(protoreflect.Value) T) []T {
	var out []T
	list := v.get(name).List()
	for i := range list.Len() {
		out = append(out, f(list.Get(i)))
	}
	return out
}

func TestViewEverything(t *testing.T) { requireView(t, everything(t)) }

// requireView compares what Decode extracts with what the second decoder sees.
func requireView(t *testing.T, data []byte) {
	t.Helper()
	m, err := onnx.Decode(data, "")
	require.NoError(t, err)
	requireModel(t, data, m)
}

// requireModel compares a model with the second decoder's view of a file.
func requireModel(t *testing.T, data []byte, m *graph.Model) {
	t.Helper()
	want := view{decodeMessage(t, "ModelProto", data)}
	require.Equal(t, want.get("ir_version").Int(), m.IRVersion)
	require.Equal(t, want.str("producer_name"), m.ProducerName)
	require.Equal(t, want.str("producer_version"), m.ProducerVersion)
	require.Equal(t, want.str("domain"), m.Domain)
	require.Equal(t, want.str("doc_string"), m.Doc)
	sameOpsets(t, want.msgs("opset_import"), m.Opsets)
	sameProps(t, want.msgs("metadata_props"), m.Metadata)
	sameGraph(t, want.msg("graph"), m.Graph)
	functions := want.msgs("functions")
	require.Len(t, m.Functions, len(functions))
	for i, f := range functions {
		sameFunction(t, f, m.Functions[i])
	}
}

func sameOpsets(t *testing.T, want []view, got []graph.Opset) {
	require.Len(t, got, len(want))
	for i, o := range want {
		require.Equal(t, o.str("domain"), got[i].Domain)
		require.Equal(t, o.get("version").Int(), got[i].Version)
	}
}

func sameProps(t *testing.T, want []view, got []graph.Property) {
	require.Len(t, got, len(want))
	for i, p := range want {
		require.Equal(t, p.str("key"), got[i].Key)
		require.Equal(t, p.str("value"), got[i].Value)
	}
}

func names(g *graph.Graph, ids []graph.ValueID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, g.ValueName(id))
	}
	return out
}

func sameFunction(t *testing.T, want view, got *graph.Function) {
	require.Equal(t, want.str("name"), got.Name)
	require.Equal(t, want.str("domain"), got.Domain)
	require.Equal(t, want.str("overload"), got.Overload)
	require.Equal(t, want.str("doc_string"), got.Doc)
	require.Equal(t, want.strs("input"), names(got.Body, got.Inputs))
	require.Equal(t, want.strs("output"), names(got.Body, got.Outputs))
	require.Equal(t, want.strs("attribute"), got.AttrNames)
	sameAttrs(t, want.msgs("attribute_proto"), got.AttrDefaults, got.Body)
	sameOpsets(t, want.msgs("opset_import"), got.Opsets)
	sameNodes(t, want.msgs("node"), got.Body)
	sameDecls(t, want.msgs("value_info"), got.Body, got.Body.ValueInfo)
	sameProps(t, want.msgs("metadata_props"), got.Body.Metadata)
}

func sameGraph(t *testing.T, want view, g *graph.Graph) {
	require.Equal(t, want.str("name"), g.Name)
	require.Equal(t, want.str("doc_string"), g.Doc)
	sameDecls(t, want.msgs("input"), g, g.Inputs)
	sameDecls(t, want.msgs("output"), g, g.Outputs)
	sameDecls(t, want.msgs("value_info"), g, g.ValueInfo)
	inits := want.msgs("initializer")
	require.Len(t, g.Initializers, len(inits))
	for i, w := range inits {
		sameTensor(t, w, g.Values[g.Initializers[i]].Data)
	}
	sparse := want.msgs("sparse_initializer")
	require.Len(t, g.Sparse, len(sparse))
	for i, w := range sparse {
		sameSparse(t, w, g.Values[g.Sparse[i]].SparseData)
	}
	sameNodes(t, want.msgs("node"), g)
	sameProps(t, want.msgs("metadata_props"), g.Metadata)
}

func sameNodes(t *testing.T, want []view, g *graph.Graph) {
	require.Len(t, g.Nodes, len(want))
	for i, w := range want {
		n := g.Nodes[i]
		require.Equal(t, w.str("op_type"), n.Op)
		require.Equal(t, w.str("name"), n.Name)
		require.Equal(t, w.str("domain"), n.Domain)
		require.Equal(t, w.str("overload"), n.Rare().Overload)
		require.Equal(t, w.str("doc_string"), n.Rare().Doc)
		require.Equal(t, w.strs("input"), names(g, n.Inputs))
		require.Equal(t, w.strs("output"), names(g, n.Outputs))
		sameAttrs(t, w.msgs("attribute"), n.Attrs, g)
		sameProps(t, w.msgs("metadata_props"), n.Rare().Metadata)
	}
}

func sameAttrs(t *testing.T, want []view, got []graph.Attr, g *graph.Graph) {
	require.Len(t, got, len(want))
	for i, w := range want {
		require.Equal(t, w.str("name"), got[i].Name)
		require.Equal(t, w.str("ref_attr_name"), got[i].Ref)
		require.Equal(t, w.str("doc_string"), got[i].Doc)
		if w.str("ref_attr_name") != "" {
			require.Nil(t, got[i].Value)
			continue
		}
		sameAttrValue(t, w, got[i].Value, g)
	}
}

func sameAttrValue(t *testing.T, w view, got any, g *graph.Graph) {
	kind := enums["AttributeType"][w.get("type").Enum()]
	switch kind {
	case "UNDEFINED": // in the sample an integer without a type
		require.Equal(t, w.get("i").Int(), got)
	case "FLOAT":
		require.Equal(t, math.Float32bits(float32(w.get("f").Float())), math.Float32bits(got.(float32)))
	case "INT":
		require.Equal(t, w.get("i").Int(), got)
	case "STRING":
		require.Equal(t, string(w.get("s").Bytes()), got)
	case "FLOATS":
		want := items(w, "floats", func(x protoreflect.Value) uint32 { return math.Float32bits(float32(x.Float())) })
		var bits []uint32
		for _, f := range got.([]float32) {
			bits = append(bits, math.Float32bits(f))
		}
		require.Equal(t, want, bits)
	case "INTS":
		require.Equal(t, w.ints("ints"), got)
	case "STRINGS":
		require.Equal(t, w.byteStrs("strings"), got)
	case "TENSOR":
		sameTensor(t, w.msg("t"), got.(*graph.TensorData))
	case "TENSORS":
		each(t, w.msgs("tensors"), got.([]*graph.TensorData), sameTensor)
	case "SPARSE_TENSOR":
		sameSparse(t, w.msg("sparse_tensor"), got.(*graph.Sparse))
	case "SPARSE_TENSORS":
		each(t, w.msgs("sparse_tensors"), got.([]*graph.Sparse), sameSparse)
	case "GRAPH":
		require.Same(t, g, got.(*graph.Graph).Outer)
		sameGraph(t, w.msg("g"), got.(*graph.Graph))
	case "GRAPHS":
		each(t, w.msgs("graphs"), got.([]*graph.Graph), sameGraph)
	case "TYPE_PROTO":
		require.Equal(t, typeText(w.msg("tp")), got.(graph.Type).String())
	case "TYPE_PROTOS":
		each(t, w.msgs("type_protos"), got.([]graph.Type), func(t *testing.T, w view, got graph.Type) {
			require.Equal(t, typeText(w), got.String())
		})
	default:
		t.Fatalf("no comparison for %s", kind)
	}
}

func each[T any](t *testing.T, want []view, got []T, same func(*testing.T, view, T)) {
	require.Len(t, got, len(want))
	for i := range want {
		same(t, want[i], got[i])
	}
}

func sameDecls(t *testing.T, want []view, g *graph.Graph, got []graph.Decl) {
	require.Len(t, got, len(want))
	for i, w := range want {
		require.Equal(t, w.str("name"), g.ValueName(got[i].Value))
		require.Equal(t, w.str("doc_string"), got[i].Doc)
		text := "?"
		if w.has("type") {
			text = typeText(w.msg("type"))
		}
		require.Equal(t, text, got[i].Type.String(), w.str("name"))
	}
}

// typeText prints a TypeProto as graph.Type.String does.
func typeText(w view) string {
	tensor := func(w view) string {
		s := graph.DType(w.get("elem_type").Int()).String()
		if !w.has("shape") {
			return s + "[...]"
		}
		var dims []string
		for _, d := range w.msg("shape").msgs("dim") {
			dims = append(dims, dimText(d))
		}
		return s + "[" + strings.Join(dims, ", ") + "]"
	}
	switch {
	case w.has("tensor_type"):
		return strings.TrimSuffix(tensor(w.msg("tensor_type")), "[]")
	case w.has("sparse_tensor_type"):
		return "sparse_tensor(" + tensor(w.msg("sparse_tensor_type")) + ")"
	case w.has("sequence_type"):
		return "seq(" + typeText(w.msg("sequence_type").msg("elem_type")) + ")"
	case w.has("optional_type"):
		return "optional(" + typeText(w.msg("optional_type").msg("elem_type")) + ")"
	case w.has("map_type"):
		m := w.msg("map_type")
		return "map(" + graph.DType(m.get("key_type").Int()).String() + ", " + typeText(m.msg("value_type")) + ")"
	case w.has("opaque_type"):
		return "opaque(" + w.msg("opaque_type").str("domain") + "/" + w.msg("opaque_type").str("name") + ")"
	}
	return "?"
}

func dimText(d view) string {
	if d.has("dim_value") && d.get("dim_value").Int() >= 0 {
		return d.get("dim_value").String()
	}
	if name := strings.TrimSpace(d.str("dim_param")); name != "" {
		if e, err := symbolic.Parse(name); err == nil && strings.ContainsAny(name, "*( ") {
			return e.String() // the cases of dim_internal_test.go say when
		}
		return symbolic.Sym(name).String()
	}
	return "?"
}

func sameSparse(t *testing.T, w view, got *graph.Sparse) {
	require.Equal(t, w.ints("dims"), got.Dims)
	sameTensor(t, w.msg("values"), got.Values)
	sameTensor(t, w.msg("indices"), got.Indices)
}

func sameTensor(t *testing.T, w view, got *graph.TensorData) {
	require.Equal(t, w.str("name"), got.Name)
	require.Equal(t, w.ints("dims"), got.Dims)
	require.Equal(t, graph.DType(w.get("data_type").Int()), got.DType)
	require.Equal(t, w.str("doc_string"), got.Doc)
	require.Equal(t, w.byteStrs("string_data"), got.Strings)
	if w.get("data_location").Enum() == 1 {
		require.NotNil(t, got.External)
		for _, e := range w.msgs("external_data") {
			if e.str("key") == "location" {
				require.Equal(t, e.str("value"), got.External.Location)
			}
		}
		_, err := got.Source.Bytes()
		var fault *onnx.FormatError
		require.True(t, errors.As(err, &fault), "external data of a stream: %v", err)
		return
	}
	require.Nil(t, got.External)
	if want := rawOf(w); len(want) > 0 {
		raw, err := got.Source.Bytes()
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, raw), "%s: got %x, wanted %x", got.Name, raw, want)
	}
}

// rawOf converts a tensor's typed fields as onnx.proto describes them, element by
// element.
func rawOf(w view) []byte {
	if w.has("raw_data") {
		return w.get("raw_data").Bytes()
	}
	var raw []byte
	little := func(v any) { raw, _ = binary.Append(raw, binary.LittleEndian, v) }
	items(w, "float_data", func(x protoreflect.Value) int { little(float32(x.Float())); return 0 })
	items(w, "double_data", func(x protoreflect.Value) int { little(x.Float()); return 0 })
	items(w, "int64_data", func(x protoreflect.Value) int { little(x.Int()); return 0 })
	for _, x := range items(w, "uint64_data", protoreflect.Value.Uint) {
		if graph.DType(w.get("data_type").Int()) == graph.Uint32 {
			little(uint32(x))
		} else {
			little(x)
		}
	}
	for _, x := range w.ints32() {
		switch graph.DType(w.get("data_type").Int()) {
		case graph.Int32:
			little(x)
		case graph.Int16, graph.Uint16, graph.Float16, graph.BFloat16:
			little(int16(x))
		default:
			little(int8(x))
		}
	}
	return raw
}

func (v view) ints32() []int32 {
	return items(v, "int32_data", func(x protoreflect.Value) int32 { return int32(x.Int()) })
}
