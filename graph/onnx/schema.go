package onnx

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of onnx.proto, a block per message, as far as the Go form has a
// field for them.
const (
	modelIRVersion       protowire.Number = 1
	modelProducerName    protowire.Number = 2
	modelProducerVersion protowire.Number = 3
	modelDomain          protowire.Number = 4
	modelVersion         protowire.Number = 5
	modelDoc             protowire.Number = 6
	modelGraph           protowire.Number = 7
	modelOpset           protowire.Number = 8
	modelMetadata        protowire.Number = 14
	modelTrainingInfo    protowire.Number = 20
	modelFunction        protowire.Number = 25
	modelConfiguration   protowire.Number = 26
)

const (
	opsetDomain  protowire.Number = 1
	opsetVersion protowire.Number = 2
)

const (
	entryKey   protowire.Number = 1
	entryValue protowire.Number = 2
)

const (
	graphNode        protowire.Number = 1
	graphName        protowire.Number = 2
	graphInitializer protowire.Number = 5
	graphDoc         protowire.Number = 10
	graphInput       protowire.Number = 11
	graphOutput      protowire.Number = 12
	graphValueInfo   protowire.Number = 13
	graphSparse      protowire.Number = 15
	graphMetadata    protowire.Number = 16
)

const (
	nodeInput     protowire.Number = 1
	nodeOutput    protowire.Number = 2
	nodeName      protowire.Number = 3
	nodeOp        protowire.Number = 4
	nodeAttribute protowire.Number = 5
	nodeDoc       protowire.Number = 6
	nodeDomain    protowire.Number = 7
	nodeOverload  protowire.Number = 8
	nodeMetadata  protowire.Number = 9
	nodeDevices   protowire.Number = 10
)

// Multi-device annotations: DeviceConfigurationProto, NodeDeviceConfigurationProto, ShardingSpecProto,
// ShardedDimProto and SimpleShardedDimProto. An IntIntListEntryProto has an entry's fields.
const (
	configName           protowire.Number = 1
	configNumDevices     protowire.Number = 2
	configDevice         protowire.Number = 3
	devicesConfiguration protowire.Number = 1
	devicesSharding      protowire.Number = 2
	devicesStage         protowire.Number = 3
	shardingTensor       protowire.Number = 1
	shardingDevice       protowire.Number = 2
	shardingGroup        protowire.Number = 3
	shardingAxis         protowire.Number = 4
	axisAxis             protowire.Number = 1
	axisPart             protowire.Number = 2
	partBlocks           protowire.Number = 1
	partSymbol           protowire.Number = 2
	partShards           protowire.Number = 3
)

const (
	funcName      protowire.Number = 1
	funcInput     protowire.Number = 4
	funcOutput    protowire.Number = 5
	funcAttrName  protowire.Number = 6
	funcNode      protowire.Number = 7
	funcDoc       protowire.Number = 8
	funcOpset     protowire.Number = 9
	funcDomain    protowire.Number = 10
	funcAttr      protowire.Number = 11
	funcValueInfo protowire.Number = 12
	funcOverload  protowire.Number = 13
	funcMetadata  protowire.Number = 14
)

const (
	attrName          protowire.Number = 1
	attrFloat         protowire.Number = 2
	attrInt           protowire.Number = 3
	attrString        protowire.Number = 4
	attrTensor        protowire.Number = 5
	attrGraph         protowire.Number = 6
	attrFloats        protowire.Number = 7
	attrInts          protowire.Number = 8
	attrStrings       protowire.Number = 9
	attrTensors       protowire.Number = 10
	attrGraphs        protowire.Number = 11
	attrDoc           protowire.Number = 13
	attrType          protowire.Number = 14
	attrTypes         protowire.Number = 15
	attrKind          protowire.Number = 20
	attrRef           protowire.Number = 21
	attrSparseTensor  protowire.Number = 22
	attrSparseTensors protowire.Number = 23
)

// attrKinds has, for each AttributeProto.AttributeType, its name and the field that
// holds the value of such an attribute.
var attrKinds = [...]struct {
	name  string
	field protowire.Number
}{
	0:  {"UNDEFINED", 0},
	1:  {"FLOAT", attrFloat},
	2:  {"INT", attrInt},
	3:  {"STRING", attrString},
	4:  {"TENSOR", attrTensor},
	5:  {"GRAPH", attrGraph},
	6:  {"FLOATS", attrFloats},
	7:  {"INTS", attrInts},
	8:  {"STRINGS", attrStrings},
	9:  {"TENSORS", attrTensors},
	10: {"GRAPHS", attrGraphs},
	11: {"SPARSE_TENSOR", attrSparseTensor},
	12: {"SPARSE_TENSORS", attrSparseTensors},
	13: {"TYPE_PROTO", attrType},
	14: {"TYPE_PROTOS", attrTypes},
}

const (
	infoName protowire.Number = 1
	infoType protowire.Number = 2
	infoDoc  protowire.Number = 3
)

const (
	typeTensor   protowire.Number = 1
	typeSequence protowire.Number = 4
	typeMap      protowire.Number = 5
	typeOpaque   protowire.Number = 7
	typeSparse   protowire.Number = 8
	typeOptional protowire.Number = 9
)

const (
	tensorTypeElem  protowire.Number = 1
	tensorTypeShape protowire.Number = 2
	elemTypeElem    protowire.Number = 1 // of a sequence and of an optional
	mapTypeKey      protowire.Number = 1
	mapTypeValue    protowire.Number = 2
	opaqueDomain    protowire.Number = 1
	opaqueName      protowire.Number = 2
	shapeDim        protowire.Number = 1
	dimValue        protowire.Number = 1
	dimParam        protowire.Number = 2
)

const (
	tensorDims      protowire.Number = 1
	tensorDType     protowire.Number = 2
	tensorSegment   protowire.Number = 3
	tensorFloats    protowire.Number = 4
	tensorInt32s    protowire.Number = 5
	tensorStrings   protowire.Number = 6
	tensorInt64s    protowire.Number = 7
	tensorName      protowire.Number = 8
	tensorRaw       protowire.Number = 9
	tensorDoubles   protowire.Number = 10
	tensorUint64s   protowire.Number = 11
	tensorDoc       protowire.Number = 12
	tensorExternal  protowire.Number = 13
	tensorDataPlace protowire.Number = 14
	placeExternal                    = 1 // TensorProto.DataLocation.EXTERNAL
	sparseValues    protowire.Number = 1
	sparseIndices   protowire.Number = 2
	sparseDims      protowire.Number = 3
	trainInitialize protowire.Number = 1 // of TrainingInfoProto
	trainAlgorithm  protowire.Number = 2
)

// message names a message type of onnx.proto in the table of messages with tensors.
type message uint8

const (
	noTensors message = iota // any message that holds no tensor
	msgModel
	msgGraph
	msgNode
	msgFunction
	msgAttr
	msgTensor
	msgSparse
	msgTraining
)

// tensorsIn returns the message types in a message's fields that hold tensors, directly or deeper.
func tensorsIn(m message, num protowire.Number) message {
	switch m {
	case msgModel:
		switch num {
		case modelGraph:
			return msgGraph
		case modelTrainingInfo:
			return msgTraining
		case modelFunction:
			return msgFunction
		}
	case msgTraining:
		if num == trainInitialize || num == trainAlgorithm {
			return msgGraph
		}
	case msgGraph:
		switch num {
		case graphNode:
			return msgNode
		case graphInitializer:
			return msgTensor
		case graphSparse:
			return msgSparse
		}
	case msgNode:
		if num == nodeAttribute {
			return msgAttr
		}
	case msgFunction:
		switch num {
		case funcNode:
			return msgNode
		case funcAttr:
			return msgAttr
		}
	case msgAttr:
		switch num {
		case attrTensor, attrTensors:
			return msgTensor
		case attrSparseTensor, attrSparseTensors:
			return msgSparse
		case attrGraph, attrGraphs:
			return msgGraph
		}
	case msgSparse:
		if num == sparseValues || num == sparseIndices {
			return msgTensor
		}
	}
	return noTensors
}
