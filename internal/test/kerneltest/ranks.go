package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveRankCases) }

// moveRankCases are operators of ranks, and their errors, in a session that is no rank. The operations of
// several ranks are tested in executor/cpu.
func moveRankCases() []Case {
	full, like := moveCount(graph.Float32, 10), moveCount(graph.Float32, 2, 3)
	taken := movePick(full, []int{2, 3}, func(index []int) int { return 4 + 3*index[0] + index[1] })
	counts := executor.NewTensor[uint8](graph.Bool, []int{4}, 1, 1, 1, 1)
	ranks := moveAttrs("ranks", int64(4))
	return []Case{
		moveCase(op.Unpack, "middle", taken, moveAttrs("offset", int64(4)), full, like),
		moveFails(op.Unpack, "beyond", "from number 5 on", moveAttrs("offset", int64(5)), full, like),
		moveFails(op.AllReduceStart, "no rank", "one of 4 ranks: start it with mpirun", ranks, like, counts),
		moveFails(op.ReduceScatterStart, "no rank", "one of 4 ranks", ranks, moveCount(graph.Float32, 8), counts),
		moveFails(op.AllGatherStart, "no rank", "one of 4 ranks", ranks, full),
		moveFails(op.RankPiece, "no rank", "one of 4 ranks", ranks, full),
		moveFails(op.CollectiveWait, "no rank", "no rank", nil, full),
	}
}
