package report

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/planner"
	"memopt/planner/arena"
)

func TestBandsNumbers(t *testing.T) {
	plan := func(most, arenaBytes int64, nodes int) *planner.Plan {
		return &planner.Plan{Options: planner.Options{Strategy: planner.Budget{Total: 1009}},
			Span: &planner.Span{Most: most}, Arena: &arena.Layout{Bytes: arenaBytes},
			Recompute: planner.Cost{Nodes: nodes}}
	}
	b := &planner.Bands{Histogram: &planner.Histogram{Symbol: "seq"}, Quantile: 0.95, Overhead: 0.0201, One: 0.0302,
		Single: 0.0103, Beyond: 0.05, Longest: 1040, Most: 1023, List: []planner.Band{
			{Lo: 1010, Hi: 1011, Share: 0.75, Mean: 1012, Plan: plan(1013, 1016, 1015), Seconds: 2.5, Overhead: 0.0104},
			{Lo: 1020, Hi: 1021, Share: 0.2, Mean: 1022, Plan: plan(1023, 1014, 1025), Seconds: 3.5, Overhead: 0.0405},
		}}
	form := func(f Format) func(io.Writer) error {
		return func(w io.Writer) error { return Bands(w, f, "m.onnx", b, "", nil) }
	}
	require.Equal(t, map[string]string{"model": "m.onnx", "symbol": "seq", "budget_bytes": "1009", "quantile": "0.95",
		"arena_bytes": "1016", "overhead": "0.0201", "overhead_one_plan": "0.0302", "overhead_plan_for_each": "0.0103",
		"bands.0.from": "1010", "bands.0.to": "1011", "bands.0.share": "0.75", "bands.0.mean": "1012",
		"bands.0.most_bytes": "1013", "bands.0.arena_bytes": "1016", "bands.0.step_seconds": "2.5",
		"bands.0.overhead": "0.0104", "bands.0.recomputed_nodes": "1015", "bands.0.plan": "<nil>",
		"bands.1.from": "1020", "bands.1.to": "1021", "bands.1.share": "0.2", "bands.1.mean": "1022",
		"bands.1.most_bytes": "1023", "bands.1.arena_bytes": "1014", "bands.1.step_seconds": "3.5",
		"bands.1.overhead": "0.0405", "bands.1.recomputed_nodes": "1025", "bands.1.plan": "<nil>",
		"beyond.share": "0.05", "beyond.longest": "1040", "beyond.bytes": "1023"},
		leaves(t, "bands", form(JSONFormat)))
	require.Equal(t, "from,to,share,mean,most_bytes,overhead,recomputed_nodes\n"+
		"1010,1011,0.750000,1012,1013,0.010400,1015\n1020,1021,0.200000,1022,1023,0.040500,1025\n",
		printed(t, form(CSVFormat)))
	require.Contains(t, printed(t, form(MarkdownFormat)),
		"| 1020 | 1021 | 0.200000 | 1022 | 1023 | 0.040500 | 1025 |\n")
	table := squeezed(strings.ReplaceAll(printed(t, form(TableFormat)), "\n", " "))
	require.Contains(t, table, "1010 1011 75.0 % 1012 1013 B 1.0 % 1015 1020 1021 20.0 % 1022 1023 B 4.0 % 1025")
	require.Contains(t, table, "steps take 2.0 % longer than without recomputation; with one plan for all sizes "+
		"3.0 %, with a plan for each of the sizes that were tried 1.0 %. All plans use one arena of 1016 B. "+
		"5.0 % of the steps are longer: with the last plan they take up to 1023 B, at seq=1040.")

	b.Beyond = 0
	files := []string{"a.json", "b.json"}
	saved := func(f Format) func(io.Writer) error {
		return func(w io.Writer) error { return Bands(w, f, "m.onnx", b, "plans", files) }
	}
	got := leaves(t, "bands", saved(JSONFormat))
	require.Equal(t, "b.json", got["bands.1.plan"])
	require.Equal(t, "<nil>", got["beyond"])
	require.Contains(t, printed(t, saved(CSVFormat)), ",0.040500,1025,b.json\n")
	text := printed(t, saved(TableFormat))
	require.Contains(t, text, "The plans are in plans.\n")
	require.NotContains(t, text, "longer: with the last plan")
}
