package planner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/planner"
	"memopt/recompute"
	"memopt/symbolic"
)

// TestFit: a plan of any strategy that is held to a budget stands to it as arithmetic on its own
// sizes says, and is what it is without the budget.
func TestFit(t *testing.T) {
	ex, ok := examples.Lookup("transformer")
	require.True(t, ok)
	m, err := ex.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	level1, err := planner.Make(m, types, planner.Options{Strategy: planner.Layerwise, Dims: ex.Dims})
	require.NoError(t, err)
	arena, rest := level1.Arena.Bytes, level1.Persistent
	base := level1.Base.Peak.Bytes
	file := &planner.PlanFile{Placements: level1.Placements, Order: level1.Analysis.Order}

	for _, c := range []struct {
		name      string
		budget    planner.Budget
		over, gap int64
	}{
		{"to the byte", planner.Budget{Total: rest + arena}, 0, 0},
		{"a byte less", planner.Budget{Total: rest + arena - 1}, 1, 0},
		{"a byte more", planner.Budget{Total: rest + arena + 1}, 0, 1},
		{"less than the weights", planner.Budget{Total: 1}, rest + arena - 1, 0},
		{"an arena", planner.Budget{Arena: arena + 7}, 0, 7},
		{"a share", planner.Budget{Share: 0.25}, arena - base/4, 0},
	} {
		for name, s := range map[string]planner.Strategy{"level": planner.Layerwise, "file": file} {
			p, err := planner.Make(m, types, planner.Options{Strategy: s, Dims: ex.Dims, Within: &c.budget,
				SkipLayout: true})
			require.NoError(t, err, c.name)
			require.Equal(t, level1.Placements, p.Placements, c.name)
			require.Equal(t, max(0, c.over), p.Fit.Over(), "%s, %s", c.name, name)
			require.Equal(t, max(0, c.gap, -c.over), p.Fit.Spare(), "%s, %s", c.name, name)
			require.Equal(t, c.over <= 0, p.Fit.Fits(), "%s, %s", c.name, name)
		}
	}
	p, err := planner.Make(m, types, planner.Options{Strategy: file, Dims: ex.Dims,
		Within: &planner.Budget{Share: 1, Runtime: true}})
	require.NoError(t, err)
	a, err := p.Anchor(t.Context())
	require.NoError(t, err)
	require.Equal(t, a.AnchoredArena, p.Fit.Arena)
	require.Equal(t, a.BaseArena, p.Fit.Limit)

	_, err = planner.Make(m, types, planner.Options{Strategy: file, Within: &planner.Budget{Total: 1}})
	unbound := (*symbolic.UnboundError)(nil)
	require.ErrorAs(t, err, &unbound)
	_, err = planner.Make(m, types, planner.Options{Strategy: file, Dims: ex.Dims, Within: &planner.Budget{}})
	require.ErrorContains(t, err, "no budget was given")
}

// TestPlanFileSays: a plan file that is used for other sizes, or promises less than it comes to,
// makes the plan say so; one of an earlier release, which says less, does not.
func TestPlanFileSays(t *testing.T) {
	ex, ok := examples.Lookup("transformer")
	require.True(t, ok)
	m, err := ex.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	level1, err := planner.Make(m, types, planner.Options{Strategy: planner.Layerwise, Dims: ex.Dims})
	require.NoError(t, err)
	warnings := func(edit func(r *recompute.Record)) string {
		r := level1.FileRecord("", 0, "v1.2.3")
		if edit != nil {
			edit(r)
		}
		p, err := planner.Make(m, types, planner.Options{Dims: ex.Dims,
			Strategy: &planner.PlanFile{Placements: level1.Placements, Order: level1.Analysis.Order, Record: r}})
		require.NoError(t, err)
		return strings.Join(p.Warnings, "\n")
	}
	old := strings.Join(level1.Warnings, "\n")
	require.Equal(t, old, warnings(nil))
	require.Equal(t, old, warnings(func(r *recompute.Record) { r.Dims = map[string]int64{"other": 1} }))
	require.Equal(t, old, warnings(func(r *recompute.Record) { r.Predicted = nil }))
	require.Equal(t, old, warnings(func(r *recompute.Record) { r.Predicted.ArenaBytes++ }))
	require.Contains(t, warnings(func(r *recompute.Record) { r.Predicted.ArenaBytes-- }),
		"by memopt v1.2.3, and here it takes")
	var name string
	var n int64
	for name, n = range ex.Dims {
		break
	}
	text := warnings(func(r *recompute.Record) { r.Dims[name] = n + 1; r.Predicted.ArenaBytes-- })
	require.Contains(t, text, "the plan file was made for "+name+"=")
	require.NotContains(t, text, "promises an arena", "of other sizes nothing was promised")
	require.Contains(t, warnings(func(r *recompute.Record) { r.Predicted.ArenaBytes, r.ToolVersion = 1, "" }),
		"promises an arena of 1 bytes, and here")
}

// TestFileRecord: a plan file has the model's name without folders, and the budget that the plan
// keeps.
func TestFileRecord(t *testing.T) {
	ex, _ := examples.Lookup("mlp")
	m, err := ex.Build()
	require.NoError(t, err)
	m.Path = "some/where/model.onnx"
	types, err := op.Infer(m)
	require.NoError(t, err)
	within := &planner.Budget{Total: 1 << 40}
	for _, c := range []struct {
		o    planner.Options
		want *recompute.BudgetRecord
	}{
		{planner.Options{}, nil},
		{planner.Options{Within: within}, &recompute.BudgetRecord{TotalBytes: 1 << 40, In: "memopt"}},
		{planner.Options{Strategy: planner.Budget{Share: 2, Solver: "greedy",
			StashLimits: []planner.StashLimit{{Glob: "*", Bytes: 1 << 40}}}}, &recompute.BudgetRecord{Share: 2,
			In: "memopt", Stash: []recompute.StashLimitRecord{{Glob: "*", Bytes: 1 << 40}}}},
		{planner.Options{Strategy: planner.Budget{Arena: 1 << 40, Runtime: true}},
			&recompute.BudgetRecord{ArenaBytes: 1 << 40, In: "ort"}},
	} {
		c.o.Dims = symbolic.Env{"batch": 64}
		p, err := planner.Make(m, types, c.o)
		require.NoError(t, err)
		r := p.FileRecord("hash", 7, "v1")
		require.Equal(t, "model.onnx", r.Model)
		require.Equal(t, "v1", r.ToolVersion)
		require.Equal(t, c.want, r.Budget)
		require.Equal(t, p.Recompute.Nodes, r.Recompute.Nodes)
		require.Equal(t, p.Overhead, r.Recompute.Overhead)
	}
}
