package mutate

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// rich is a model that has something for every operation: a subgraph, a function, an attribute of
// every form, weights, symbols.
func rich() []byte {
	m := &message{typ: messages["ModelProto"]}
	m.addNum("ir_version", 8)
	o := m.add("opset_import").msg
	o.addNum("version", 17)
	g := m.add("graph").msg
	g.addText("name", "rich")
	for _, name := range []string{"x", "y"} {
		in := g.add("input").msg
		in.addText("name", name)
		t := in.add("type").msg.add("tensor_type").msg
		t.addNum("elem_type", 1)
		shape := t.add("shape").msg
		shape.add("dim").msg.addText("dim_param", "batch")
		shape.add("dim").msg.addNum("dim_value", 4)
	}
	w := g.add("initializer").msg
	w.addText("name", "w")
	w.addNum("data_type", 1)
	w.addNum("dims", 4)
	w.add("raw_data").data = make([]byte, 16)
	axes := g.add("initializer").msg
	axes.addText("name", "axes")
	axes.addNum("data_type", 7)
	axes.addNum("dims", 1)
	axes.addNum("int64_data", 1)
	for _, name := range []string{"Add", "Mul", "Sub"} {
		n := g.add("node").msg
		n.addText("input", "x")
		n.addText("input", "w")
		n.addText("output", "out "+name)
		n.addText("name", "node "+name)
		n.addText("op_type", name)
		for _, form := range attributeForms {
			a := n.add("attribute").msg
			a.addText("name", form.field)
			a.addNum("type", form.typ)
			a.add(form.field)
		}
		n.all("attribute")[6].msg.addNum("ints", 3)
	}
	out := g.add("output").msg
	out.addText("name", "out Sub")
	out.msg("type", "tensor_type").addNum("elem_type", 1)
	f := m.add("functions").msg
	f.addText("name", "F")
	f.addText("domain", "d")
	f.addText("input", "a")
	f.addText("output", "b")
	n := f.add("node").msg
	n.addText("input", "a")
	n.addText("output", "b")
	n.addText("op_type", "Relu")
	return m.encode()
}

// msg returns a message in a message, which it makes where there is none.
func (m *message) msg(path ...string) *message {
	for _, name := range path {
		m = m.only(name).msg
	}
	return m
}

// TestOperations: every kind of mutation does something to a model that has everything, and says
// what.
func TestOperations(t *testing.T) {
	data := rich()
	o := &Models{Operators: []Operator{{"", "Softmax"}, {"com.microsoft", "Gelu"}}, Donors: [][]byte{data}}
	for i, operation := range operations {
		changed := 0
		for seed := range uint64(100) {
			s := &state{
				models: o, root: decode(messages["ModelProto"], data, 0), rng: rand.New(rand.NewPCG(seed, uint64(i))),
			}
			s.index()
			said := operation.run(s)
			if now := s.root.encode(); !bytes.Equal(now, data) {
				require.NotEmpty(t, said, "operation %d, seed %d", i, seed)
				changed++
			}
		}
		require.Greater(t, changed, 10, "operation %d", i)
	}
}

// TestOperationsOnFragments: every kind of mutation copes with models that lack any one kind of
// field.
func TestOperationsOnFragments(t *testing.T) {
	data := rich()
	o := &Models{Donors: [][]byte{data}}
	full := &state{root: decode(messages["ModelProto"], data, 0)}
	full.index()
	for _, key := range full.keys {
		less := decode(messages["ModelProto"], data, 0)
		s := &state{models: o, root: less}
		s.index()
		for _, x := range s.sites[key] {
			x.delete()
		}
		for i, operation := range operations {
			for seed := range uint64(6) {
				s := &state{models: o, root: less.clone(), rng: rand.New(rand.NewPCG(seed, uint64(i)))}
				s.index()
				operation.run(s)
			}
		}
	}
}

// TestTree: what is decoded is written as it was; packed numbers are written one by one.
func TestTree(t *testing.T) {
	data := rich()
	require.Equal(t, data, decode(messages["ModelProto"], data, 0).encode())
	cut := data[:len(data)-3]
	require.Equal(t, cut, decode(messages["ModelProto"], cut, 0).encode(), "what is cut off stays")

	packed := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{3, 4})
	m := decode(messages["TensorProto"], packed, 0)
	require.Len(t, m.all("dims"), 2)
	require.Equal(t, []byte{8, 3, 8, 4}, m.encode())

	clone := m.clone()
	clone.all("dims")[0].num = 9
	require.EqualValues(t, 3, m.all("dims")[0].num, "a clone shares nothing")
	group := append(protowire.AppendTag(nil, 9, protowire.StartGroupType),
		protowire.AppendTag(nil, 9, protowire.EndGroupType)...)
	require.Equal(t, group, decode(messages["TensorProto"], group, 0).encode())
}

// TestAnyBytes: mutators cope with bytes that are not valid inputs.
func TestAnyBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	o := &Models{Donors: [][]byte{{1, 2, 3}}}
	for range 200 {
		data := rich()
		if rng.IntN(2) == 0 {
			data = make([]byte, rng.IntN(40))
			for i := range data {
				data[i] = byte(rng.IntN(64))
			}
		} else {
			data, _ = flipBytes(rng, data)
		}
		genome := Genome(rng, 1+rng.IntN(5))
		for _, mutate := range []func(data, genome []byte) ([]byte, []string){o.Mutate, o.MutateTensor,
			JSON, CSV, NPZ} {
			a, did := mutate(data, genome)
			b, _ := mutate(data, genome)
			require.Equal(t, a, b)
			require.Len(t, did, len(genome)/GeneLen)
		}
		HasLoss(data)
		Symbols(data)
	}
}
