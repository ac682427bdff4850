package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
)

// ranked differentiates (x*w+b)² and appends the update of one of several ranks.
func ranked(t *testing.T, o autograd.Optimizer, accumulate bool) (*autograd.Joint, error) {
	j, err := autograd.Differentiate(squares(t, graph.Float32), autograd.Options{Accumulate: accumulate,
		Losses: []autograd.Loss{{Name: "y", Seed: true}}, Wrt: []string{"w", "b"}})
	require.NoError(t, err)
	if accumulate {
		return autograd.UpdateStep(j, o)
	}
	return j, autograd.AppendOptimizer(j, o)
}

// TestRanksRefused: what several ranks cannot have.
func TestRanksRefused(t *testing.T) {
	for want, r := range map[string]autograd.Ranks{
		"-1 ranks: wanted at least one":            {Count: -1},
		"ZeRO stage 3: wanted 0, 1 or 2":           {Count: 2, Zero: 3},
		"ZeRO stage -1: wanted 0, 1 or 2":          {Count: 2, Zero: -1},
		"buckets of -4 bytes: wanted at least one": {Count: 2, BucketBytes: -4},
	} {
		_, err := ranked(t, autograd.Optimizer{Kind: "sgd", LR: 1, Ranks: r}, false)
		require.ErrorContains(t, err, want)
	}
	_, err := ranked(t, autograd.Optimizer{Kind: "sgd", LR: 1, KeepGrads: true, Ranks: autograd.Ranks{Count: 2}}, false)
	require.ErrorContains(t, err, "gradients cannot be kept with several ranks")

	j, err := autograd.Differentiate(squares(t, graph.Float32), autograd.Options{
		Losses: []autograd.Loss{{Name: "y", Seed: true}}, Wrt: []string{"w", "b"}})
	require.NoError(t, err)
	_, err = autograd.CombineStep(j, autograd.Ranks{Count: 2})
	require.ErrorContains(t, err, "wanted a training graph that accumulates gradients, and several ranks")
}

// kinds counts the nodes of operators of ranks.
func kinds(m *graph.Model) map[string]int {
	count := map[string]int{}
	for _, n := range m.Graph.Nodes {
		if op.Of(n.Kind).Domain == op.DomainMemopt {
			count[n.Op]++
		}
	}
	return count
}

// TestRanksShards: which operators a step has, and which shards, by stage; with accumulation, stage 2 is
// stage 1.
func TestRanksShards(t *testing.T) {
	o := autograd.Optimizer{Kind: "adam", LR: 0.1}
	for zero, want := range []map[string]int{
		{"AllReduceStart": 1, "CollectiveWait": 1},
		{"AllReduceStart": 1, "CollectiveWait": 2, "RankPiece": 2, "AllGatherStart": 1, "Unpack": 2},
		{"ReduceScatterStart": 1, "CollectiveWait": 2, "RankPiece": 2, "AllGatherStart": 1, "Unpack": 2},
	} {
		o.Ranks = autograd.Ranks{Count: 4, Zero: zero}
		j, err := ranked(t, o, false)
		require.NoError(t, err)
		require.Equal(t, want, kinds(j.Model))
		if zero == 0 {
			require.Empty(t, j.Shards)
			continue
		}
		require.Len(t, j.Shards, 1)
		s := j.Shards[0]
		require.Equal(t, "shard_0", s.Name)
		require.ElementsMatch(t, []string{"w", "b"}, s.Params)
		require.Equal(t, []string{autograd.AvgSuffix, autograd.SqAvgSuffix}, s.States)
		require.Equal(t, [2]int64{6, 2}, [2]int64{s.Elements, s.Piece})
		apply, err := ranked(t, o, true)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"CollectiveWait": 1, "RankPiece": 2, "AllGatherStart": 1, "Unpack": 2},
			kinds(apply.Model))
	}
	o.Ranks = autograd.Ranks{Count: 2, BucketBytes: 4}
	j, err := ranked(t, o, false)
	require.NoError(t, err)
	require.Equal(t, 2, kinds(j.Model)["AllReduceStart"], "a bucket each")
	var sequence []string
	for _, n := range j.Model.Graph.Nodes {
		if op.Of(n.Kind).Domain == op.DomainMemopt {
			sequence = append(sequence, n.Op)
		}
	}
	require.Equal(t, []string{"AllReduceStart", "AllReduceStart", "CollectiveWait", "CollectiveWait"}, sequence,
		"each sum is waited for when the next has begun")

	// Another rate or decay is another shard.
	o.Ranks = autograd.Ranks{Count: 2, Zero: 1}
	o.Groups = []autograd.Group{{Match: []string{"w"}, LRScale: 2}}
	j, err = ranked(t, o, false)
	require.NoError(t, err)
	require.Len(t, j.Shards, 2)
	o.Ranks.Count = 1
	j, err = ranked(t, o, false)
	require.NoError(t, err)
	require.Empty(t, kinds(j.Model), "one rank has everything")
}
