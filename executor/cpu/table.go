package cpu

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// Row is the CPU executor's entry for an operator: its kernel, or the reason why it has none.
type Row struct {
	Kind graph.Kind
	// New makes the kernel of a node.
	New func(p *executor.Prep) (executor.Kernel, error)
	// Why says why there is no kernel, if New is nil.
	Why string
	// Packed says how the kernels take elements of less than a byte.
	Packed packing
}

var table = buildTable(viewRows, elementwiseRows, reduceRows, normRows, moveRows, productRows, convRows, sequenceRows,
	quantRows, deeployRows, rankRows, compiledRows)

// buildTable puts the rows of all families in their places. A duplicate is a bug, found by the
// first test that runs.
func buildTable(families ...[]Row) [op.NumKinds]Row {
	var t [op.NumKinds]Row
	for _, rows := range families {
		for _, row := range rows {
			if t[row.Kind].Kind != op.Unknown {
				panic(fmt.Sprintf("cpu: %s has two rows", op.Of(row.Kind).Name))
			}
			t[row.Kind] = row
		}
	}
	return t
}

// Of returns the row of a kind.
func Of(k graph.Kind) *Row { return &table[k] }

// Device is the CPU.
type Device struct{}

// Name returns the device's name.
func (Device) Name() string { return "cpu" }

// Kernel returns the kernel for a node.
func (Device) Kernel(p *executor.Prep) (executor.Kernel, error) {
	row := Of(p.Node.Kind)
	switch {
	case row.New != nil:
		return newPacked(p, row)
	case row.Why != "":
		return nil, p.Unsupported("the CPU executor has no kernel: %s", row.Why)
	}
	return nil, p.Unsupported("the CPU executor has no kernel for it")
}

// unsupportedTypes is the error for element types that a kernel does not take.
func unsupportedTypes(p *executor.Prep) error {
	return p.Unsupported("no kernel for input types %v", p.In)
}
