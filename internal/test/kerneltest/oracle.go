package kerneltest

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// Oracle is a set of what holds the outputs that an operator's cases want: how this package comes
// by them, and what from outside it agrees.
type Oracle uint16

const (
	// Formula: the operator's definition, computed plainly: element by element, in float64 or whole
	// numbers. The definition is that of the operator's page at onnx.ai, for ONNX Runtime's operators
	// its ContribOperators.md and training_op_defs.cc, for Deeploy's its templates.
	Formula Oracle = 1 << iota
	// Places: which element of which operand each element of the result is.
	Places
	// Numbers: written down, worked out by hand.
	Numbers
	// Streams: memopt's own definition of what is drawn (stream.go). Nobody else draws so; that the
	// draws are distributed as the operator promises is tested by TestDraws in executor/cpu.
	Streams
	// Groups: of several ranks: what a group of them gets, which no case can say, since a case has one
	// session. TestRanks in executor/cpu compares it with plain sums.
	Groups

	// Torch: PyTorch printed the numbers; a comment at the cases names the function.
	Torch
	// Differences: of a gradient: finite differences of the operator whose gradient it is, which
	// TestDifferences takes.
	Differences
	// NodeTests: ONNX's own node tests, with numbers by ONNX's reference; TestNodes in executor/cpu
	// runs them.
	NodeTests
	// Runtime: stock ONNX Runtime gives the outputs of the cases; TestRuntime compares them.
	Runtime
)

// Outside are the oracles that are no code of this package.
const Outside = Torch | Differences | NodeTests | Runtime

// OracleRow is what holds the cases of an operator.
type OracleRow struct {
	By Oracle
	// Why says why nothing from outside holds them, where that is so.
	Why string
}

// OracleOf returns the row of a kind; kinds without a kernel have an empty one.
func OracleOf(k graph.Kind) OracleRow { return oracles[k] }

// oracles are the rows of all groups.
var oracles = func() (rows [op.NumKinds]OracleRow) {
	for _, g := range oracleGroups {
		for _, k := range g.kinds {
			if rows[k].By != 0 {
				panic(fmt.Sprintf("kerneltest: %s has two rows of oracles", op.Of(k).Name))
			}
			rows[k] = OracleRow{g.by, g.why}
		}
	}
	return rows
}()
