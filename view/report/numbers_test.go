package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/schematest"
	"memopt/planner"
	"memopt/planner/anchor"
	"memopt/planner/chunk"
	"memopt/planner/envelope"
	"memopt/planner/pack"
	"memopt/planner/remat"
	"memopt/recompute"
	"memopt/symbolic"
)

// The tests of this file give every field a value of its own and look for it where it belongs. What
// is expected is written by hand next to what is given, so no run can rewrite it; docs/schemas is
// checked against the same documents.

// leaves prints a report as JSON, checks it against its schema and returns its leaves, with numbers
// as text.
func leaves(t *testing.T, verb string, print func(w io.Writer) error) map[string]string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, print(&b))
	schema := schematest.Load(t, schematest.Folder(t), verb)
	out := map[string]string{}
	for path, v := range schematest.Leaves(schema.Check(t, b.Bytes())) {
		out[path] = fmt.Sprint(v)
	}
	require.Equal(t, out["schema"], "memopt."+verb+"/v1")
	delete(out, "schema")
	return out
}

// printed prints a report in another form, on a screen without a limit.
func printed(t *testing.T, print func(w io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, print(&Screen{&b, 0}))
	return b.String()
}

const stepText = `<ir_version: 8, opset_import: ["" : 17]> step (float[n, 4] x) => (float loss, float[n, 4] g) {
	[square] y = Mul(x, x)  [mean] loss = ReduceMean<keepdims = 0>(y)  [back] g = Mul(y, x) }`

// stepModel is a training graph of three nodes.
func stepModel(t *testing.T) (*graph.Model, *op.Result) {
	t.Helper()
	m, err := graph.Parse(stepText, "step.onnx")
	require.NoError(t, err)
	m.Path = "step.onnx"
	types, err := op.Infer(m)
	require.NoError(t, err)
	return m, types
}

// distinctPlan is a plan of that graph in which all numbers differ.
func distinctPlan(t *testing.T) *planner.Plan {
	t.Helper()
	m, types := stepModel(t)
	p, err := planner.Make(m, types, planner.Options{Dims: symbolic.Env{"n": 10}})
	require.NoError(t, err)
	p.Options.Strategy, p.Rewritten = planner.LayerwiseCompromise, true
	p.Clusters = []planner.ClusterRow{
		{Index: 0, ID: "Mul+", Strategy: recompute.Full, Config: "Mul+:1:-1", Frequency: 11,
			Ratio: recompute.Ratio{Num: 1, Den: 4}, Saving: symbolic.Sym("n").Mul(symbolic.Const(12)), SavingDen: 1,
			SavingBytes: 13, Evaluated: true, PeakDrop: 14, Dropped: true, Enabled: true, Requested: 15, Applied: 16,
			Excludes: []string{"Cast+:2:-1"}},
		{Index: 1, ID: "Cast+Exp+", Strategy: recompute.Compromise, Config: "Cast+Exp+:2:-1", Frequency: 17,
			Ratio: recompute.Ratio{Num: 1, Den: 2}, Saving: symbolic.Unknown(), Requested: 18, Applied: 19},
	}
	y, x := m.Graph.Value("y"), m.Graph.Value("x")
	p.Stashed = []planner.StashRow{{Value: y, Node: 0, WhyKept: "it is cheap to keep"}, {Value: x, Node: 1}}
	p.Analysis.BoundaryNorms = []graph.NodeID{1}
	p.Base.Peak, p.Planned.Peak = live.Peak{Bytes: 1021, Node: 0}, live.Peak{Bytes: 1022, Node: 2}
	p.Base.LowerBound, p.Arena.Bytes, p.Persistent = 1023, 1024, 1025
	p.Step, p.Recompute, p.Overhead = planner.Cost{Nodes: 31, FLOPs: 32, Seconds: 33},
		planner.Cost{Nodes: 34, FLOPs: 35, Seconds: 36}, 0.37
	p.Bound, p.Solver = &planner.Bound{Overhead: 0.041, Gap: 0.042, Optimal: true}, "a solver"
	p.Lower = &planner.Lower{Live: 51, Arena: 52, Overhead: 0.53}
	p.Runtime = &anchor.Anchoring{Base: 1061, BaseArena: 1062, Bare: 1063, Anchored: 1064, AnchoredArena: 1065}
	p.Planned.Hidden = 1067
	p.Before, p.After = distinctComposition(200), distinctComposition(100)
	p.After.Phases[live.ForwardPhase] = live.Moment{Step: -1}
	p.Warnings, p.Unbound = []string{"a warning"}, []string{"m"}
	p.Fit = &planner.Fit{Budget: &planner.Budget{Arena: 71, Runtime: true}, Limit: 71, Arena: 174, Persistent: 73}
	return p
}

// distinctComposition has the peak in the update; all its numbers differ.
func distinctComposition(from int64) *live.Composition {
	c := &live.Composition{}
	for ph := range c.Phases {
		at := from + 10*int64(ph)
		c.Phases[ph] = live.Moment{Step: ph, Node: graph.NodeID(ph), Parts: live.Parts{Weights: at, State: at + 1,
			Gradients: at + 2, Activations: at + 3, Temporaries: at + 4, Workspace: at + 5, Inner: at + 6}}
	}
	c.Peak = c.Phases[live.UpdatePhase]
	return c
}

func TestPlanNumbers(t *testing.T) {
	p := distinctPlan(t)
	want := map[string]string{
		"model.path": "step.onnx", "model.structure_sha256": "5ha", "model.nodes": "3",
		"boundary.kind": "loss", "boundary.node": "mean", "dims.n": "10", "unbound_symbols.0": "m", "level": "2",
		"probe": p.Analysis.Probe.String(), "rewritten": "true",
		"order.0": "0-2", "total_bytes": "2049", "boundary_norms.0": "mean", "warnings.0": "a warning",
		"solver": "a solver", "alternatives": "[]", "again": "[]",
		"clusters.0.id": "Mul+", "clusters.0.strategy": "1", "clusters.0.config": "Mul+:1:-1",
		"clusters.0.frequency": "11", "clusters.0.save_ratio": "0.25", "clusters.0.saving_expr": "12.0*n",
		"clusters.0.saving_bytes": "13", "clusters.0.peak_drop_bytes": "14", "clusters.0.enabled": "true",
		"clusters.0.requested": "15", "clusters.0.applied": "16", "clusters.0.excludes.0": "Cast+:2:-1",
		"clusters.1.id": "Cast+Exp+", "clusters.1.strategy": "2", "clusters.1.config": "Cast+Exp+:2:-1",
		"clusters.1.frequency": "17", "clusters.1.save_ratio": "0.5", "clusters.1.saving_expr": "<nil>",
		"clusters.1.saving_bytes": "<nil>", "clusters.1.peak_drop_bytes": "<nil>", "clusters.1.enabled": "false",
		"clusters.1.requested": "18", "clusters.1.applied": "19", "clusters.1.excludes": "[]",
		"stashed.0.value": "y", "stashed.0.producer": "square", "stashed.0.op": "Mul", "stashed.0.bytes": "160",
		"stashed.0.expr": "16*n", "stashed.0.why_kept": "it is cheap to keep",
		"stashed.1.value": "x", "stashed.1.producer": "mean", "stashed.1.op": "ReduceMean", "stashed.1.bytes": "160",
		"stashed.1.expr": "16*n", "stashed.1.why_kept": "<nil>",
		"peak.baseline_bytes": "1021", "peak.planned_bytes": "1022", "peak.lower_bound_bytes": "1023",
		"peak.arena_bytes": "1024", "peak.persistent_bytes": "1025", "peak.total_bytes": "2049",
		"peak.baseline_node": "square", "peak.planned_node": "back", "recompute.nodes": "34", "recompute.flops": "35",
		"recompute.overhead": "0.37", "recompute.profile": p.ProfileName(),
		"bound.overhead_lower_bound": "0.041", "bound.gap": "0.042", "bound.optimal": "true", "next.live_bytes": "51",
		"next.arena_bytes": "52", "next.overhead": "0.53",
		"runtime.baseline_bytes": "1061", "runtime.baseline_arena_bytes": "1062", "runtime.planned_bytes": "1064",
		"fit.in": "ort", "fit.fits": "false", "fit.limit_bytes": "71", "fit.needed_bytes": "174",
		"fit.over_bytes": "103", "fit.spare_bytes": "0", "formulas": "<nil>", "fission": "[]", "span": "<nil>",
		"step.text": "a step", "step.made": "true", "step.optimizer": "<nil>", "step.accumulate": "3",
		"runtime.arena_bytes": "1065", "runtime.total_bytes": "2090", "peak.clone_bytes": "1067",
		// 1025 + 1024 bytes less the six parts, 120 to 125, are gaps, which are among temporaries.
		"at_peak.weights_bytes": "120", "at_peak.state_bytes": "121", "at_peak.gradients_bytes": "122",
		"at_peak.activations_bytes": "123", "at_peak.temporaries_bytes": "1438", "at_peak.workspace_bytes": "125",
		"phases.gaps_bytes": "1188", "phases.planned.forward": "<nil>",
	}
	for _, m := range []struct {
		name, node string
		from       int
	}{
		{"baseline.forward", "square", 200}, {"baseline.backward", "mean", 210}, {"baseline.update", "back", 220},
		{"planned.backward", "mean", 110}, {"planned.update", "back", 120},
	} {
		want["phases."+m.name+".node"] = m.node
		want["phases."+m.name+".live_bytes"] = fmt.Sprint(7*m.from + 21)
		for i, part := range []string{"weights", "state", "gradients", "activations", "temporaries", "workspace",
			"subgraph"} {
			want["phases."+m.name+"."+part+"_bytes"] = fmt.Sprint(m.from + i)
		}
	}
	step := &Step{Text: "a step", Made: true, Micros: 3}
	require.Equal(t, want, leaves(t, "plan", func(w io.Writer) error { return PlanJSON(w, p, "5ha", step, 0) }))

	require.Equal(t, "id,strategy,config,frequency,save_ratio,saving_bytes,saving_expr,peak_drop_bytes,"+
		"enabled,requested,applied,row,bytes,overhead,fits\n"+
		"baseline,,,,,,,,,,,answer,1021,0,\n"+
		"planned,,,34,,,,,,,,answer,1022,0.370000,false\n"+
		"arena,,,,,,,,,,,answer,1024,,\n"+
		"total,,,,,,,,,,,answer,2049,,\n"+
		"Mul+,1,Mul+:1:-1,11,0.25,13,12.0*n,14,true,15,16,cluster,,,\n"+
		"Cast+Exp+,2,Cast+Exp+:2:-1,17,0.5,,unknown,,false,18,19,cluster,,,\n",
		printed(t, func(w io.Writer) error { return PlanCSV(w, p, PlanView{}) }))

	markdown := printed(t, func(w io.Writer) error { return PlanMarkdown(w, p, PlanView{}) })
	for _, line := range []string{
		"- Does not fit: arena in stock ONNX Runtime 174 B, budget 71 B: 103 B over.",
		"- Peak: 1021 B → 1022 B (0.1 % more); with inputs and weights 2.00 KiB.",
		"- Price: +37.0 % time by the a100 profile (an estimate); 34 recomputed nodes.",
		"| Mul+ | 1 | Mul+:1:-1 | 11 | 0.25 | 13 | 12.0\\*n | 14 | true | 15 | 16 |",
		"| baseline, live | 1021 |", "| planned, live | 1022 |", "| lower bound | 1023 |", "| planned, arena | 1024 |",
		"| inputs and weights | 1025 |", "| total | 2049 |",
		"| 160 | y | Mul | it is cheap to keep |", "| 160 | x | ReduceMean | recomputed |",
	} {
		require.Contains(t, markdown, line+"\n")
	}
	require.Equal(t, []string{"### Clusters", "### Peak of one step", "### Live at the worst steps",
		"### Stashed activations (2)"},
		linesWith(markdown, "###"))

	p.Bound, p.Lower = nil, nil
	table := printed(t, func(w io.Writer) error { return PlanTable(w, p, PlanView{ConfigPath: "c.json", Stashes: 1}) })
	for _, line := range []string{
		"Does not fit: arena in stock ONNX Runtime 174 B, budget 71 B: 103 B over.\n" +
			"Peak: 1021 B → 1022 B (0.1 % more); with inputs and weights 2.00 KiB.\n" +
			"Price: +37.0 % time by the a100 profile (an estimate); 34 recomputed nodes.\n\n",
		"Memory Optimizer: ON; Level: [TRANSFORMER_LAYERWISE_RECOMPUTE_WITH_COMPROMISE], " +
			"Config: [c.json]\n",
		"State Freq Saving, B Peak drop, B Saving, bytes Saving, formula Configuration\n",
		"\nON 11 13 14 13 12.0*n Mul+:1:-1\n",
		"\nOFF 17 - - - unknown Cast+Exp+:2:-1\n",
		"1 row shares stashed activations with another row (a node has both strategy 1 and 2): " +
			"only one of such rows can be enabled, and their savings do not add up.",
		"Savings are for n=10.", "Bind m with Dims NAME=VALUE to see bytes and the peak.",
		"Baseline, live      1,021  1,021  square",
		"Planned, live       1,022  1,022  back",
		"Lower bound         1,023  1,023  recomputation goes no lower",
		"Planned, arena      1,024  1,024  packed at multiples of 256 bytes",
		"Inputs and weights  1,025  1,025  live throughout",
		"Total               2,049  2,049  arena + inputs and weights",
		"  160  Mul  it is cheap to keep  y", "… and 1 more; -v lists all.",
	} {
		require.Contains(t, squeezed(table), squeezed(line), "%s", table)
	}
}

// squeezed reduces runs of blanks to one: how wide columns are is for TestTableForms to check.
func squeezed(text string) string {
	for strings.Contains(text, "  ") {
		text = strings.ReplaceAll(text, "  ", " ")
	}
	return text
}

func linesWith(text, start string) (list []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, start) {
			list = append(list, strings.TrimSuffix(line, "\n"))
		}
	}
	return list
}

// TestFormulas: every figure of a formula stands where it belongs.
func TestFormulas(t *testing.T) {
	p := distinctPlan(t)
	p.Unbound = []string{"n"}
	n := symbolic.Sym("n")
	piece := func(lo, hi int64, peaks ...envelope.Load) envelope.Piece {
		return envelope.Piece{Box: envelope.Box{{Symbol: "n", Lo: lo, Hi: hi}}, Peaks: peaks}
	}
	load := func(c int64, node graph.NodeID) envelope.Load {
		return envelope.Load{Bytes: n.Mul(symbolic.Const(c)), Node: node}
	}
	f := &planner.Formula{Persistent: n.Add(symbolic.Const(7)),
		Envelope: &envelope.Envelope{Box: envelope.Box{{Symbol: "n", Lo: 1, Hi: 9}},
			Pieces: []envelope.Piece{piece(1, 4, load(3, 0)), piece(5, 9, load(4, 1), load(5, 2))}}}
	f.Pieces[1].Bound = true
	p.Formulas = &planner.Formulas{Base: f, Assumed: []string{"n"}, Points: 17, Seed: 18, Error: 19}
	got := leaves(t, "plan", func(w io.Writer) error { return PlanJSON(w, p, "", nil, 0) })
	for key, want := range map[string]string{"ranges.n.0": "1", "ranges.n.1": "9", "assumed.0": "n",
		"persistent_expr": "n + 7", "points": "17", "seed": "18", "largest_error_bytes": "19", "planned": "<nil>",
		"baseline.0.live_expr": "3*n", "baseline.0.total_expr": "4*n + 7", "baseline.0.ranges.n.1": "4",
		"baseline.0.nodes.0": "square", "baseline.1.live_expr": "Max(4*n, 5*n)",
		"baseline.1.total_expr": "Max(5*n + 7, 6*n + 7)", "baseline.1.nodes.1": "back", "baseline.1.ranges.n.0": "5",
		"baseline.0.exact": "true", "baseline.1.exact": "false", "exact": "false"} {
		require.Equal(t, want, got["formulas."+key], key)
	}
	table := squeezed(printed(t, func(w io.Writer) error { return Formulas(w, TableFormat, p, 1) }))
	require.Contains(t, table, "n=1..4 3*n square")
	require.NotContains(t, table, "n=5..9")
	table = strings.ReplaceAll(table, "\n", " ")
	require.Contains(t, table, "1 more parts: -v lists them. Parts marked ≤ are upper bounds: exact formulas would be "+
		"too many there. A narrower range, or one number for a symbol, gets exact ones. Inputs and weights take n + 7 "+
		"bytes besides")
	require.Contains(t, table, "at 17 random sizes (seed 18): 19 bytes. Assumed: n=1..9; Dims n=1..64 gives")
	all := printed(t, func(w io.Writer) error { return Formulas(w, MarkdownFormat, p, -1) })
	require.Contains(t, all, `| n=5..9 | ≤ Max(4\*n, 5\*n) | mean or back |`)
}

// TestUnboundPlan: a figure without a value is null, never 0.
func TestUnboundPlan(t *testing.T) {
	m, types := stepModel(t)
	p, err := planner.Make(m, types, planner.Options{})
	require.NoError(t, err)
	got := leaves(t, "plan", func(w io.Writer) error { return PlanJSON(w, p, "", nil, 0) })
	for path, text := range got {
		if strings.HasSuffix(path, "bytes") || strings.HasPrefix(path, "peak.") || path == "phases" {
			require.Equal(t, "<nil>", text, path)
		}
	}
	for _, path := range []string{"at_peak.state_bytes", "phases", "runtime", "recompute.flops",
		"recompute.overhead", "bound.overhead_lower_bound",
		"bound.gap", "solver", "next"} {
		require.Equal(t, "<nil>", got[path], path)
	}
	require.Equal(t, "n", got["unbound_symbols.0"])
	require.Equal(t, "{}", got["dims"])
	require.Equal(t, "16*n", got["stashed.0.expr"])
}

func TestBudgetTable(t *testing.T) {
	p := distinctPlan(t)
	p.Options.Strategy = &planner.Budget{}
	p.Placements = []recompute.Placement{{Value: 1, Nodes: []graph.NodeID{0, 1}}, {Value: 1, Nodes: []graph.NodeID{0}}}
	level1 := distinctPlan(t)
	level1.Planned.Peak.Bytes, level1.Overhead = 1033, 0.61
	table := squeezed(printed(t, func(w io.Writer) error {
		return PlanTable(w, p, PlanView{Stashes: -1, Level1: level1})
	}))
	seconds := p.NodeSeconds()
	for _, line := range []string{
		"Clones' own memory 1,067 1,067 in the planned lines above, for 34 clones\n",
		"In ONNX Runtime 1,065 1,065 predicted size of its arena, anchors included; " +
			"1.04 KiB for the original graph\n",
		"Total there 2,090 2,090 arena + inputs and weights\n",
		"Found by a solver; no plan in this order is cheaper.\n",
		"The next lower plan found: 51 B live, an arena of 52 B, for +53.0 % time.\n",
		"Peak, B Less Time Plan\n",
		"1,022 -0.1 % +37.0 % this plan\n", "1,033 -1.2 % +61.0 % Level 1 (does not fit)\n",
		fmt.Sprintf("\n 2 320 +%s Mul\n", Percent(2*seconds[0]/33)),
		fmt.Sprintf("\n 1 4 +%s ReduceMean\n", Percent(seconds[1]/33)),
	} {
		require.Contains(t, table, line)
	}
	p.Runtime = nil
	p.Bound.Optimal = false
	level1.Planned.Peak.Bytes = 1022
	table = squeezed(printed(t, func(w io.Writer) error { return PlanTable(w, p, PlanView{Level1: level1}) }))
	require.Contains(t, table,
		"Found by a solver; no plan in this order costs less than +4.1 %: at most 4.2 % of "+
			"a step could still be saved.\n")
	require.Contains(t, table, "1,022 -0.1 % +61.0 % Level 1\n")
	// Without a budget, what lower peaks would cost.
	p.Bound, p.Lower = nil, nil
	p.Recompute.Nodes = 0
	view := PlanView{Level1: level1,
		TradeOffs: []planner.Alternative{{Kind: planner.EveryLayer, Live: 510, Overhead: 0.62, Fits: true}}}
	table = squeezed(printed(t, func(w io.Writer) error { return PlanTable(w, p, view) }))
	require.Contains(t, table,
		"1,022 -0.1 % +37.0 % no recomputation\n 510 50.0 % +62.0 % every layer from its input\n\n")
	require.NotContains(t, table, "The price of a budget")
	budget := PlanView{Level1: level1,
		TradeOffs: []planner.Alternative{{Kind: planner.ToShare, Share: 50, Live: 510, Fits: true}}}
	table = squeezed(printed(t, func(w io.Writer) error { return PlanTable(w, p, budget) }))
	require.Contains(t, table, " Budget 50%\nThe price of a budget is that of the first plan that is found;")
	csv := printed(t, func(w io.Writer) error { return PlanCSV(w, p, view) })
	require.Contains(t, csv, "\nevery layer from its input,,,,,,,,,,,alternative,510,0.620000,true\n")
	require.Contains(t, csv, fmt.Sprintf("\nMul,,,2,,,,,,,,again,320,%.6f,\n", 2*seconds[0]/33))
	markdown := printed(t, func(w io.Writer) error { return PlanMarkdown(w, p, view) })
	require.Equal(t, []string{"### Recomputed nodes", "### Alternatives", "### Clusters", "### Peak of one step",
		"### Live at the worst steps", "### Stashed activations (2)"}, linesWith(markdown, "###"))
	require.Contains(t, markdown, "| 510 | 50.0 % | +62.0 % | every layer from its input |\n")
}

// The tables of what memory is made of have one unit; rows of zeros are left out.
func TestCompositionTables(t *testing.T) {
	p := distinctPlan(t)
	p.Placements = []recompute.Placement{{Value: 1, Nodes: []graph.NodeID{0}}}
	for ph := range p.Before.Phases {
		p.Before.Phases[ph].Parts.Weights = 9000
		p.Before.Phases[ph].Parts.State = 0
	}
	p.Before.Peak = p.Before.Phases[live.UpdatePhase]
	table := printed(t, func(w io.Writer) error { return compositionTables(w, p) })
	require.Equal(t, `Live at the worst steps, baseline
B                      Peak  Forward  Backward  Update
-------------------  ------  -------  --------  ------
Weights and inputs    9,000    9,000     9,000   9,000
Gradients               222      202       212     222
Activations stashed     223      203       213     223
Temporaries             224      204       214     224
Workspaces              225      205       215     225
Inside subgraphs        226      206       216     226
Together             10,120   10,020    10,070  10,120

Live at the worst steps, plan
B                     Peak  Backward  Update
-------------------  -----  --------  ------
Weights and inputs     120       110     120
Optimizer state        121       111     121
Gradients              122       112     122
Activations stashed    123       113     123
Temporaries            124       114     124
Workspaces             125       115     125
Inside subgraphs       126       116     126
Together               861       791     861
Gaps in the arena    1,188
Total                2,049

`, table)
	for line := range strings.Lines(table) {
		require.LessOrEqual(t, len(line)-1, 80)
	}
	p.Placements = nil
	require.NotContains(t, printed(t, func(w io.Writer) error { return compositionTables(w, p) }), "baseline")
	markdown := printed(t, func(w io.Writer) error { return compositionMarkdown(w, p) })
	require.Contains(t, markdown, "| part | baseline, forward | baseline, backward | baseline, update |"+
		" planned, forward | planned, backward | planned, update |\n")
	require.Contains(t, markdown, "| Gradients | 202 | 212 | 222 | 0 | 112 | 122 |\n")
	require.Contains(t, markdown, "Gaps in the arena at the peak: 1188 bytes.\n")
	p.After = nil
	require.Empty(t, printed(t, func(w io.Writer) error { return compositionTables(w, p) }))
	require.Empty(t, printed(t, func(w io.Writer) error { return compositionMarkdown(w, p) }))
}

func TestParetoNumbers(t *testing.T) {
	c := &planner.Curve{
		Persistent: 1001,
		Points: []planner.ParetoPoint{
			{Budget: 1002, Live: 1003, Arena: 1004, Overhead: 0.0101, LowerBound: 0.0102, Nodes: 1005},
		},
	}
	form := func(f Format) func(io.Writer) error {
		return func(w io.Writer) error { return Pareto(w, f, "m.onnx", c, "", nil) }
	}
	require.Equal(t, map[string]string{"model": "m.onnx", "persistent_bytes": "1001", "points.0.budget_bytes": "1002",
		"points.0.peak_bytes": "1003", "points.0.arena_bytes": "1004",
		"points.0.overhead": "0.0101", "points.0.overhead_lower_bound": "0.0102", "points.0.nodes": "1005",
		"points.0.regions_in_parts": "0", "points.0.plan": "<nil>", "stopped": "false"},
		leaves(t, "pareto", form(JSONFormat)))
	require.Equal(t, "budget_bytes,peak_bytes,arena_bytes,overhead,overhead_lower_bound,nodes,regions_in_parts\n"+
		"1002,1003,1004,0.010100,0.010200,1005,0\n", printed(t, form(CSVFormat)))
	require.Contains(t, printed(t, form(MarkdownFormat)), "| 1002 | 1003 | 1004 | 0.010100 | 0.010200 | 1005 | 0 |\n")
	table := squeezed(printed(t, form(TableFormat)))
	require.Contains(t, table, "1,002 1,003 1,004 1.0 % 1.0 % 1,005\n")
	require.Contains(t, table, "which take 1001 B.\n")

	c.Stopped = true
	saved := func(f Format) func(io.Writer) error {
		return func(w io.Writer) error { return Pareto(w, f, "m.onnx", c, "plans", []string{"plan-1.json"}) }
	}
	got := leaves(t, "pareto", saved(JSONFormat))
	require.Equal(t, "plan-1.json", got["points.0.plan"])
	require.Equal(t, "true", got["stopped"])
	require.Contains(t, printed(t, saved(CSVFormat)),
		",nodes,regions_in_parts,plan\n1002,1003,1004,0.010100,0.010200,1005,0,plan-1.json\n")
	require.Contains(t, squeezed(strings.ReplaceAll(printed(t, saved(TableFormat)), "\n", " ")),
		"The plans are in plans, from plan-1.json to plan-1.json, in this order.")
}

func TestApplyNumbers(t *testing.T) {
	p := distinctPlan(t)
	p.Placements = make([]recompute.Placement, 7)
	r := &recompute.Rewritten{Model: p.Model, Clones: 71, AnchorNodes: 72, GuardNodes: 77, Seeded: []graph.NodeID{2}}
	anchoring := &anchor.Anchoring{Anchors: make([]recompute.Anchor, 8), Nodes: 5_000_000, Base: 73, Bare: 74,
		Anchored: 75, BaseArena: 78, AnchoredArena: 79, Simulated: true}
	p.Options.Strategy = &planner.Budget{Total: 1105}
	form := func(f Format) func(io.Writer) error {
		return func(w io.Writer) error { return Apply(w, f, "out.onnx", p, r, anchoring) }
	}
	want := map[string]string{
		"out": "out.onnx", "nodes": "3", "clones": "71", "placements": "7", "seeded.0": "back",
		"warnings.0": "a warning", "guard_nodes": "77",
		"peak.baseline_bytes": "1021", "peak.planned_bytes": "1022", "peak.lower_bound_bytes": "1023",
		"peak.arena_bytes": "1024", "peak.persistent_bytes": "1025", "peak.total_bytes": "2049",
		"peak.baseline_node": "square", "peak.planned_node": "back", "anchors.anchors": "8", "anchors.nodes": "72",
		"anchors.seconds":             "2",
		"anchors.peak.baseline_bytes": "73", "anchors.peak.bare_bytes": "74", "anchors.peak.anchored_bytes": "75",
		"anchors.peak.baseline_arena_bytes": "78", "anchors.peak.anchored_arena_bytes": "79",
		"budget.in": "memopt", "budget.arena_bytes": "80", "budget.runtime_bytes": "79", "budget.runtime_fits": "true",
		"peak.clone_bytes": "1067", "fission": "[]", "sizes": "<nil>"}
	require.Equal(t, want, leaves(t, "apply", form(JSONFormat)))
	csv := printed(t, form(CSVFormat))
	for _, line := range []string{"written to,out.onnx", "nodes,3", "recomputed nodes,71", "recomputed values,7",
		"random nodes given a seed,1", `"peak before, live",1021 B`,
		`"peak after, live",1022 B`,
		"anchors,8", "nodes of anchors,72", `"peak before, in ONNX Runtime",73 B`, `"peak after, in ONNX Runtime",75 B`,
		"nodes of guards,77"} {
		require.Contains(t, csv, "\n"+line+"\n")
	}
	p.Options.Budget().Total = 1103
	require.Equal(t, "false", leaves(t, "apply", form(JSONFormat))["budget.runtime_fits"])
	p.Options.Strategy = nil
	require.Equal(t, "<nil>", leaves(t, "apply", form(JSONFormat))["budget"])
	anchoring.Simulated, r.Seeded, p.Warnings = false, nil, nil
	got := leaves(t, "apply", form(JSONFormat))
	require.Equal(t, "<nil>", got["anchors.peak"])
	require.Equal(t, "[]", got["seeded"])
	anchoring = nil
	require.Equal(t, "<nil>", leaves(t, "apply", form(JSONFormat))["anchors"])

	whole := *p
	whole.Options.Dims = symbolic.Env{"seq": 5, "batch": 3}
	p.Whole, p.Fission = &whole, []chunk.Cut{{Region: "logits", Dim: "0", Parts: 4, Nodes: []string{"head"}}}
	got = leaves(t, "apply", form(JSONFormat))
	require.Equal(t, []string{"logits", "4", "false", "3", "5"}, []string{got["fission.0.region"],
		got["fission.0.parts"], got["fission.0.exact"], got["sizes.batch"], got["sizes.seq"]})
	csv = printed(t, form(CSVFormat))
	require.Contains(t, csv, "\ncomputed in parts,\"1 region in 4 parts, not bit-equal\"\n")
	require.Contains(t, csv, "\nholds for no sizes but,\"batch=3, seq=5\"\n")
}

func TestGradNumbers(t *testing.T) {
	m, types := stepModel(t)
	joint := m.Clone()
	joint.Graph.Nodes = append(slices.Clone(joint.Graph.Nodes), joint.Graph.Nodes...)
	j := &autograd.Joint{Model: joint, Types: types, Wrt: []string{"w", "v"}, Unreached: []string{"v"}, Raised: true,
		From: 11, To: 17, Changes: []string{"a change"}, Fused: []autograd.Fused{{Pattern: "GELU", Count: 12}}}
	form := func(f Format) func(io.Writer) error {
		return func(w io.Writer) error { return Grad(w, f, "out.onnx", "apply.onnx", m, j) }
	}
	require.Equal(t, map[string]string{"out": "out.onnx", "parameters.0": "w", "parameters.1": "v", "unreached.0": "v",
		"forward_nodes": "3", "nodes": "6", "opset_from": "11", "opset_to": "17", "changes.0": "a change",
		"apply_out": "apply.onnx", "fused.0.pattern": "GELU", "fused.0.count": "12"},
		leaves(t, "grad", form(JSONFormat)))
	require.Equal(t, "item,value\nwritten to,out.onnx\nupdate written to,apply.onnx\n"+
		"parameters with gradients,2\nnodes before,3\n"+
		"nodes,6\nfused gradients of GELU,12\noperator set,\"17, raised from 11\"\n", printed(t, form(CSVFormat)))
	j.Raised = false
	require.Contains(t, printed(t, form(CSVFormat)), "operator set,17\n")
}

// distinctRun is a run in which all numbers differ.
func distinctRun() *verify.Run {
	r := &verify.Run{Threads: 201, Resident: 202, DeviceGrowth: 10_000, WhyNoCapture: "why no capture",
		Remarks: []string{"a remark"},
		Times:   []time.Duration{5 * time.Millisecond, 3 * time.Millisecond, 11 * time.Millisecond},
		Outputs: []verify.Output{{Name: "loss", Tensor: executor.NewTensor[float32](graph.Float32, []int{}, 1)},
			{Name: "g", Tensor: executor.NewTensor[float32](graph.Float32, []int{1, 2}, 3, 4)}},
		HostNodes: []executor.HostNode{{Label: "h", Why: "no kernel"}, {Label: "i", Why: "no kernel"}},
		Feeds:     []executor.Feed{{Value: 0, Given: true}, {Value: 1}},
		LibraryNodes: []executor.LibraryNode{
			{Label: "c", LibraryWork: executor.LibraryWork{Workspace: 301, Least: 302}},
			{Label: "d", LibraryWork: executor.LibraryWork{Workspace: 303, Least: 204, Own: "odd pads"}}}}
	r.Predicted = executor.Prediction{Live: 211, LeastLive: 212, Arena: 213, LowerBound: 209, Workspace: 215,
		Persistent: 216, PeakNode: 2, Unsized: make([]graph.ValueID, 3)}
	r.Measured = executor.Measured{
		Live: 221, Arena: 222, Dynamic: 223,
		Copies: executor.Copies{In: 224, Out: 225, InBytes: 226, OutBytes: 227}, Runs: 4,
	}
	r.Arena, r.Weights = executor.ArenaStats{InUse: 231, Peak: 232, Reserved: 233, Regions: 234},
		executor.ArenaStats{Reserved: 235}
	return r
}

func distinctView(t *testing.T) *RunView {
	m, _ := stepModel(t)
	return &RunView{Run: distinctRun(), Backend: "cuda", Steps: 9, Warmup: 6, Graph: m.Graph, Backward: 1,
		Planned: true, Listed: -1,
		Checks: []Check{{Output: "g", MaxAbs: 0.125, Equal: true}},
		Phases: []Phase{{"forward", 241, 242}, {"backward", 243, 244}}}
}

// runLeaves is what the JSON of distinctView says.
var runLeaves = map[string]string{
	"backend": "cuda", "executes": "training_step", "threads": "201", "steps": "9", "warmup": "6", "time_ms.min": "3",
	"time_ms.median": "5", "time_ms.max": "11",
	"peak.predicted_live_bytes": "211", "peak.arena_bytes": "213", "peak.arena_lower_bound_bytes": "209",
	"peak.measured_arena_bytes": "222", "peak.measured_live_bytes": "221", "peak.dynamic_bytes": "223",
	"peak.workspace_bytes": "215", "peak.persistent_bytes": "216", "peak.device_bytes": "233",
	"peak.device_growth_bytes": "10000", "peak.device_weights_bytes": "235", "peak.rss_bytes": "202",
	"peak.node":                  "back",
	"peak.data_dependent_values": "3", "peak.mem_pattern": "true",
	"phases.0.name": "forward", "phases.0.allocated_bytes": "241", "phases.0.peak_bytes": "242",
	"phases.1.name": "backward", "phases.1.allocated_bytes": "243", "phases.1.peak_bytes": "244",
	"gradients.0.value": "x", "gradients.0.given": "true", "gradients.1.value": "loss", "gradients.1.given": "false",
	"copies.to_device": "224", "copies.from_device": "225", "copies.to_device_bytes": "226",
	"copies.from_device_bytes": "227", "on_host.no kernel": "2", "not_captured": "why no capture",
	"device_remarks.0":   "a remark",
	"cudnn.convolutions": "2", "cudnn.by_library": "1", "cudnn.own_kernels.odd pads": "1",
	"cudnn.workspace_bytes": "303", "cudnn.clamped_workspace_bytes": "302", "cudnn.clamped_predicted_live_bytes": "212",
	"outputs.0.name": "loss", "outputs.0.dtype": "float", "outputs.0.shape": "[]", "outputs.0.checked": "false",
	"outputs.0.max_abs_diff": "<nil>",
	"outputs.1.name":         "g", "outputs.1.dtype": "float", "outputs.1.shape.0": "1", "outputs.1.shape.1": "2",
	"outputs.1.checked": "true", "outputs.1.max_abs_diff": "0.125",
}

func TestRunNumbers(t *testing.T) {
	v := distinctView(t)
	form := func(f Format) func(io.Writer) error { return func(w io.Writer) error { return RunReport(w, f, v) } }
	require.Equal(t, runLeaves, leaves(t, "run", form(JSONFormat)))
	table := squeezed(printed(t, form(TableFormat)))
	for _, line := range []string{
		"forward end: 241 B allocated, peak 242 B", "backward end: 243 B allocated, peak 244 B",
		"backend cuda 201 threads", "executed training step 2 nodes forward, 1 backward; 9 steps, 6 of them to warm up",
		"time of a step 5.00 ms median of 3; min 3.00 ms, max 11.00 ms", "predicted live 211 B at back",
		"largest workspace 215 B of one node; included in the other lines",
		"planned arena 213 B 1.91 % above the lower bound", "measured arena 222 B +9 bytes relative to the plan",
		"beside the plan 223 B allocated during the run: 3 values whose size depends on data, and subgraphs",
		"inputs and weights 216 B live throughout; not included in other lines",
		"process 202 B growth of resident memory (VmHWM - VmRSS before the first step)",
		"GPU memory 9.77 KiB as counted by its driver: arena 233 B, " +
			"inputs and weights 235 B, the driver's own 9.31 KiB",
		"convolutions 1 of 2 by cuDNN; own kernels for the others, such as d: odd pads",
		"cuDNN workspace 303 B of the arena, for one convolution at a time; with cudnn_conv_use_max_workspace off " +
			"302 B, and 212 B predicted live",
		"nodes on the host 2 such as h: no kernel", "device a remark",
		"copies 449 in all steps: 226 B to the device, 227 B from the device", "not captured why no capture",
		"gradient x as given", "gradient loss equal to the forward half's output, because no " +
			"gradient is given",
		"\ng float[1,2] equal; largest difference 0.125",
	} {
		require.Contains(t, table, line+"\n")
	}
	csv := printed(t, form(CSVFormat))
	require.Contains(t, csv, "\nbackend,cuda,201 threads\n")
	require.NotContains(t, csv, "forward end", "phases are the table's alone")
	// Forward alone, on demand, nothing measured.
	v.Backward, v.Warmup, v.Steps, v.Planned, v.Run.Times = 0, 0, 1, false, nil
	got := leaves(t, "run", form(JSONFormat))
	require.Equal(t, [3]string{"forward", "false", "<nil>"},
		[3]string{got["executes"], got["peak.mem_pattern"], got["time_ms"]})
	table = squeezed(printed(t, form(TableFormat)))
	require.Contains(t, table, "executed forward only 3 nodes, no backward half; 1 step\n")
	require.Contains(t, table, "arena in use 222 B peak, on demand; 233 B reserved in 234 regions\n")
	require.NotContains(t, table, "time of a step")
}

// TestOutputTable: of many outputs the first are listed, and those that differ, wherever they are.
func TestOutputTable(t *testing.T) {
	v := distinctView(t)
	v.Listed = 1
	v.Checks = []Check{{Output: "g", MaxAbs: 0.5}}
	require.Contains(t, squeezed(printed(t, func(w io.Writer) error { return RunReport(w, TableFormat, v) })),
		"\nloss float[]\ng float[1,2] DIFFERS; largest difference 0.5\n")
	v.Checks = nil
	require.Contains(t, squeezed(printed(t, func(w io.Writer) error { return RunReport(w, TableFormat, v) })),
		"\nloss float[]\n… and 1 more; -v lists all.\n")
	want := []verify.Output{{Name: "g", Tensor: executor.NewTensor[float32](graph.Float32, []int{1, 2}, 3, 6)},
		{Name: "other", Tensor: nil}}
	d := v.Checked(want, verify.Tolerance{})
	require.NotNil(t, d)
	require.Equal(t, "g", d.Value)
	require.Equal(t, []Check{{"g", 2, false}}, v.Checks)
}

// distinctRuntime is what is known of ONNX Runtime.
func distinctRuntime() *verify.Runtime {
	return &verify.Runtime{Version: "1.2.3", Library: "/lib/ort", Optimization: "basic", MemPattern: true, Arena: true,
		Parallel: true, Exact: true, Config: []string{"a=b"}, Created: 251, LaterArena: 999, LaterResident: 253,
		Bounded: true, States: &verify.RuntimeStates{InPlace: 3, InPlaceBytes: 271, Second: 4, SecondBytes: 277,
			Input: "w", Why: "because", Waiting: 281}}
}

func TestRuntimeNumbers(t *testing.T) {
	v := distinctView(t)
	v.Run.Runtime = distinctRuntime()
	want := maps.Clone(runLeaves)
	facts := []string{
		"with the memory pattern on, later steps take 999 B of the arena, 4.50 times the first step's " +
			"222 B; set SessionOptions.enable_mem_pattern = False (enable_mem_pattern off) to avoid that",
		"creating the session took more of the arena than a step takes: the measured arena is an " +
			"upper bound"}
	maps.Copy(want, map[string]string{"runtime.name": "ONNX Runtime", "runtime.version": "1.2.3",
		"runtime.library": "/lib/ort", "runtime.optimization": "basic", "runtime.mem_pattern": "true",
		"runtime.arena":    "true",
		"runtime.parallel": "true", "runtime.arena_exact": "true", "runtime.config.0": "a=b",
		"runtime.states.in_place": "3", "runtime.states.in_place_bytes": "271", "runtime.states.second_buffers": "4",
		"runtime.states.second_buffer_bytes": "277", "runtime.states.why": `"w": because`,
		"runtime.states.waiting_nodes": "281",
		"runtime.session_arena_bytes":  "251", "runtime.later_arena_bytes": "999", "runtime.later_rss_bytes": "253",
		"runtime.measured_arena_is_upper_bound": "true", "runtime.facts.0": facts[0], "runtime.facts.1": facts[1]})
	form := func(f Format) func(io.Writer) error { return func(w io.Writer) error { return RunReport(w, f, v) } }
	require.Equal(t, want, leaves(t, "run", form(JSONFormat)))
	table := squeezed(printed(t, form(TableFormat)))
	for _, line := range []string{"ONNX Runtime 1.2.3 optimizations basic, arena exact, parallel, a=b",
		"states 548 B 3 of 7 written over the old values; 281 nodes added so that these have been read by then; " +
			"277 B of second buffers for the others, such as \"w\": because",
		"measured arena 222 B of the first step, outputs included; the session holds another 251 B",
		"later steps 999 B the largest peak of a step after the first",
		"arena reserved 233 B taken from the system, with the bytes that the session holds", "Note: " + facts[0] + ".",
		"Note: " + facts[1] + "."} {
		require.Contains(t, table, line+"\n")
	}
	*v.Run.Runtime = verify.Runtime{MemPattern: true, LaterResident: 404, Config: nil}
	v.Run.Threads = 0
	got := leaves(t, "run", form(JSONFormat))
	require.Equal(t, "with the memory pattern on, later steps take 404 B of the process's memory, 2.00 times the "+
		"first step's 202 B", got["runtime.facts.0"])
	require.Equal(t, "without its arena the runtime does not count: only the memory of the process is measured",
		got["runtime.facts.1"])
	require.Equal(t, [3]string{"<nil>", "404", "[]"},
		[3]string{got["runtime.later_arena_bytes"], got["runtime.later_rss_bytes"], got["runtime.config"]})
	table = squeezed(printed(t, form(TableFormat)))
	require.Contains(t, table, "backend cuda threads chosen by the runtime\n")
	require.Contains(t, table, "optimizations , arena off\n")
	require.NotContains(t, table, "measured arena")
}

// distinctVerify is a comparison in which all numbers differ.
func distinctVerify(t *testing.T) *VerifyView {
	baseline, planned := distinctView(t), distinctView(t)
	planned.Run.Predicted.Live, planned.Run.Predicted.Arena = 111, 113
	planned.Run.Measured.Arena, planned.Run.Measured.Dynamic = 122, 123
	planned.Run.Resident, planned.Run.Predicted.Persistent = 102, 116
	planned.Run.Times = []time.Duration{6 * time.Millisecond, 6 * time.Millisecond, 9 * time.Millisecond}
	planned.Run.LibraryNodes = planned.Run.LibraryNodes[:1]
	return &VerifyView{Verdict: &verify.Verdict{Baseline: baseline.Run, Planned: planned.Run, Alternated: true,
		First: &verify.Difference{Value: "y", Text: "is wrong"}},
		Baseline: *baseline, Planned: *planned, Seeds: 7, Bitwise: true, Predicted: 1.875, Profile: "cpu"}
}

func TestVerifyNumbers(t *testing.T) {
	v := distinctVerify(t)
	form := func(f Format) func(io.Writer) error { return func(w io.Writer) error { return Verify(w, f, v) } }
	got := leaves(t, "verify", form(JSONFormat))
	for path, text := range runLeaves {
		require.Equal(t, text, got["baseline."+path], path)
	}
	require.Equal(t, "memopt.run/v1", got["baseline.schema"])
	// Ratios: 6/5, 6/3, 6/3, 6/11, 9/11.
	for path, text := range map[string]string{"equal": "false", "bitwise": "true", "seeds": "7",
		"first_difference.value": "y", "first_difference.text": "is wrong", "saved_bytes": "100",
		"slowdown": "1.2", "slowdown_basis.statistic": "median_of_paired_ratios", "slowdown_basis.pairs": "5",
		"slowdown_basis.baseline_ms": "5", "slowdown_basis.planned_ms": "6",
		"slowdown_basis.least_ratio": "0.5454545454545454", "slowdown_basis.most_ratio": "2",
		"predicted_slowdown": "1.875", "profile": "cpu",
		"planned.peak.predicted_live_bytes": "111", "planned.peak.arena_bytes": "113",
		"planned.peak.measured_arena_bytes": "122", "planned.peak.rss_bytes": "102"} {
		require.Equal(t, text, got[path], path)
	}
	table := squeezed(printed(t, form(TableFormat)))
	for _, line := range []string{
		`DIFFERENT: value "y": is wrong.`, "predicted live 211 B 111 B", "planned arena 213 B 113 B",
		"measured arena 222 B 122 B differs from the plan",
		"beside the plan 223 B 123 B values whose size depends on data, and subgraphs",
		"cuDNN workspace 303 B 301 B of the arena; the planned graph's as much with cudnn_conv_use_max_workspace off",
		"process 202 B 102 B VmHWM - VmRSS before the first step",
		"inputs and weights 216 B 116 B not included in other lines",
		"time of a step 5.00 ms 6.00 ms medians of 3 steps",
		"slowdown 5.00 ms 6.00 ms 1.200 times: the median of 5 paired ratios (0.545 to 2.000)",
		"device a remark", "predicted time 1.875 times by the cpu profile",
	} {
		require.Contains(t, table, line+"\n")
	}
	v.Verdict.Equal, v.Verdict.First, v.Verdict.Alternated, v.Predicted = true, nil, false, 0
	v.Verdict.Baseline.Measured.Arena, v.Verdict.Planned.Measured.Arena = 213, 113
	got = leaves(t, "verify", form(JSONFormat))
	require.Equal(t, [6]string{"true", "<nil>", "<nil>", "<nil>", "ratio_of_medians", "0"},
		[6]string{got["equal"], got["first_difference"], got["predicted_slowdown"], got["profile"],
			got["slowdown_basis.statistic"], got["slowdown_basis.pairs"]})
	table = squeezed(printed(t, form(TableFormat)))
	require.Contains(t, table,
		"Equal: all 2 outputs, bit for bit, on 7 sets of inputs. Saved: 100 B of 213 B (46.9 %).\n")
	require.Contains(t, table, "measured arena 213 B 113 B as planned, to the byte\n")
	require.Contains(t, table,
		"time of a step 5.00 ms 6.00 ms medians of 3 steps, 1.200 times: one graph ran after the other\n")
	v.Bitwise, v.Seeds, v.Unchanged = false, 1, true
	require.Contains(t, printed(t, form(TableFormat)),
		"Equal: all 2 outputs, within the tolerance, on 1 set of inputs. No recomputation is selected, so both "+
			"graphs are the same: select a level, a configuration or a budget.\n")
	v.Asked = true
	require.Contains(t, printed(t, form(TableFormat)), "The selection recomputes no node: both graphs are the same.\n")
	v.Baseline.Virtual = true
	require.Contains(t, printed(t, form(TableFormat)),
		"No values were computed on cuda: peaks are counted, and no outputs are compared.\n")
	require.NotContains(t, printed(t, form(TableFormat)), "time of a step")
}

func TestRuntimeVerify(t *testing.T) {
	v := distinctVerify(t)
	v.Baseline.Run.Runtime, v.Planned.Run.Runtime = distinctRuntime(), distinctRuntime()
	v.Planned.Run.Runtime.LaterArena, v.Planned.Run.Runtime.Created, v.Planned.Run.Runtime.Version = 333, 261, "1.2.4"
	v.Baseline.Run.Runtime.Exact = false
	form := func(f Format) func(io.Writer) error { return func(w io.Writer) error { return Verify(w, f, v) } }
	table := squeezed(printed(t, form(TableFormat)))
	for _, line := range []string{
		"ONNX Runtime 1.2.3 1.2.4 optimizations basic, parallel, a=b",
		"predicted live 211 B 111 B in ONNX Runtime's default order, simulated",
		"predicted arena 213 B 113 B whose chunks are up to twice as large as requested",
		"measured arena 222 B 122 B of the first step, outputs included: saved 45.0 %",
		"later steps 999 B 333 B saved 66.7 %", "process 202 B 102 B VmHWM - VmRSS before the first step: saved 49.5 %",
		"the session holds 251 B 261 B of the arena, before the first step",
		"slowdown 5.00 ms 6.00 ms 1.200 times: the median of 5 paired ratios (0.545 to 2.000)",
		"predicted time 1.875 times by the cpu profile",
	} {
		require.Contains(t, table, line+"\n")
	}
	require.Equal(t, "1.2.4", leaves(t, "verify", form(JSONFormat))["planned.runtime.version"])
	// Without an arena, the process's growth is what is saved.
	v.Baseline.Run.Runtime.Arena, v.Planned.Run.Runtime.Arena = false, false
	require.Equal(t, "100", leaves(t, "verify", form(JSONFormat))["saved_bytes"])
	v.Verdict.Planned.Resident = 2
	require.Equal(t, "200", leaves(t, "verify", form(JSONFormat))["saved_bytes"])
}

func TestPackNumbers(t *testing.T) {
	v := &PackView{Result: &pack.Result{Height: 1001, LowerBound: 1002, Optimal: true, Nodes: 1003, Method: "a method"},
		Buffers: 1004, Capacity: 1005, Took: 6 * time.Millisecond}
	form := func(f Format) func(io.Writer) error { return func(w io.Writer) error { return Pack(w, f, v) } }
	require.Equal(t, map[string]string{"buffers": "1004", "arena_bytes": "1001", "lower_bound_bytes": "1002",
		"capacity_bytes": "1005", "fits": "true", "optimal": "true", "nodes": "1003", "method": "a method",
		"time_ms": "6"},
		leaves(t, "pack", form(JSONFormat)))
	v.Capacity = 1000
	require.Equal(t, "false", leaves(t, "pack", form(JSONFormat))["fits"])
	v.Capacity = 1001
	require.Equal(t, "true", leaves(t, "pack", form(JSONFormat))["fits"])
	v.Capacity = 0
	got := leaves(t, "pack", form(JSONFormat))
	require.Equal(t, [2]string{"true", "<nil>"}, [2]string{got["fits"], got["capacity_bytes"]})
	require.Contains(t, squeezed(printed(t, form(TableFormat))), "buffers 1004\n")
}

func TestSolveNumbers(t *testing.T) {
	in, err := remat.Read(
		strings.NewReader(
			`{"name":"two","budget":9,"nodes":[{"id":5,"cost":10,"size":3,"inputs":[]},{"id":6,"cost":30,"size":4,"inputs":[5]}]}`))
	require.NoError(t, err)
	r := &remat.Result{CostLowerBound: 101, PeakLowerBound: 102, Optimal: true, Solver: "a solver", InOrder: true}
	r.Cost, r.Peak = 50, 104
	form := func(f Format) func(io.Writer) error { return func(w io.Writer) error { return Solve(w, f, in, r) } }
	want := map[string]string{
		"name": "two", "cost": "50", "peak": "104", "cost_lower_bound": "101", "peak_lower_bound": "102",
		"optimal": "true", "in_order": "true", "solver": "a solver", "overhead": "0.25",
	}
	got := leaves(t, "solve", form(JSONFormat))
	delete(got, "budget_bytes")
	require.Equal(t, want, got)
	table := squeezed(printed(t, form(TableFormat)))
	for _, line := range []string{"nodes 2", "peak 104 B no schedule has less than 102 B",
		"overhead 25.00 % proved to be the least in the given order", "found by a solver"} {
		require.Contains(t, table, line+"\n")
	}
	r.Optimal, r.CostLowerBound = false, 44
	require.Contains(t, squeezed(printed(t, form(TableFormat))), "overhead 25.00 % at least 10.00 %\n")
	require.Equal(t, "overhead 25.00 %", Overhead(0.25))
}

func TestSolutionNumbers(t *testing.T) {
	p := &remat.Problem{Name: "two", Unit: "us", Nodes: []remat.Computation{{ID: "a", Tags: []byte(`7`)}, {ID: "b"}}}
	s := &remat.Solution{Cost: 50, Base: 40, Peak: 104, CostLowerBound: 44, PeakLowerBound: 102, Solver: "a solver",
		AnyOrder: true}
	form := func(f Format) func(io.Writer) error { return func(w io.Writer) error { return Solution(w, f, p, s) } }
	require.JSONEq(t, `{"schema":"memopt.solve/v2","name":"two","cost":50,"cost_unit":"us","base_cost":40,"peak":104,
		"cost_lower_bound":44,"cost_lower_bound_order":"any","peak_lower_bound":102,"optimal":false,"in_order":false,
		"solver":"a solver","overhead":0.25}`, printed(t, form(JSONFormat)))
	table := squeezed(printed(t, form(TableFormat)))
	for _, line := range []string{"nodes 2", "peak 104 B no schedule has less than 102 B",
		"overhead 25.00 % at least 10.00 % in any order", "found by a solver"} {
		require.Contains(t, table, line+"\n")
	}
	s.Optimal, s.AnyOrder = true, false
	require.Contains(t, squeezed(printed(t, form(TableFormat))), "25.00 % proved to be the least in the given order\n")
	require.Contains(t, printed(t, form(JSONFormat)), `"cost_lower_bound_order": "given"`)
	var b strings.Builder
	require.NoError(t, SolutionJSON(&b, p, s))
	require.Contains(t, b.String(), `{"format":"memopt-schedule","version":2,"steps":[],`)
	require.Contains(t, b.String(), `"tags":{"a":7}}`)
}

func TestVersionNumbers(t *testing.T) {
	v := Version{Version: "1.2", Revision: "abc", Modified: true, Go: "go9", OS: "plan9", Arch: "mips"}
	form := func(f Format) func(io.Writer) error { return func(w io.Writer) error { return VersionReport(w, f, v) } }
	require.Equal(t, map[string]string{"version": "1.2", "revision": "abc", "modified": "true", "go": "go9",
		"os": "plan9", "arch": "mips"}, leaves(t, "version", form(JSONFormat)))
	require.Equal(t, "memopt 1.2 abc (modified) go9 plan9/mips\n", printed(t, form(TableFormat)))
	require.Equal(t, "item,value\nversion,1.2\nrevision,abc (modified)\ngo,go9\nos,plan9\narch,mips\n",
		printed(t, form(CSVFormat)))
	v.Revision, v.Modified = "", false
	require.Equal(t, "<nil>", leaves(t, "version", form(JSONFormat))["revision"])
	require.Equal(t, "memopt 1.2 go9 plan9/mips\n", printed(t, form(TableFormat)))
}

func TestInspectNumbers(t *testing.T) {
	m, types := stepModel(t)
	m.ProducerName = "a producer"
	b, err := live.FindBoundary(m)
	require.NoError(t, err)
	order, err := graph.Topological(m.Graph)
	require.NoError(t, err)
	in := &Inspection{Model: m, Types: types, Dims: symbolic.Env{"n": 10}, SHA: "5ha", By: "op", Boundary: &b,
		Order: order, Backward: live.Split(m.Graph, b, order)}
	x, _ := m.Graph.Lookup("x")
	g, _ := m.Graph.Lookup("g")
	in.States = []live.State{{In: x, Out: g}}
	form := func(f Format) func(io.Writer) error { return func(w io.Writer) error { return Inspect(w, f, in) } }
	want := map[string]string{"model.path": "step.onnx", "model.structure_sha256": "5ha", "model.nodes": "3",
		"opsets.0.domain": "", "opsets.0.version": "17", "symbols.0": "n", "dims.n": "10",
		"boundary.kind": "loss", "boundary.node": "mean", "inputs.0.name": "x", "inputs.0.type": "float[n, 4]",
		"states.0.input": "x", "states.0.output": "g", "states.0.bytes": "160",
		"inputs.0.bytes": "160", "inputs.0.expr": "16*n",
		"outputs.0.name": "loss", "outputs.0.type": "float", "outputs.0.bytes": "4", "outputs.0.expr": "4",
		"outputs.1.name": "g", "outputs.1.type": "float[n, 4]", "outputs.1.bytes": "160", "outputs.1.expr": "16*n",
		"stashed.0.name": "y", "stashed.0.type": "float[n, 4]", "stashed.0.bytes": "160", "stashed.0.expr": "16*n",
		"by": "op", "persistent_bytes": "160", "stashed_expr": "16*n", "unknown_ops": "[]", "deviations": "[]",
		"groups.0.name": "Mul", "groups.0.nodes": "2", "groups.0.values": "2", "groups.0.bytes": "320",
		"groups.0.expr": "32*n", "groups.0.stashed_bytes": "160", "groups.0.stashed_expr": "16*n",
		"groups.0.unknown_sizes": "0",
		"groups.1.name":          "ReduceMean", "groups.1.nodes": "1", "groups.1.values": "1", "groups.1.bytes": "4",
		"groups.1.expr": "4", "groups.1.stashed_bytes": "0", "groups.1.stashed_expr": "0",
		"groups.1.unknown_sizes": "0"}
	require.Equal(t, want, leaves(t, "inspect", form(JSONFormat)))
	require.Equal(t, "Operator,Nodes,Values,Bytes made,Stashed bytes,\"Bytes made, "+
		"formula\"\nMul,2,2,320,160,32*n\nReduceMean,1,1,4,0,4\n", printed(t, form(CSVFormat)))
	table := squeezed(printed(t, form(TableFormat)))
	for _, line := range []string{`Model step.onnx: graph "step", 3 nodes, 4 values, 0 functions`,
		"Opsets ai.onnx 17; IR version 8; made by a producer", "Symbols n=10", "Input x float[n, 4]",
		"Output g float[n, 4]",
		"Boundary node mean (loss); 1 stashed activations: 160 bytes = 16*n"} {
		require.Contains(t, table, line+"\n")
	}
	in.By = "category"
	got := leaves(t, "inspect", form(JSONFormat))
	byName := map[string]string{}
	for i := range 4 {
		at := fmt.Sprintf("groups.%d.", i)
		byName[got[at+"name"]] = got[at+"values"] + " " + got[at+"bytes"]
	}
	require.Equal(t, map[string]string{"graph inputs": "1 160", "stashed activations": "1 160",
		"backward values": "1 160", "other activations": "1 4"}, byName)
	in.By, in.Top = "node", 1
	require.Equal(t, "Node,Nodes,Values,Bytes made,Stashed bytes,\"Bytes made, formula\"\nsquare,1,1,160,160,16*n\n",
		printed(t, form(CSVFormat)))
	in.Boundary, in.Order, in.Dims = nil, nil, symbolic.Env{}
	got = leaves(t, "inspect", form(JSONFormat))
	require.Equal(t, [4]string{"<nil>", "<nil>", "[]", "<nil>"},
		[4]string{got["boundary"], got["groups.0.bytes"], got["stashed"], got["persistent_bytes"]})
	require.Contains(t, printed(t, form(TableFormat)), "this graph has no backward half\n")
}

func TestChromeTrace(t *testing.T) {
	h := TraceHeader{Schema: "s", StructureSHA256: "5ha", Dims: map[string]int64{"n": 3}, Backend: "cpu", Threads: 2,
		Rewritten: true}
	var b bytes.Buffer
	w := NewTraceWriter(&b, h)
	n, m := NewTraceNode("n", "Mul", "forward", "o"), NewTraceNode("m\x1b\"\u202e", "Add", "backward", "")
	w.Event(n, 4*time.Microsecond, 5*time.Microsecond, 6, 7)
	w.Event(m, 1500*time.Nanosecond, 0, 0, 0)
	require.Zero(t, testing.AllocsPerRun(100, func() { w.Event(n, time.Hour, time.Nanosecond, 1<<60, 1<<30) }),
		"a trace does not grow in memory")
	require.NoError(t, w.Close())
	require.NotContains(t, b.String(), "\x1b")
	require.NotContains(t, b.String(), "\u202e")
	var doc any
	require.NoError(t, json.Unmarshal(b.Bytes(), &doc))
	got := schematest.Leaves(doc)
	for path, v := range map[string]any{"displayTimeUnit": "ms", "otherData.schema": "s",
		"otherData.structure_sha256": "5ha", "otherData.dims.n": 3.0, "otherData.backend": "cpu",
		"otherData.threads": 2.0, "otherData.rewritten": true,
		"traceEvents.3.name": "n", "traceEvents.3.cat": "forward", "traceEvents.3.ph": "X", "traceEvents.3.ts": 4.0,
		"traceEvents.3.dur": 5.0, "traceEvents.3.args.op": "Mul", "traceEvents.3.args.step": 7.0,
		"traceEvents.3.args.live_bytes": 6.0, "traceEvents.3.args.origin": "o", "traceEvents.4.name": "live bytes",
		"traceEvents.4.ph": "C", "traceEvents.4.ts": 4.0, "traceEvents.4.args.bytes": 6.0} {
		require.Equal(t, v, got[path], path)
	}
	require.NotContains(t, got, "traceEvents.5.args.origin")
	require.Equal(t, "m\x1b\"\u202e", got["traceEvents.5.name"])
	require.Equal(t, 1.5, got["traceEvents.5.ts"])
	require.Equal(t, 3.6e9, got["traceEvents.7.ts"])
	require.Equal(t, 0.001, got["traceEvents.7.dur"])

	b.Reset()
	w = NewTraceWriter(&b, h)
	w.Thread(m, 2, 3*time.Microsecond, 4*time.Microsecond)
	require.Zero(t, testing.AllocsPerRun(100, func() { w.Thread(n, 1, time.Hour, time.Nanosecond) }))
	require.NoError(t, w.Close())
	require.NoError(t, json.Unmarshal(b.Bytes(), &doc))
	got = schematest.Leaves(doc)
	for path, v := range map[string]any{"traceEvents.3.args.name": "thread 1", "traceEvents.3.tid": 3.0,
		"traceEvents.4.args.name": "thread 2", "traceEvents.4.tid": 4.0, "traceEvents.5.ph": "B",
		"traceEvents.5.ts":  3.0,
		"traceEvents.5.tid": 4.0, "traceEvents.6.ph": "E", "traceEvents.6.ts": 7.0, "traceEvents.7.tid": 3.0,
		"traceEvents.7.name": "n", "traceEvents.6.name": "m\x1b\"\u202e"} {
		require.Equal(t, v, got[path], path)
	}

	full := errors.New("full")
	broken := NewTraceWriter(failingWriter{full}, h)
	for range 100000 { // more than is buffered
		broken.Event(n, 0, 0, 0, 0)
	}
	require.ErrorIs(t, broken.Close(), full)
}

// failingWriter is a full disk.
type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
