package planner_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/rapidflags"
	"memopt/planner"
	"memopt/recompute"
	"memopt/sim/ort"
	"memopt/symbolic"
)

// ofORTModule reads a graph of ORTModule's, with the sizes that its peak was measured with.
func ofORTModule(t *testing.T, name string) (*memopt.Model, symbolic.Env) {
	t.Helper()
	packed, err := os.Open("testdata/ortmodule/" + name + ".onnx.gz")
	require.NoError(t, err)
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	m, err := memopt.Read(bytes.NewReader(data), name, memopt.Options{})
	require.NoError(t, err)
	dims := symbolic.Env{}
	for _, d := range m.Graph.Inputs {
		for axis, dim := range m.Graph.Values[d.Value].Type.Shape.Dims {
			for _, s := range dim.Symbols() {
				dims[s] = []int64{4, 128}[min(axis, 1)]
				switch {
				case strings.HasPrefix(s, "pixel_values"):
					dims[s] = []int64{4, 3, 32, 32}[axis]
					if name == "convnext" && axis > 1 {
						dims[s] = 64
					}
				case name == "t5" && s == "labels_dim1":
					dims[s] = 64
				case name == "mlp":
					dims[s] = 64
				}
			}
		}
	}
	return m, dims
}

// TestSession: peaks in ORTModule are within 1 % of those that were measured there.
func TestSession(t *testing.T) {
	for _, c := range []struct {
		name     string
		strategy planner.Strategy
		measured int64
	}{
		{"bert", nil, 44_633_032}, {"bert", planner.Level(1), 44_160_512},
		{"bert", planner.Config{{Cluster: "Gelu+", Strategy: recompute.Full, Count: 1}}, 36_510_232},
		{"gpt2", nil, 43_634_144}, {"gpt2", planner.Level(1), 23_722_400},
		{"llama", nil, 45_990_568}, {"llama", planner.Level(1), 20_575_728}, {"llama", planner.Level(2), 21_625_424},
		{"t5", nil, 51_101_896}, {"t5", planner.Level(1), 33_823_160},
		{"vit", nil, 15_625_752}, {"vit", planner.Level(1), 13_234_928},
		{"convnext", nil, 8_390_896}, {"convnext", planner.Level(1), 6_407_872},
		{"mlp", nil, 530_760}, {"mlp", planner.Level(1), 472_928},
	} {
		m, dims := ofORTModule(t, c.name)
		o := planner.Options{Dims: dims, ORTModule: true, SkipLayout: true, Strategy: c.strategy}
		p, err := planner.Make(m.Model, m.Types, o)
		require.NoError(t, err)
		require.NotNil(t, p.Session)
		most := 0.005
		if c.name == "mlp" {
			most = 0.007 // of half a MiB
		}
		require.InEpsilon(t, c.measured, p.Session.Planned, most, "%s, %v", c.name, c.strategy)
	}
}

// TestSessionOrder: the nodes of mlp at level 1 run in the order in which a profile of ORTModule's session has them.
func TestSessionOrder(t *testing.T) {
	m, dims := ofORTModule(t, "mlp")
	p, err := planner.Make(m.Model, m.Types, planner.Options{Dims: dims, ORTModule: true, Strategy: planner.Level(1)})
	require.NoError(t, err)
	r, err := p.ByORTModule(0)
	require.NoError(t, err)
	var names []string
	for _, n := range r.Model.Graph.Nodes {
		if n.Kind != op.YieldOp {
			names = append(names, n.Name)
		}
	}
	profile, err := os.ReadFile("testdata/ortmodule/mlp-order.txt")
	require.NoError(t, err)
	require.Equal(t, strings.Fields(string(profile)), names)
}

// TestSessionOfFile: peaks of planned files in ORTModule: of one with anchors in the memory-efficient order, and of one
// in its own order, with and without the nodes that read outputs that no other node reads.
func TestSessionOfFile(t *testing.T) {
	m, dims := ofORTModule(t, "bert-planned")
	b, err := live.FindBoundary(m.Model)
	require.NoError(t, err)
	peak, err := ort.TrainingPeak(m.Model, ort.MemoryEfficientOrder(m.Graph, b.Node), dims)
	require.NoError(t, err)
	require.InEpsilon(t, 22_108_952, peak, 0.01)

	m, dims = ofORTModule(t, "gpt2-dropout-planned")
	peak, err = ort.TrainingPeak(m.Model, ort.PriorityOrder(m.Graph), dims)
	require.NoError(t, err)
	require.InEpsilon(t, 13_671_200, peak, 0.002)
	m.Graph.SetNodes(slices.DeleteFunc(slices.Clone(m.Graph.Nodes), func(n *graph.Node) bool {
		return strings.HasSuffix(n.Name, recompute.ReleaseSuffix)
	}))
	peak, err = ort.TrainingPeak(m.Model, ort.PriorityOrder(m.Graph), dims)
	require.NoError(t, err)
	require.InEpsilon(t, 14_195_120, peak, 0.002)
}

// TestSessionBudget: plans to a budget in ORTModule keep it there, of nodes and of clusters alike, and a share is of
// the graph as it is.
func TestSessionBudget(t *testing.T) {
	m, dims := ofORTModule(t, "bert")
	for _, b := range []planner.Budget{
		{Share: 0.7, ORTModule: true, Runtime: true},
		{Share: 0.99, ORTModule: true, Clusters: true},
	} {
		p, err := planner.Make(m.Model, m.Types, planner.Options{Dims: dims, ORTModule: true, Strategy: b})
		require.NoError(t, err)
		require.LessOrEqual(t, float64(p.Session.Planned), b.Share*float64(p.Session.Base))
		require.Equal(t, p.Session.Planned, p.Fit.Arena)
		require.True(t, p.Fit.Fits())
		require.NotEmpty(t, p.Placements)
	}
}

// TestSessionStart: the first plan that fits into the peak of level 1 costs no more than level 1.
func TestSessionStart(t *testing.T) {
	for _, name := range []string{"bert", "gpt2", "llama", "t5", "vit"} {
		m, dims := ofORTModule(t, name)
		o := planner.Options{Dims: dims, ORTModule: true, SkipLayout: true, Strategy: planner.Level(1)}
		level, err := planner.Make(m.Model, m.Types, o)
		require.NoError(t, err)
		o.Strategy = planner.Budget{Arena: level.Session.Planned, ORTModule: true, Runtime: true}
		p, err := planner.Make(m.Model, m.Types, o)
		require.NoError(t, err, name)
		require.LessOrEqual(t, p.Session.Planned, level.Session.Planned, name)
		require.LessOrEqual(t, p.Overhead, level.Overhead, name)
	}
}

// TestSessionMonotone: a larger budget never has a dearer plan, and one of level 1's peak has a plan that costs no more
// than level 1, whatever the effort.
func TestSessionMonotone(t *testing.T) {
	for _, name := range []string{"bert", "convnext", "gpt2", "llama", "mlp", "t5", "vit"} {
		t.Run(name, func(t *testing.T) {
			m, dims := ofORTModule(t, name)
			o := planner.Options{Dims: dims, ORTModule: true, SkipLayout: true, Strategy: planner.Level(1)}
			level, err := planner.Make(m.Model, m.Types, o)
			require.NoError(t, err)
			budgets, shares := []int64{level.Session.Planned}, []float64{0.5, 0.7, 0.75, 0.9}
			if rapidflags.All() {
				shares = append(shares, 0.65, 0.72, 0.8)
			}
			for _, share := range shares {
				budgets = append(budgets, int64(share*float64(level.Session.Base)))
			}
			slices.Sort(budgets)
			least, found := math.Inf(1), 0
			for _, b := range budgets {
				o.Strategy = planner.Budget{Arena: b, ORTModule: true, Runtime: true, Effort: 0.05}
				p, err := planner.Make(m.Model, m.Types, o)
				if errors.Is(err, planner.ErrInfeasible) {
					require.Zero(t, found, "%d bytes: a smaller budget has a plan", b)
					continue
				}
				require.NoError(t, err)
				require.LessOrEqual(t, p.Session.Planned, b)
				require.LessOrEqual(t, p.Overhead, least, "%d bytes: a smaller budget has a cheaper plan", b)
				if b >= level.Session.Planned {
					require.LessOrEqual(t, p.Overhead, level.Overhead, "%d bytes", b)
				}
				least, found = p.Overhead, found+1
			}
			require.Positive(t, found)
		})
	}
}

// TestSessionBound: no plan that is written as a file has a peak below the bound that a search names, whoever has
// chosen it. The bound ends a search at once, and shows that half the peak is out of reach in four of these nets.
func TestSessionBound(t *testing.T) {
	half := map[string]bool{"convnext": true, "mlp": true, "t5": true, "vit": true}
	for _, name := range []string{"bert", "convnext", "gpt2", "llama", "mlp", "t5", "vit"} {
		t.Run(name, func(t *testing.T) {
			m, dims := ofORTModule(t, name)
			o := planner.Options{Dims: dims, ORTModule: true, SkipLayout: true, Written: true}
			plan := func(s planner.Strategy) (*planner.Plan, *planner.InfeasibleError) {
				o.Strategy = s
				p, err := planner.Make(m.Model, m.Types, o)
				var no *planner.InfeasibleError
				if !errors.As(err, &no) {
					require.NoError(t, err)
				}
				return p, no
			}
			_, low := plan(planner.Budget{Arena: 1, ORTModule: true, Runtime: true})
			require.False(t, low.Searched())
			least := low.LowerBound
			require.ErrorContains(t, low, "no plan for ORTModule fits an arena of 1 bytes: no plan in one of 2 "+
				"orders has")
			all, _ := plan(planner.Level(1))
			strategies := []planner.Strategy{planner.Level(2)}
			for _, row := range all.Clusters {
				strategies = append(strategies, planner.Config{{Cluster: row.ID, Strategy: row.Strategy, Count: -1}})
			}
			lowest := all.Session.Planned
			for _, s := range strategies {
				p, _ := plan(s)
				lowest = min(lowest, p.Session.Planned)
			}
			for _, arena := range []int64{least, least + least/10} { // the first may be ruled out in one of the orders
				p, no := plan(planner.Budget{Arena: arena, ORTModule: true, Runtime: true})
				if no != nil {
					require.True(t, no.Searched())
					require.Equal(t, least, no.LowerBound)
					lowest = min(lowest, no.LowestArena)
				} else {
					lowest = min(lowest, p.Session.Planned)
				}
			}
			require.LessOrEqual(t, least, lowest)
			require.GreaterOrEqual(t, float64(least), 0.84*float64(lowest))
			require.Equal(t, half[name], 2*least > all.Session.Base)
		})
	}
}

// TestSessionExecution: the graphs that run and verify execute, in their orders, have the peaks in ORTModule that the
// plan promises: the unchanged one in the order of the file, that of a level or a configuration as ORTModule's own
// optimizer makes it, that of a budget as apply writes it.
func TestSessionExecution(t *testing.T) {
	m, dims := ofORTModule(t, "bert")
	m.Dims = dims
	for _, s := range []memopt.Strategy{
		nil, planner.Level(1), planner.Config{{Cluster: "Gelu+", Strategy: recompute.Full, Count: 1}},
		planner.Budget{Share: 0.7, ORTModule: true, Runtime: true},
		planner.Budget{Share: 0.999, ORTModule: true, Runtime: true}, // an order alone is enough
	} {
		p, err := m.Plan(t.Context(), s, memopt.PlanOptions{Options: planner.Options{ORTModule: true}})
		require.NoError(t, err)
		x := p.Execution()
		if p.Session.Planned != p.Session.Base {
			r, err := p.Rewrite(memopt.RewriteOptions{})
			require.NoError(t, err)
			require.Equal(t, p.Recompute.Nodes, r.Clones)
			x, err = r.Execution()
			require.NoError(t, err)
		}
		for _, side := range []struct {
			verify.Side
			want int64
		}{{x.Baseline, p.Session.Base}, {x.Planned, p.Session.Planned}} {
			peak, err := ort.TrainingPeak(side.Model, side.Order, dims)
			require.NoError(t, err)
			require.Equal(t, side.want, peak, "%v", s)
		}
	}
}

// TestSessionUnfused: a graph that ORTModule's session still fuses is named, and no graph that it runs is.
func TestSessionUnfused(t *testing.T) {
	for perm, wanted := range map[string]bool{"1, 0": true, "0, 1": false} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 15, "com.microsoft" : 1]>
			g (float[4, 4] x, float[4, 4] w) => (float[4, 4] d) {
				t = Transpose <perm = [`+perm+`]> (w)
				[product] h = MatMul (x, t)
				y = com.microsoft.Gelu (h)
				y_grad = com.microsoft.YieldOp <full_shape_outputs = [0]> (y)
				d = com.microsoft.GeluGrad (y_grad, h) }`, "g")
		require.NoError(t, err)
		types, err := op.Infer(m)
		require.NoError(t, err)
		p, err := planner.Make(m, types, planner.Options{ORTModule: true})
		require.NoError(t, err)
		require.Equal(t, wanted, strings.Contains(strings.Join(p.Warnings, " "), `the first is "product"`))
	}
	for _, name := range []string{"bert", "gpt2", "llama", "t5", "vit"} {
		m, dims := ofORTModule(t, name)
		p, err := planner.Make(m.Model, m.Types, planner.Options{Dims: dims, ORTModule: true, SkipLayout: true})
		require.NoError(t, err)
		require.NotContains(t, strings.Join(p.Warnings, " "), "does not run this graph")
	}
}

// TestSessionNames: ORTModule refuses a graph in which two clones of nodes without names have one name, and a level of
// such a graph says so; a plan to a budget names its clones apart.
func TestSessionNames(t *testing.T) {
	m, dims := ofORTModule(t, "gpt2") // with nodes that several candidates have
	o := planner.Options{Dims: dims, ORTModule: true, SkipLayout: true}
	warnings := func(s planner.Strategy) string {
		o.Strategy = s
		p, err := planner.Make(m.Model, m.Types, o)
		require.NoError(t, err)
		require.NotEmpty(t, p.Placements)
		return strings.Join(p.Warnings, "\n")
	}
	const told = "ORTModule refuses this graph (two nodes with same node name (_recompute))"
	require.NotContains(t, warnings(planner.Level(1)), "refuses")
	require.NotContains(t, warnings(planner.Level(2)), "refuses")
	for _, n := range m.Graph.Nodes {
		n.Name = ""
	}
	require.Contains(t, warnings(planner.Level(1)), told)
	require.NotContains(t, warnings(planner.Budget{Share: 0.9, ORTModule: true, Runtime: true}), "refuses")
}

// TestSessionTiny: in a net whose unchanged graph takes less memory in the order of the file than in the
// memory-efficient one, a budget of all of its memory needs no clone, and one below that is infeasible in both orders.
func TestSessionTiny(t *testing.T) {
	m, _ := ofORTModule(t, "tiny")
	o := planner.Options{Dims: symbolic.Env{"input_dim0": 4, "input_dim1": 3, "input_dim2": 16, "input_dim3": 16},
		ORTModule: true, SkipLayout: true}
	plan := func(share float64, order planner.OrderChoice) (*planner.Plan, error) {
		o.Order, o.Strategy = order, planner.Budget{Share: share, ORTModule: true, Runtime: true}
		return planner.Make(m.Model, m.Types, o)
	}
	_, err := plan(1, planner.OrderORT)
	require.ErrorIs(t, err, planner.ErrInfeasible)
	p, err := plan(1, planner.OrderAuto)
	require.NoError(t, err)
	require.Empty(t, p.Placements)
	require.Equal(t, p.Session.Base, p.Session.Planned)
	var none, file *planner.InfeasibleError
	_, err = plan(0.99, planner.OrderAuto)
	require.ErrorAs(t, err, &none)
	_, err = plan(0.99, planner.OrderFile)
	require.ErrorAs(t, err, &file)
	require.Equal(t, file.LowerBound, none.LowerBound)
	require.Equal(t, p.Session.Base, none.LowerBound) // the unchanged graph takes as little as any plan
	require.ErrorContains(t, none, "no plan in one of 2 orders")

	m, o.Dims = ofORTModule(t, "mlp")
	p, err = plan(1, planner.OrderAuto)
	require.NoError(t, err)
	require.Empty(t, p.Placements)
	require.Zero(t, p.Overhead)
}
