package cpu

import (
	"memopt/executor"
	"memopt/executor/small"
	"memopt/graph"
)

// packing is how the kernels of an operator take elements of less than a byte, for example uint4.
type packing uint8

const (
	refused  packing = iota // not at all
	inBits                  // as they are stored
	oneAByte                // in workspace, one a byte: they only move elements
)

// newPacked makes the kernel of a node that may have operands with such elements.
func newPacked(p *executor.Prep, row *Row) (executor.Kernel, error) {
	d := packedType(p)
	switch {
	case d == graph.Undefined || row.Packed == inBits:
		return row.New(p)
	case row.Packed == oneAByte:
		return unpacking.kernel(p, row.New)
	}
	return nil, p.Unsupported("no kernel for elements of type %v, of which a byte holds several", d)
}

// packedType returns the first of a node's types of less than a byte, or Undefined.
func packedType(p *executor.Prep) graph.DType {
	for _, list := range [][]graph.DType{p.In, p.Out} {
		for _, d := range list {
			if small.IsPacked(d) {
				return d
			}
		}
	}
	return graph.Undefined
}
