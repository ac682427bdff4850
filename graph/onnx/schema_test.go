package onnx_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"memopt/internal/test/mutate"
)

var enums = map[string][]string{
	"AttributeType": {"UNDEFINED", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS", "TENSORS",
		"GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"},
	"DataLocation": {"DEFAULT", "EXTERNAL"},
}

var scalars = map[string]descriptorpb.FieldDescriptorProto_Type{
	"string": descriptorpb.FieldDescriptorProto_TYPE_STRING,
	"bytes":  descriptorpb.FieldDescriptorProto_TYPE_BYTES,
	"int32":  descriptorpb.FieldDescriptorProto_TYPE_INT32,
	"int64":  descriptorpb.FieldDescriptorProto_TYPE_INT64,
	"uint64": descriptorpb.FieldDescriptorProto_TYPE_UINT64,
	"float":  descriptorpb.FieldDescriptorProto_TYPE_FLOAT,
	"double": descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
}

// schemaField parses one field of mutate.Schema.
func schemaField(text string) *descriptorpb.FieldDescriptorProto {
	var number int32
	parts := strings.SplitN(text, ":", 3)
	if _, err := fmt.Sscan(parts[1], &number); err != nil {
		panic(err)
	}
	typ := strings.TrimRight(parts[2], "*|")
	marks := parts[2][len(typ):]
	f := &descriptorpb.FieldDescriptorProto{
		Name:   proto.String(parts[0]),
		Number: proto.Int32(number),
		Label:  descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
	switch marks {
	case "|":
		f.OneofIndex = proto.Int32(0)
	case "**":
		f.Options = &descriptorpb.FieldOptions{Packed: proto.Bool(true)}
		fallthrough
	case "*":
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if scalar, ok := scalars[typ]; ok {
		f.Type = scalar.Enum()
	} else if enum, ok := strings.CutPrefix(typ, "="); ok {
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
		f.TypeName = proto.String(".onnx." + enum)
	} else {
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		f.TypeName = proto.String(".onnx." + typ)
	}
	return f
}

var schema = sync.OnceValue(func() protoreflect.FileDescriptor {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("onnx.proto"), Package: proto.String("onnx"), Syntax: proto.String("proto2"),
	}
	for line := range strings.Lines(strings.TrimSpace(mutate.Schema)) {
		words := strings.Fields(line)
		m := &descriptorpb.DescriptorProto{Name: proto.String(words[0])}
		for _, w := range words[1:] {
			f := schemaField(w)
			m.Field = append(m.Field, f)
			if f.OneofIndex != nil {
				m.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("value")}}
			}
		}
		file.MessageType = append(file.MessageType, m)
	}
	for _, name := range []string{"AttributeType", "DataLocation"} {
		e := &descriptorpb.EnumDescriptorProto{Name: proto.String(name)}
		for i, v := range enums[name] {
			e.Value = append(e.Value,
				&descriptorpb.EnumValueDescriptorProto{Name: proto.String(v), Number: proto.Int32(int32(i))})
		}
		file.EnumType = append(file.EnumType, e)
	}
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err)
	}
	return fd
})

// message returns an empty message of the schema.
func message(name string) *dynamicpb.Message {
	d := schema().Messages().ByName(protoreflect.Name(name))
	if d == nil {
		panic("no message " + name)
	}
	return dynamicpb.NewMessage(d)
}

// decodeMessage decodes with the schema.
func decodeMessage(t testing.TB, name string, data []byte) *dynamicpb.Message {
	t.Helper()
	m := message(name)
	require.NoError(t, proto.UnmarshalOptions{NoLazyDecoding: true}.Unmarshal(data, m))
	return m
}

// fromText encodes a message given in the text form of protocol buffers.
func fromText(t testing.TB, name, text string) []byte {
	t.Helper()
	m := message(name)
	require.NoError(t, prototext.Unmarshal([]byte(text), m), "the test's own text")
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	return data
}
