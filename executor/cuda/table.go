package cuda

import (
	"fmt"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
)

// Row is the CUDA device's entry for an operator: its kernel, or the reason why the host runs it.
type Row struct {
	Kind graph.Kind
	// New makes the kernel of a node. The error is an *executor.Unsupported if a kernel for the
	// node's element types or attributes is missing: then the host runs the node. Attributes are
	// known to make sense by then, since the host's kernel could be made.
	New func(d *Device, p *executor.Prep) (executor.Kernel, error)
	// HostInputs lists inputs whose contents New's kernel reads on the host.
	HostInputs []int
	// Why says why there is no kernel, if New is nil.
	Why string
}

// table has the rows of all families in their places. Each family has a file of its own,
// table_NAME.go.
var table = buildTable(viewRows, elementwiseRows, productRows, reduceRows, moveRows, randomRows, fusedRows, convRows,
	attentionRows, bitRows, trainingRows, recurrentRows, quantRows, visionRows, deeployRows, ranksRows)

// buildTable puts the rows of all families in their places. An operator without a host kernel needs
// no row: its reason is the host's. TestComplete names any other operator that is left out.
func buildTable(families ...[]Row) [op.NumKinds]Row {
	var t [op.NumKinds]Row
	for _, rows := range families {
		for _, row := range rows {
			if t[row.Kind].Kind != op.Unknown {
				panic(fmt.Sprintf("cuda: %s has two rows", op.Of(row.Kind).Name))
			}
			t[row.Kind] = row
		}
	}
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		if host := cpu.Of(k); t[k].Kind == op.Unknown && host.New == nil && host.Why != "" {
			t[k] = Row{Kind: k, Why: host.Why}
		}
	}
	return t
}

// Of returns the row of a kind.
func Of(k graph.Kind) *Row { return &table[k] }

// OnHost returns the reason why the host runs every node of an operator. "" means that the device
// runs the nodes whose types and attributes it has a kernel for, and those at the boundary of a
// training graph, which need no kernel.
func OnHost(k graph.Kind) string {
	if why := executor.AlwaysHost(k); why != "" {
		return why
	}
	return table[k].Why
}

// Why the host runs operators that training graphs do not hold. testdata/training.txt lists those that the
// graphs hold which PyTorch's exporters, ONNX Runtime's training and autograd make. A kernel costs a module of
// PTX and its tests; a node on the host costs a copy of each operand.
const (
	notTrained   = "no known training graph holds it"
	noGradient   = "no gradient of it is known, so that no training graph holds it"
	ofIntegers   = "no gradient flows through products of integers"
	forInference = "it is part of models that were fused for inference"
)

// viewRows are the operators that only give their input's memory another name.
var viewRows = []Row{
	{Kind: op.Identity, New: hostView},
	{Kind: op.Flatten, New: hostView},
	{Kind: op.Reshape, New: hostView, HostInputs: []int{1}},
	{Kind: op.Squeeze, New: hostView, HostInputs: []int{1}},
	{Kind: op.Unsqueeze, New: hostView, HostInputs: []int{1}},
}
