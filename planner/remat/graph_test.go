package remat

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGraphSimulate: a graph small enough to count by hand. Task 0 makes a (4 bytes), 1 makes b (8)
// of a, 2 makes c (8) of b and may write over it, 3 reads a and c.
func TestGraphSimulate(t *testing.T) {
	g := &Graph{
		Tasks: []Task{
			{Cost: 1, Makes: []int32{0}},
			{Cost: 2, Uses: []int32{0}, Makes: []int32{1}, Workspace: 3},
			{Cost: 4, Uses: []int32{1}, Makes: []int32{2}, InPlace: []int32{1}},
			{Cost: 8, Uses: []int32{0, 2}, Makes: []int32{3}, Once: true},
		},
		Values: []Value{{Size: 4}, {Size: 8}, {Size: 8}, {Size: 1, Keep: true}},
	}
	out, err := g.Simulate(nil)
	require.NoError(t, err)
	require.Equal(t, &Outcome{Peak: 15, At: 1, Live: []int64{4, 15, 12, 13}}, out)
	// A second a: the first one ends with task 1.
	out, err = g.Simulate([]Extra{{Task: 0, Before: 3}})
	require.NoError(t, err)
	require.Equal(t, &Outcome{Cost: 1, Peak: 15, At: 1, Live: []int64{4, 15, 8, 12, 13}}, out)
	for _, bad := range []Extra{{3, 3}, {0, 0}, {-1, 2}, {0, 4}, {3, 4}} {
		_, err = g.Simulate([]Extra{bad})
		require.Error(t, err)
	}
	g.Values[1].Keep = true // what is kept is not written over
	out, err = g.Simulate(nil)
	require.NoError(t, err)
	require.Equal(t, []int64{4, 15, 20, 21}, out.Live)
}

// randomGraph draws a graph with all kinds of tasks and values.
func randomGraph(rng *rand.Rand, n int) *Graph {
	g := &Graph{From: int32(rng.IntN(n))}
	for range n {
		task := Task{Cost: 1 + rng.Int64N(9), Once: rng.IntN(4) == 0}
		if rng.IntN(4) == 0 {
			task.Workspace = rng.Int64N(9)
		}
		if rng.IntN(6) == 0 {
			task.Until = int32(len(g.Tasks)) + 1 + rng.Int32N(6)
		}
		made := len(g.Values)
		for v := range made {
			if rng.IntN(1+made/3) == 0 {
				task.Uses = append(task.Uses, int32(v))
			}
		}
		for range 1 + rng.IntN(5)/3 {
			g.Values = append(g.Values, Value{Size: rng.Int64N(10), Keep: rng.IntN(8) == 0})
			task.Makes = append(task.Makes, int32(len(g.Values)-1))
		}
		for _, u := range task.Uses {
			if g.Values[u].Size == g.Values[task.Makes[0]].Size && rng.IntN(2) == 0 {
				task.InPlace = append(task.InPlace, u)
			}
		}
		g.Tasks = append(g.Tasks, task)
	}
	return g
}

// TestUntil: a task runs again up to a place, whoever asks for it.
func TestUntil(t *testing.T) {
	g := &Graph{Values: []Value{{Size: 8}, {Size: 1}, {Size: 6}, {Size: 1}}, Tasks: []Task{
		{Cost: 3, Makes: []int32{0}, Until: 2},
		{Cost: 1, Uses: []int32{0}, Makes: []int32{1}},
		{Cost: 1, Uses: []int32{1}, Makes: []int32{2}, Workspace: 5},
		{Cost: 1, Uses: []int32{0, 2}, Makes: []int32{3}},
	}}
	_, err := g.Simulate([]Extra{{Task: 0, Before: 2}})
	require.NoError(t, err)
	_, err = g.Simulate([]Extra{{Task: 0, Before: 3}})
	require.EqualError(t, err, "remat: task 0 cannot run again before task 3: it can up to task 2")
	require.Equal(t, []Extra{{Task: 0, Before: 2}}, g.FromCut([]int32{0}, 1), "it is held from there")
	_, err = NewSearch(g, 1).Fit(t.Context(), 15, 1_000_000)
	require.ErrorIs(t, err, ErrInfeasible, "it is held over task 2")
	g.Tasks[0].Until = 3
	a, err := NewSearch(g, 1).Fit(t.Context(), 15, 1_000_000)
	require.NoError(t, err)
	require.Equal(t, []Extra{{Task: 0, Before: 3}}, a.Extras)
	require.Equal(t, a.Extras, g.FromCut([]int32{0}, 1))
}

// TestGraphAgainstInstance: an instance says the same in both forms.
func TestGraphAgainstInstance(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 200 {
		g := randomGraph(rng, 2+rng.IntN(12))
		in := &Instance{Budget: 1 << 30}
		g.From, g.Values = 0, nil
		for v := range g.Tasks {
			task := &g.Tasks[v]
			task.InPlace, task.Once, task.Until, task.Makes = nil, false, 0, []int32{int32(v)}
			g.Values = append(g.Values, Value{Size: 1 + rng.Int64N(9)})
			uses := task.Uses[:0]
			for _, u := range task.Uses {
				if int(u) < v {
					uses = append(uses, u)
				}
			}
			task.Uses = uses
			in.Nodes = append(in.Nodes,
				Node{Cost: task.Cost, Size: g.Values[v].Size, Inputs: uses, Workspace: task.Workspace, Alias: -1})
		}
		var extras []Extra
		for range rng.IntN(6) {
			before := 1 + rng.IntN(len(g.Tasks)-1)
			extras = append(extras, Extra{int32(rng.IntN(before)), int32(before)})
		}
		extras = SortExtras(extras)
		out, err := g.Simulate(extras)
		require.NoError(t, err)
		var seq []int32
		for _, r := range g.Runs(extras) {
			seq = append(seq, r.Task)
		}
		p := newSingle(in, in.Budget)
		peak, valid := p.peak(seq)
		require.True(t, valid)
		require.Equal(t, peak, out.Peak)
	}
}
