package planfile_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/check"
	"memopt/check/planfile"
	"memopt/configs"
	"memopt/graph"
	"memopt/planner/offload"
	"memopt/recompute"
)

// movedPlans are plans whose values move, one of them with recomputation.
func movedPlans(t *testing.T) (all []planned) {
	for _, c := range []struct {
		name  string
		dims  map[string]int64
		share float64
		rate  float64
	}{
		{"transformer-small", map[string]int64{"batch": 4, "seq": 64}, 0.6, 1e12},
		{"mlp", map[string]int64{"batch": 4096}, 0.3, 1e11},
	} {
		m, err := memopt.Example(c.name, memopt.Options{Dims: c.dims})
		require.NoError(t, err)
		p, err := m.PlanMoves(t.Context(), memopt.Budget{Share: c.share, Effort: 0.005}, memopt.PlanOptions{},
			memopt.MoveOptions{Link: offload.Link{BytesPerSecond: c.rate}, HostBudget: 1 << 34})
		require.NoError(t, err)
		require.NotEmpty(t, p.Moves)
		file, err := p.File()
		require.NoError(t, err)
		all = append(all, planned{c.name, m, file})
	}
	return all
}

func (p *planned) check(r *recompute.Record) (*check.Report, *planfile.Schedule, error) {
	return planfile.Check(p.model.Model, p.model.StructureSHA256, p.model.Dims, r)
}

// alone is the graph with the recomputations of a record, and the place of each label in it.
func (p *planned) alone(t *testing.T, r *recompute.Record) (*graph.Graph, []string) {
	q := *r
	q.MovedRecord = nil
	s, err := p.model.PlanOf(&q)
	require.NoError(t, err)
	plan, err := p.model.Plan(t.Context(), s, memopt.PlanOptions{})
	require.NoError(t, err)
	w, err := plan.Rewrite(memopt.RewriteOptions{Seed: r.Seed})
	require.NoError(t, err)
	return w.Model.Graph, recompute.Labels(w.Model.Graph)
}

// fault makes a plan file wrong; false: the move has no place for that.
type fault struct {
	name  string
	kinds []string // of the first fault
	make  func(rng *rand.Rand, r *recompute.Record, g *graph.Graph, labels []string) bool
}

// change makes a fault of one that changes a move. It tells of the value's readers by place, views included.
func change(f func(m *recompute.MoveRecord, at func(label string) int, readers []int, labels []string) bool) func(
	*rand.Rand, *recompute.Record, *graph.Graph, []string) bool {
	return func(rng *rand.Rand, r *recompute.Record, g *graph.Graph, labels []string) bool {
		for _, i := range rng.Perm(len(r.Moves)) {
			m := &r.Moves[i]
			v, _ := g.Lookup(m.Value)
			var readers []int
			for at, n := range g.Nodes {
				if slices.Contains(n.Inputs, v) {
					readers = append(readers, at)
				}
			}
			at := func(label string) int { return slices.Index(labels, label) }
			if f(m, at, readers, labels) {
				return true
			}
		}
		return false
	}
}

var movedFaults = []fault{
	{"freed too early", []string{"freed", "not-reloaded", "not-made", "view-of-freed", "going-out"},
		change(func(m *recompute.MoveRecord, at func(string) int, readers []int, labels []string) bool {
			for _, p := range readers {
				if m.Offload != "" && at(m.Offload) <= p && p < at(m.Free) {
					m.Free = labels[p]
					return true
				}
			}
			return false
		})},
	// A wait for a later copy back covers it; no graph can be made of it then, either.
	{"no wait behind the copy back", []string{"coming-in", "not-made"},
		change(func(m *recompute.MoveRecord, _ func(string) int, _ []int, _ []string) bool {
			m.Wait = ""
			return true
		})},
	{"the wait is too late", []string{"coming-in", "not-made"},
		change(func(m *recompute.MoveRecord, at func(string) int, _ []int, labels []string) bool {
			m.Wait = labels[min(at(m.Wait)+1, len(labels)-1)]
			return true
		})},
	{"reloaded while it lives", []string{"reload-live"},
		change(func(m *recompute.MoveRecord, at func(string) int, _ []int, labels []string) bool {
			if m.Offload == "" || at(m.Free)-at(m.Offload) < 2 {
				return false
			}
			m.Reload = labels[at(m.Free)-1]
			return true
		})},
	{"reloaded without a copy", []string{"no-host-copy", "freed"},
		change(func(m *recompute.MoveRecord, _ func(string) int, _ []int, _ []string) bool {
			was := m.Offload
			m.Offload = ""
			return was != ""
		})},
	{"never freed", []string{"reload-live"},
		change(func(m *recompute.MoveRecord, _ func(string) int, _ []int, _ []string) bool {
			m.Free = ""
			return true
		})},
	{"moved while it is made", []string{"not-made"},
		change(func(m *recompute.MoveRecord, _ func(string) int, _ []int, labels []string) bool {
			m.Offload = labels[0]
			return true
		})},
	{"never comes back", []string{"no-copy", "freed", "not-reloaded", "coming-in"},
		change(func(m *recompute.MoveRecord, _ func(string) int, _ []int, _ []string) bool {
			m.Reload, m.Wait = "", ""
			return true
		})},
	{"no such node", []string{"unknown"},
		change(func(m *recompute.MoveRecord, _ func(string) int, _ []int, _ []string) bool {
			m.Free = "no such node"
			return true
		})},
	{"no such value", []string{"unknown"},
		change(func(m *recompute.MoveRecord, _ func(string) int, _ []int, _ []string) bool {
			m.Value = "no such value"
			return true
		})},
	{"a view moves", []string{"not-movable"}, func(_ *rand.Rand, r *recompute.Record, g *graph.Graph, _ []string) bool {
		for _, n := range g.Nodes {
			if n.Op == "Reshape" && g.Values[n.Inputs[0]].Def != graph.NoNode {
				r.Moves[0].Value = g.ValueName(n.Outputs[0])
				return true
			}
		}
		return false
	}},
	{"another seed on replay", []string{"other-seed"},
		func(rng *rand.Rand, r *recompute.Record, _ *graph.Graph, _ []string) bool {
			if len(r.Seeds) > 0 {
				r.Seeds[rng.IntN(len(r.Seeds))].Seed = "12345"
			}
			return len(r.Seeds) > 0
		}},
	{"another link", []string{"wrong-makespan"}, number(func(r *recompute.Record) { r.Link.BytesPerSecond /= 64 })},
	{"no link", []string{"wrong-link", "not-movable"}, number(func(r *recompute.Record) { r.Link.BytesPerSecond = 0 })},
	{"another makespan", []string{"wrong-overhead"}, number(func(r *recompute.Record) { r.Makespan *= 1.01 })},
	{"another time as is", []string{"wrong-base-cost"}, number(func(r *recompute.Record) { r.Base *= 1.01 })},
	{"another overhead", []string{"wrong-overhead"},
		number(func(r *recompute.Record) { r.Recompute.Overhead += 0.01 })},
	{"times of other nodes", []string{"wrong-cost"},
		number(func(r *recompute.Record) { r.NodeMicros = r.NodeMicros[1:] })},
	{"another peak of the host", []string{"wrong-host-peak"}, number(func(r *recompute.Record) { r.HostPeak-- })},
	{"other moved bytes", []string{"wrong-moved"}, number(func(r *recompute.Record) { r.MovedBytes++ })},
	{"less host", []string{"over-budget"}, number(func(r *recompute.Record) { r.HostBudget = r.HostPeak - 1 })},
	{"another peak", []string{"wrong-peak"}, number(func(r *recompute.Record) { r.Predicted.PlannedBytes-- })},
	{"another bound", []string{"wrong-bound"}, number(func(r *recompute.Record) {
		r.Bound = map[string]any{"overhead_lower_bound": 1 + r.Recompute.Overhead}
	})},
	{"other streams", []string{"unknown"}, number(func(r *recompute.Record) { r.Streams = r.Streams[1:] })},
	{"more in the certificate", []string{"wrong-bound"},
		func(_ *rand.Rand, r *recompute.Record, _ *graph.Graph, _ []string) bool {
			if r.Certificate != nil {
				r.Certificate.Bound *= 1.0001
			}
			return r.Certificate != nil
		}},
	{"a certificate for less", []string{"over-budget"},
		func(_ *rand.Rand, r *recompute.Record, _ *graph.Graph, _ []string) bool {
			if r.Certificate != nil {
				r.Certificate.BudgetBytes, r.Certificate.Bound = r.Predicted.ArenaBytes-1, 0
			}
			return r.Certificate != nil
		}},
}

func number(f func(r *recompute.Record)) func(*rand.Rand, *recompute.Record, *graph.Graph, []string) bool {
	return func(_ *rand.Rand, r *recompute.Record, _ *graph.Graph, _ []string) bool {
		f(r)
		return true
	}
}

// pythonLoop has the file check.py answer schedules, a line of two objects each.
const pythonLoop = `
import json, sys
sys.path.insert(0, sys.argv[1])
import check
for line in sys.stdin:
    answer, instance = json.loads(line)
    print(json.dumps(check.check(answer, instance)))
`

// TestMovedFaults: no alarm over plan files whose values move; each edit is found, by its kind; and check.py says of
// the schedules of all of them the same as package check.
func TestMovedFaults(t *testing.T) {
	var in bytes.Buffer
	var want []string
	compare := func(s *planfile.Schedule) {
		if s == nil {
			return
		}
		in.WriteString("[" + string(s.Steps) + "," + string(s.Instance) + "]\n")
		r, err := check.Answer(bytes.NewReader(s.Steps), bytes.NewReader(s.Instance))
		require.NoError(t, err)
		text, err := json.Marshal(r)
		require.NoError(t, err)
		want = append(want, string(text))
	}
	plans, found := movedPlans(t), map[string]int{}
	for _, p := range plans {
		r := p.record(t)
		got, s, err := p.check(r)
		require.NoError(t, err)
		require.Empty(t, got.Faults, p.name)
		require.Subset(t, got.Proved, []string{"steps", "copies", "numbers"})
		compare(s)
		g, labels := p.alone(t, r)
		for k, f := range movedFaults {
			for seed := range 3 {
				r := p.record(t)
				if !f.make(rand.New(rand.NewPCG(uint64(k), uint64(seed))), r, g, labels) {
					continue
				}
				got, s, err := p.check(r)
				require.NoError(t, err, "%s: %s", p.name, f.name)
				require.NotEmpty(t, got.Faults, "%s: %s", p.name, f.name)
				require.False(t, got.Valid)
				require.Contains(t, f.kinds, got.Faults[0].Kind, "%s: %s: %v", p.name, f.name, got.Faults)
				found[f.name]++
				compare(s)
			}
		}
	}
	for _, f := range movedFaults {
		require.Positive(t, found[f.name], f.name)
	}
	t.Logf("%v", found)
	python := os.Getenv("TORCH_PYTHON")
	if python == "" {
		var err error
		if python, err = exec.LookPath("python3"); err != nil {
			t.Skip("python3 is missing: install it, or set TORCH_PYTHON, as .ci/run does")
		}
	}
	cmd := exec.Command(python, "-c", pythonLoop, "../../python/src/memopt")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, got, len(want))
	for i := range got {
		require.JSONEq(t, want[i], got[i])
	}
}

// TestMutatedFiles: whatever a plan file holds, a check ends with a report or an error, and so does the making of its
// graph.
func TestMutatedFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	p := movedPlans(t)[0]
	for range 40 {
		var file any
		require.NoError(t, json.Unmarshal(p.file, &file))
		for range 1 + rng.IntN(2) {
			file = mutated(rng, file)
		}
		text, err := json.Marshal(file)
		require.NoError(t, err)
		r, err := configs.ParsePlan(text, "plan")
		if err != nil || r.MovedRecord == nil {
			continue
		}
		require.NotPanics(t, func() {
			if got, _, err := p.check(r); err == nil {
				require.Equal(t, len(got.Faults) == 0, got.Valid)
			}
			p.model.MovingOf(t.Context(), r, memopt.PlanOptions{})
		}, "%s", text)
	}
}

// mutated changes one place of a JSON value.
func mutated(rng *rand.Rand, v any) any {
	others := []any{nil, -1.0, 1e300, "", "x", []any{}, map[string]any{}, true}
	switch x := v.(type) {
	case map[string]any:
		if len(x) == 0 || rng.IntN(12) == 0 {
			break
		}
		var keys []string
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		k := keys[rng.IntN(len(keys))]
		if rng.IntN(6) == 0 {
			delete(x, k)
		} else {
			x[k] = mutated(rng, x[k])
		}
		return x
	case []any:
		if len(x) == 0 || rng.IntN(12) == 0 {
			break
		}
		switch i := rng.IntN(len(x)); rng.IntN(5) {
		case 0:
			return append(x[:i], x[i+1:]...)
		case 1:
			return append(x, x[i])
		case 2:
			j := rng.IntN(len(x))
			x[i], x[j] = x[j], x[i]
			return x
		default:
			x[i] = mutated(rng, x[i])
			return x
		}
	case float64:
		return []any{x + 1, -x, 0.0, x / 2}[rng.IntN(4)]
	}
	return others[rng.IntN(len(others))]
}
