package onnx_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"memopt/graph/onnx"
	"memopt/internal/test/graphtest"
)

const sharedModels = "../../../shared/models"

// everything is the hand-made model with all fields.
func everything(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/everything.textproto")
	require.NoError(t, err)
	return fromText(t, "ModelProto", string(text))
}

// requireSame decodes and encodes a model and compares with the second decoder.
func requireSame(t *testing.T, data []byte) {
	t.Helper()
	m, err := onnx.Decode(data, "")
	require.NoError(t, err)
	out, err := onnx.Encode(m)
	require.NoError(t, err)
	want, got := decodeMessage(t, "ModelProto", data), decodeMessage(t, "ModelProto", out)
	if !proto.Equal(want, got) {
		require.Equal(t, want.String(), got.String())
		require.Fail(t, "the messages differ in their unknown fields")
	}
	again, err := onnx.Decode(out, "")
	require.NoError(t, err)
	stable, err := onnx.Encode(again)
	require.NoError(t, err)
	require.Equal(t, out, stable, "encoding is not stable")
	require.Equal(t, onnx.StructureSHA256(m), onnx.StructureSHA256(again))
}

func TestRoundTripEverything(t *testing.T) {
	requireSame(t, everything(t))
}

// TestEverythingIsInTheSample keeps the hand-made model complete: every field of
// the schema occurs in it.
func TestEverythingIsInTheSample(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	eachMessage(decodeMessage(t, "ModelProto", everything(t)), func(m protoreflect.Message) {
		m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			seen[f.FullName()] = true
			return true
		})
	})
	for i := range schema().Messages().Len() {
		fields := schema().Messages().Get(i).Fields()
		for j := range fields.Len() {
			name := fields.Get(j).FullName()
			switch name {
			case "onnx.TensorProto.segment", "onnx.Segment.begin", "onnx.Segment.end":
				continue // deprecated; in faults.txt
			}
			assert.True(t, seen[name], "field %s is missing in everything.textproto", name)
		}
	}
}

func TestRoundTripSharedModels(t *testing.T) {
	for _, s := range graphtest.AllSamples.Files(t) {
		t.Run(s.Name, func(t *testing.T) {
			data, err := os.ReadFile(s.File)
			require.NoError(t, err)
			requireSame(t, data)
			requireView(t, data)
		})
	}
}

// TestRoundTripDecorated adds unknown fields, explicit empties and parts that
// memopt does not interpret at random places of the hand-made model.
func TestRoundTripDecorated(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			m := decodeMessage(t, "ModelProto", everything(t))
			eachMessage(m, func(m protoreflect.Message) { decorate(rng, m) })
			data, err := proto.Marshal(m)
			require.NoError(t, err)
			requireSame(t, data)
			requireSame(t, shuffled(t, rng, m))
		})
	}
}

// fixedFields may not be empty in a valid model, or change what is valid.
var fixedFields = map[protoreflect.FullName]bool{
	"onnx.ModelProto.ir_version": true, "onnx.NodeProto.op_type": true, "onnx.FunctionProto.name": true,
	"onnx.AttributeProto.name": true, "onnx.AttributeProto.type": true, "onnx.TensorProto.data_type": true,
	"onnx.ValueInfoProto.name": true, "onnx.AttributeProto.f": true, "onnx.AttributeProto.i": true,
	"onnx.AttributeProto.s":           true,
	"onnx.OperatorSetIdProto.version": true, "onnx.TensorProto.raw_data": true,
}

func decorate(rng *rand.Rand, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if m.Has(f) || f.IsList() || f.Message() != nil || f.ContainingOneof() != nil || fixedFields[f.FullName()] ||
			rng.IntN(3) > 0 {
			continue
		}
		m.Set(f, f.Default())
	}
	if rng.IntN(3) > 0 {
		return
	}
	var unknown []byte
	for range 1 + rng.IntN(3) {
		num := protowire.Number(1000 + rng.IntN(3))
		switch rng.IntN(4) {
		case 0:
			unknown = protowire.AppendTag(unknown, num, protowire.VarintType)
			unknown = protowire.AppendVarint(unknown, rng.Uint64())
		case 1:
			unknown = protowire.AppendTag(unknown, num, protowire.BytesType)
			unknown = protowire.AppendString(unknown, "unknown")
		case 2:
			unknown = protowire.AppendTag(unknown, num, protowire.Fixed64Type)
			unknown = protowire.AppendFixed64(unknown, rng.Uint64())
		default:
			unknown = protowire.AppendTag(unknown, num, protowire.StartGroupType)
			unknown = protowire.AppendTag(unknown, 1, protowire.VarintType)
			unknown = append(unknown, 5)
			unknown = protowire.AppendTag(unknown, num, protowire.EndGroupType)
		}
	}
	m.SetUnknown(unknown)
}

// shuffled encodes a message with its fields in random order, repeated ones among
// themselves in theirs, and lists unpacked.
func shuffled(t *testing.T, rng *rand.Rand, m protoreflect.Message) []byte {
	type item struct {
		f    protoreflect.FieldDescriptor
		data []byte
	}
	var items []item
	one := func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
		if f.Message() != nil {
			data := protowire.AppendTag(nil, f.Number(), protowire.BytesType)
			items = append(items, item{f, protowire.AppendBytes(data, shuffled(t, rng, v.Message()))})
			return
		}
		single := dynamicpb.NewMessage(m.Descriptor())
		if f.IsList() {
			single.Mutable(f).List().Append(v)
		} else {
			single.Set(f, v)
		}
		data, err := proto.Marshal(single)
		require.NoError(t, err)
		items = append(items, item{f, data})
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !f.IsList() {
			one(f, v)
			return true
		}
		for i := range v.List().Len() {
			one(f, v.List().Get(i))
		}
		return true
	})
	byField := map[protoreflect.FieldNumber][]item{}
	for _, it := range items {
		byField[it.f.Number()] = append(byField[it.f.Number()], it)
	}
	rng.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	var out []byte
	for _, it := range items {
		queue := byField[it.f.Number()]
		out = append(out, queue[0].data...)
		byField[it.f.Number()] = queue[1:]
	}
	return append(out, m.GetUnknown()...)
}

// eachMessage calls f for a message and all messages in it, outermost first.
func eachMessage(m protoreflect.Message, f func(protoreflect.Message)) {
	f(m)
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Message() == nil:
		case d.IsList():
			for i := range v.List().Len() {
				eachMessage(v.List().Get(i).Message(), f)
			}
		default:
			eachMessage(v.Message(), f)
		}
		return true
	})
}

// TestMergedMessages: a message field that occurs twice is the merge of both.
func TestMergedMessages(t *testing.T) {
	head := fromText(t, "ModelProto", `ir_version: 8 opset_import { version: 17 }
	  graph { name: "first" input { name: "x" } node { op_type: "Relu" input: "x" output: "y" } }`)
	tail := fromText(t, "ModelProto", `graph { name: "second" node { op_type: "If" input: "x" output: "z"
	  attribute { name: "then_branch" type: GRAPH g { name: "a" } } } output { name: "y" } }`)
	data := append(head, tail...)
	requireSame(t, data)
	m, err := onnx.Decode(data, "")
	require.NoError(t, err)
	assert.Equal(t, "second", m.Graph.Name)
	assert.Len(t, m.Graph.Nodes, 2)
}

// TestLastScalarWins: an empty occurrence before or after a full one.
func TestLastScalarWins(t *testing.T) {
	base := fromText(t, "ModelProto", `ir_version: 8 graph { }`)
	full := fromText(t, "ModelProto", `producer_name: "p" doc_string: "d" model_version: 3`)
	empty := fromText(t, "ModelProto", `producer_name: "" doc_string: "" model_version: 0`)
	for _, order := range [][][]byte{{base, full, empty}, {base, empty, full}, {empty, base, full, empty, full}} {
		var data []byte
		for _, part := range order {
			data = append(data, part...)
		}
		requireSame(t, data)
	}
}
