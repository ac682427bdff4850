// Package safetensors reads and writes files of named tensors in the safetensors format:
// https://github.com/huggingface/safetensors#format
//
// A file is the length of its header as eight little-endian bytes, the header, and the tensors'
// contents one after the other. The header is a JSON object: each tensor's name with its dtype,
// its shape, and where its contents begin and end behind the header; and, if there is any,
// "__metadata__" with an object of strings. Contents are row-major and little-endian, and leave no
// byte of the rest of the file unused or used twice.
package safetensors

import "memopt/graph"

// Entry describes a tensor of a file.
type Entry struct {
	Name  string
	DType graph.DType
	Shape []int // no dim is negative; empty for a scalar
}

// maxHeader is the most bytes of a header that the format allows.
const maxHeader = 100_000_000

// lengthBytes is the size of the header's length, which begins a file.
const lengthBytes = 8

// The header's length is a multiple of alignment, so that contents are aligned; the header is
// padded with spaces.
const alignment = 8

// metadataKey is the name in the header that is no tensor's.
const metadataKey = "__metadata__"

// dtypes are the format's names of element types, in the order that the reference
// implementation arranges tensors: that of rising alignment.
var dtypes = []struct {
	dtype graph.DType
	name  string
}{
	{graph.Bool, "BOOL"},
	{graph.Uint8, "U8"},
	{graph.Int8, "I8"},
	{graph.Int16, "I16"},
	{graph.Uint16, "U16"},
	{graph.Float16, "F16"},
	{graph.BFloat16, "BF16"},
	{graph.Int32, "I32"},
	{graph.Uint32, "U32"},
	{graph.Float32, "F32"},
	{graph.Float64, "F64"},
	{graph.Int64, "I64"},
	{graph.Uint64, "U64"},
}

// rank returns a type's place in dtypes, -1 where the format has no such type.
func rank(d graph.DType) int {
	for i := range dtypes {
		if dtypes[i].dtype == d {
			return i
		}
	}
	return -1
}

// dtypeNames lists the names, for messages.
func dtypeNames() string {
	text := ""
	for i := range dtypes {
		if i > 0 {
			text += ", "
		}
		text += dtypes[i].name
	}
	return text
}
