package dataset

import (
	"fmt"

	"memopt/executor"
	"memopt/executor/small"
	"memopt/graph"
)

// Numpy has no types of less than a byte, and no floating-point types of 8 bits. Their arrays have a byte for
// each element: int4 and int2 are int8, uint4 and uint2 are uint8, with the numbers themselves; float4e2m1
// and the types of 8 bits are uint8, with the elements' bits.

// toArray returns a tensor as numpy has it.
func toArray(t *executor.Tensor) *executor.Tensor {
	switch {
	case small.IsPacked(t.DType):
		a := &executor.Tensor{DType: small.Unpacked(t.DType), Shape: t.Shape, Data: make([]byte, t.Len())}
		small.Unpack(t.DType, a.Data, t.Data, 0)
		return a
	case small.IsFloat(t.DType):
		return &executor.Tensor{DType: graph.Uint8, Shape: t.Shape, Data: t.Data}
	}
	return t
}

// fromArray returns the tensor of a type that an array stands for: the array itself, unless numpy does not
// have the type.
func fromArray(a *executor.Tensor, d graph.DType) (*executor.Tensor, error) {
	switch {
	case small.IsPacked(d) && a.DType == small.Unpacked(d):
		return pack(a, d)
	case d.Bits() == 8 && small.IsFloat(d) && a.DType == graph.Uint8:
		return &executor.Tensor{DType: d, Shape: a.Shape, Data: a.Data}, nil
	}
	return a, nil
}

// pack packs an array of a byte for each element.
func pack(a *executor.Tensor, d graph.DType) (*executor.Tensor, error) {
	n, ok := executor.Bytes(d, a.Shape)
	if !ok {
		return nil, fmt.Errorf("%v is too large", a)
	}
	t := &executor.Tensor{DType: d, Shape: a.Shape, Data: make([]byte, (n+7)&^7)[:n]}
	small.Pack(d, t.Data, 0, a.Data)
	var back [1]byte
	for i, b := range a.Data {
		if small.Unpack(d, back[:], t.Data, i); back[0] != b {
			number := int(b)
			if a.DType == graph.Int8 {
				number = int(int8(b))
			}
			return nil, fmt.Errorf("element %d is %d, which %v does not have", i, number, d)
		}
	}
	return t, nil
}
