package mutate

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Schema is onnx.proto (proto2, IR version 13): a message per line with its fields as
// name:number:type, "*" for repeated, "**" for repeated and packed, "|" for the members of the
// message's oneof, and "=" before the name of an enumeration.
const Schema = `
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

// messageType is a message of the schema.
type messageType struct {
	name   string
	fields map[protowire.Number]*fieldInfo
}

// fieldInfo is the schema's entry for a field.
type fieldInfo struct {
	key      string // message and field, as NodeProto.input
	num      protowire.Number
	wire     protowire.Type
	repeated bool
	of       *messageType // of a field that holds a message
	text     bool         // characters, not bytes
}

// wires says how the schema's scalar types are encoded.
var wires = map[string]protowire.Type{
	"string": protowire.BytesType, "bytes": protowire.BytesType, "int32": protowire.VarintType,
	"int64":  protowire.VarintType,
	"uint64": protowire.VarintType, "float": protowire.Fixed32Type, "double": protowire.Fixed64Type,
}

var messages, fields = parseSchema()

// parseSchema returns the messages by name and the fields by key.
func parseSchema() (map[string]*messageType, map[string]*fieldInfo) {
	byName, byKey := map[string]*messageType{}, map[string]*fieldInfo{}
	lines := strings.Split(strings.TrimSpace(Schema), "\n")
	for _, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		byName[name] = &messageType{name, map[protowire.Number]*fieldInfo{}}
	}
	for _, line := range lines {
		words := strings.Fields(line)
		m := byName[words[0]]
		for _, w := range words[1:] {
			f := parseField(w, byName)
			f.key = m.name + "." + f.key
			m.fields[f.num], byKey[f.key] = f, f
		}
	}
	return byName, byKey
}

func parseField(text string, types map[string]*messageType) *fieldInfo {
	parts := strings.SplitN(text, ":", 3)
	f := &fieldInfo{key: parts[0], wire: protowire.BytesType, repeated: strings.HasSuffix(parts[2], "*"),
		text: strings.HasPrefix(parts[2], "string")}
	if _, err := fmt.Sscan(parts[1], &f.num); err != nil {
		panic("mutate: the schema says " + text)
	}
	typ := strings.TrimRight(parts[2], "*|")
	if wire, scalar := wires[typ]; scalar {
		f.wire = wire
	} else if strings.HasPrefix(typ, "=") {
		f.wire = protowire.VarintType
	} else if f.of = types[typ]; f.of == nil {
		panic("mutate: the schema says " + text)
	}
	return f
}
