package kerneltest

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// Oracle is a set of oracles for the wanted outputs of an operator's cases: this package's own
// computations, and the outside sources that agree.
type Oracle uint16

const (
	// Formula: the operator's definition, computed plainly: element by element, in float64 or whole
	// numbers. The definition is that of the operator's page at onnx.ai, for ONNX Runtime's operators
	// its ContribOperators.md and training_op_defs.cc, for Deeploy's its templates.
	Formula Oracle = 1 << iota
	// Places means that the result is a rearrangement, for example a transpose: the source of each
	// element is known.
	Places
	// Numbers: written down, worked out by hand.
	Numbers
	// Streams means memopt's own definition of draws (stream.go), which no other runtime shares;
	// TestDraws in executor/cpu tests that the draws are distributed as the operator promises.
	Streams
	// Groups means the results of a group of several ranks, which a case, with its one session, cannot
	// hold. TestRanks in executor/cpu compares them with plain sums.
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

// OracleRow has the oracles of an operator's cases.
type OracleRow struct {
	By Oracle
	// Why is the reason for cases without an outside oracle.
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
