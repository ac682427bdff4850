package option

import (
	"memopt"
	"memopt/cmd/memopt/internal/cli"
)

// Moves reads the flags of values that move to the host. They do so for the sake of a budget, in memopt's own
// runtime; none moves where asked is false.
func (s *SelectionFlags) Moves(flags *cli.MoveFlags) (moves memopt.MoveOptions, asked bool, err error) {
	o, err := flags.Options()
	if err != nil {
		return moves, false, err
	}
	if moves = (memopt.MoveOptions{Link: o.Link, HostBudget: o.HostBudget}); !moves.Asked() {
		return memopt.MoveOptions{}, false, nil
	}
	if !s.BudgetFlags.Asks() {
		return moves, false, cli.Usage("--link and --host-budget move values for the sake of a budget: add --budget")
	}
	if s.In == cli.OrtName {
		return moves, false, cli.Usage("--budget-in ort and --link cannot be combined: ONNX Runtime moves no values")
	}
	return moves, true, nil
}

// CheckMoves refuses a strategy that moves no values.
func CheckMoves(s memopt.Strategy) (memopt.Budget, error) {
	b, ok := s.(memopt.Budget)
	if !ok || b.Clusters || b.Runtime {
		return b, cli.Usage("--link and --host-budget are for plans of nodes to a budget in memopt's own runtime")
	}
	return b, nil
}
