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
)

// onnxSchema is onnx.proto (proto2, IR version 13): a message per line with its
// fields as name:number:type, "*" for repeated, "**" for repeated and packed, and
// "|" for the members of the message's oneof. It feeds the second decoder that the
// tests compare with.
const onnxSchema = `
AttributeProto name:1:string f:2:float i:3:int64 s:4:bytes t:5:TensorProto g:6:GraphProto floats:7:float* ints:8:int64* strings:9:bytes* tensors:10:TensorProto* graphs:11:GraphProto* doc_string:13:string tp:14:TypeProto type_protos:15:TypeProto* type:20:=AttributeType ref_attr_name:21:string sparse_tensor:22:SparseTensorProto sparse_tensors:23:SparseTensorProto*
ValueInfoProto name:1:string type:2:TypeProto doc_string:3:string metadata_props:4:StringStringEntryProto*
NodeProto input:1:string* output:2:string* name:3:string op_type:4:string attribute:5:AttributeProto* doc_string:6:string domain:7:string overload:8:string metadata_props:9:StringStringEntryProto* device_configurations:10:NodeDeviceConfigurationProto*
IntIntListEntryProto key:1:int64 value:2:int64*
NodeDeviceConfigurationProto configuration_id:1:string sharding_spec:2:ShardingSpecProto* pipeline_stage:3:int32
ShardingSpecProto tensor_name:1:string device:2:int64* index_to_device_group_map:3:IntIntListEntryProto* sharded_dim:4:ShardedDimProto*
ShardedDimProto axis:1:int64 simple_sharding:2:SimpleShardedDimProto*
SimpleShardedDimProto dim_value:1:int64| dim_param:2:string| num_shards:3:int64
TrainingInfoProto initialization:1:GraphProto algorithm:2:GraphProto initialization_binding:3:StringStringEntryProto* update_binding:4:StringStringEntryProto*
ModelProto ir_version:1:int64 producer_name:2:string producer_version:3:string domain:4:string model_version:5:int64 doc_string:6:string graph:7:GraphProto opset_import:8:OperatorSetIdProto* metadata_props:14:StringStringEntryProto* training_info:20:TrainingInfoProto* functions:25:FunctionProto* configuration:26:DeviceConfigurationProto*
DeviceConfigurationProto name:1:string num_devices:2:int32 device:3:string*
StringStringEntryProto key:1:string value:2:string
TensorAnnotation tensor_name:1:string quant_parameter_tensor_names:2:StringStringEntryProto*
GraphProto node:1:NodeProto* name:2:string initializer:5:TensorProto* doc_string:10:string input:11:ValueInfoProto* output:12:ValueInfoProto* value_info:13:ValueInfoProto* quantization_annotation:14:TensorAnnotation* sparse_initializer:15:SparseTensorProto* metadata_props:16:StringStringEntryProto*
Segment begin:1:int64 end:2:int64
TensorProto dims:1:int64* data_type:2:int32 segment:3:Segment float_data:4:float** int32_data:5:int32** string_data:6:bytes* int64_data:7:int64** name:8:string raw_data:9:bytes double_data:10:double** uint64_data:11:uint64** doc_string:12:string external_data:13:StringStringEntryProto* data_location:14:=DataLocation metadata_props:16:StringStringEntryProto*
SparseTensorProto values:1:TensorProto indices:2:TensorProto dims:3:int64*
TensorShapeProto dim:1:Dimension*
Dimension dim_value:1:int64| dim_param:2:string| denotation:3:string
TypeProto tensor_type:1:TensorType| sequence_type:4:ElemType| map_type:5:MapType| opaque_type:7:OpaqueType| sparse_tensor_type:8:TensorType| optional_type:9:ElemType| denotation:6:string
TensorType elem_type:1:int32 shape:2:TensorShapeProto
ElemType elem_type:1:TypeProto
MapType key_type:1:int32 value_type:2:TypeProto
OpaqueType domain:1:string name:2:string
OperatorSetIdProto domain:1:string version:2:int64
FunctionProto name:1:string input:4:string* output:5:string* attribute:6:string* node:7:NodeProto* doc_string:8:string opset_import:9:OperatorSetIdProto* domain:10:string attribute_proto:11:AttributeProto* value_info:12:ValueInfoProto* overload:13:string metadata_props:14:StringStringEntryProto*
`

var enums = map[string][]string{
	"AttributeType": {"UNDEFINED", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS", "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"},
	"DataLocation":  {"DEFAULT", "EXTERNAL"},
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

// schemaField parses one field of onnxSchema.
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
	for line := range strings.Lines(strings.TrimSpace(onnxSchema)) {
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
			e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(v), Number: proto.Int32(int32(i))})
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
