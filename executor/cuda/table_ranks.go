package cuda

import "memopt/graph/op"

// betweenRanks is why the host runs the ranks' collective operations.
const betweenRanks = "ranks exchange data in the host's memory"

// ranksRows: memopt's own operators between the ranks of a job.
var ranksRows = []Row{
	{Kind: op.AllGatherStart, Why: betweenRanks},
	{Kind: op.AllReduceStart, Why: betweenRanks},
	{Kind: op.CollectiveWait, Why: betweenRanks},
	{Kind: op.RankPiece, Why: betweenRanks},
	{Kind: op.ReduceScatterStart, Why: betweenRanks},
	{Kind: op.Unpack, Why: betweenRanks},
}
