package emit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/answers/emit"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
)

// net is a traced step of four blocks of a LayerNorm-free perceptron, which Python's tests write.
const net = "../../sim/torch/testdata/net.step.json"

func plan(t *testing.T, share float64) *pytorch.Plan {
	t.Helper()
	data, err := os.ReadFile(net)
	require.NoError(t, err)
	step, err := torchsim.ReadStep(bytes.NewReader(data))
	require.NoError(t, err)
	return pytorch.MakeTraced(context.Background(), step, "net.step.json", "", pytorch.Options{Share: share})
}

func target(t *testing.T, name string) *emit.Target {
	t.Helper()
	x, err := emit.Lookup(name)
	require.NoError(t, err)
	require.Equal(t, name, x.Name)
	return x
}

func answer(t *testing.T, name string, p *pytorch.Plan) *emit.Answer {
	t.Helper()
	a, err := emit.Torch(context.Background(), target(t, name), p, emit.Moves{}, func() {})
	require.NoError(t, err)
	return a
}

// TestTargets: names are told apart, and an unknown one is an error that lists them.
func TestTargets(t *testing.T) {
	_, err := emit.Lookup("jaxx")
	require.EqualError(t, err, `"jaxx" is no target: wanted one of `+strings.Join(emit.Names(), ", "))
	for _, name := range emit.Names() {
		x := target(t, name)
		require.NotEmpty(t, x.Title)
		require.NotEmpty(t, x.Decides)
	}
}

// TestWholeModules: the target torch is the plan of modules itself.
func TestWholeModules(t *testing.T) {
	p := plan(t, 0.7)
	a := answer(t, "torch", p)
	var lines strings.Builder
	require.NoError(t, p.Lines(&lines))
	require.Equal(t, lines.String(), a.Text)
	require.Equal(t, p.Chosen.Usage.Peak, a.Peak)
	require.Equal(t, p.Overhead(p.Chosen), a.Overhead)
	require.Equal(t, &a.Memory, a.Own)
	require.NoError(t, a.Infeasible())
}

// TestSelective: settings are within the budget, take no longer than the plan of whole modules, which is one of them
// where no module lies in another, and are those that the text has.
func TestSelective(t *testing.T) {
	for _, share := range []float64{1, 0.95, 0.9, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.2} {
		p := plan(t, share)
		a := answer(t, "torch-policy", p)
		require.Equal(t, p.Program.Held, a.Held)
		require.Equal(t, p.Baseline.Usage.Peak, a.Baseline.Peak)
		require.Equal(t, p.Fits, a.Own != nil)
		if !a.Fits {
			require.Greater(t, a.Peak, p.Limit)
			require.Empty(t, a.Text)
			var e *emit.InfeasibleError
			require.ErrorAs(t, a.Infeasible(), &e)
			require.Equal(t, a.Peak, e.Lowest)
			continue
		}
		require.LessOrEqual(t, a.Peak, p.Limit)
		require.LessOrEqual(t, a.Overhead, p.Overhead(p.Chosen)+1e-12, share)
		require.Regexp(t, "^# .*: peak .* by .*, instead of .*% of a step more\\.\n", a.Text)
		require.Equal(t, usage(t, p, a.Text).Peak, a.Peak, "%v\n%s", share, a.Text)
		require.Equal(t, a.Text, answer(t, "torch-policy", plan(t, share)).Text, "the same every time")
	}
}

// usage reads the regions of a text back and simulates them.
func usage(t *testing.T, p *pytorch.Plan, text string) torchsim.Usage {
	t.Helper()
	_, text, ok := strings.Cut(text, "REGIONS = [\n")
	require.True(t, ok)
	text, _, ok = strings.Cut(text, "\n]\n")
	require.True(t, ok || strings.HasPrefix(text, "]\n"), text)
	kept := make([]bool, len(p.Program.Steps))
	var calls []int32
	ops := map[string]string{}
	inside := false // in the dict of operators
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "{":
			inside = true
			clear(ops)
		case line == "{},":
			clear(ops)
		case line == "},":
			inside = false
		case inside:
			op, at, ok := strings.Cut(strings.TrimSuffix(line, ","), ": ")
			require.True(t, ok, line)
			ops[strings.Trim(op, `"`)] = at
		case strings.HasPrefix(line, `"`):
			call := callOf(t, p, strings.Trim(line, `",`))
			calls = append(calls, call)
			keep(t, p, call, ops, kept)
		}
	}
	return p.Program.Simulator().RunKeeping(calls, kept)
}

func callOf(t *testing.T, p *pytorch.Plan, name string) int32 {
	t.Helper()
	for i, c := range p.Tree.Calls {
		if p.Tree.Modules[c.Module].Name == name {
			return int32(i)
		}
	}
	t.Fatal(name)
	return -1
}

// keep marks the operators that a region keeps: ops has sets of numbers of calls, for example {0, 2}.
func keep(t *testing.T, p *pytorch.Plan, call int32, ops map[string]string, kept []bool) {
	t.Helper()
	for op, set := range ops {
		var at []int
		require.NoError(t, json.Unmarshal([]byte("["+strings.Trim(set, "{}")+"]"), &at))
		n := 0
		for i := range p.Program.Steps[:p.Program.Backward] {
			if s := &p.Program.Steps[i]; s.Op != op || s.Call < 0 || !p.Tree.Within(s.Call, call) {
				continue
			}
			for _, k := range at {
				kept[i] = kept[i] || k == n
				require.True(t, k != n || p.Program.Keepable()[i], op)
			}
			n++
		}
	}
}

// TestSelectiveBest compares the search with all settings in which each block has no checkpoint, or one that keeps any
// of its costly operators.
func TestSelectiveBest(t *testing.T) {
	found := 0
	for _, share := range []float64{0.95, 0.8, 0.7, 0.66, 0.54, 0.5} {
		p := plan(t, share)
		if a := answer(t, "torch-policy", p); a.Fits {
			require.InDelta(t, brute(p), a.Overhead*p.Step, 1e-15, share)
			found++
		}
	}
	require.Equal(t, 6, found)
}

// brute is the least time of recomputation of these settings.
func brute(p *pytorch.Plan) float64 {
	blocks := p.Every.Calls
	options := make([][][]int, len(blocks)) // by block: the steps that are kept; nil at 0: no checkpoint
	for b, call := range blocks {
		var steps []int
		for i := range p.Program.Steps[:p.Program.Backward] {
			s := &p.Program.Steps[i]
			costly := s.Op == "aten.addmm.default" || s.Op == "aten.mul.Tensor"
			if costly && s.Call >= 0 && p.Tree.Within(s.Call, call) {
				steps = append(steps, i)
			}
		}
		options[b] = append(options[b], nil)
		for bits := range 1 << len(steps) {
			set := []int{}
			for k, step := range steps {
				if bits>>k&1 == 1 {
					set = append(set, step)
				}
			}
			options[b] = append(options[b], set)
		}
	}
	sim, best := p.Program.Simulator(), -1.0
	at := make([]int, len(blocks))
	for {
		kept := make([]bool, len(p.Program.Steps))
		var calls []int32
		for b, o := range at {
			if o == 0 {
				continue
			}
			calls = append(calls, blocks[b])
			for _, step := range options[b][o] {
				kept[step] = true
			}
		}
		if u := sim.RunKeeping(calls, kept); u.Peak <= p.Limit && (best < 0 || u.Seconds < best) {
			best = u.Seconds
		}
		b := 0
		for ; b < len(at); b++ {
			if at[b]++; at[b] < len(options[b]) {
				break
			}
			at[b] = 0
		}
		if b == len(at) {
			return best
		}
	}
}

// TestJSON: an answer as JSON has its numbers and its text.
func TestJSON(t *testing.T) {
	a := answer(t, "torch-policy", plan(t, 0.7))
	var b bytes.Buffer
	require.NoError(t, a.JSON(&b))
	var got struct {
		Schema, Target, Text string
		Fits                 bool
		Peak                 int64    `json:"peak_bytes"`
		Share                float64  `json:"recompute_share"`
		Limit                int64    `json:"limit_bytes"`
		Own                  struct { // memopt's
			Peak int64 `json:"peak_bytes"`
		} `json:"memopt"`
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &got))
	require.Equal(t, "memopt.emit/v1", got.Schema)
	require.Equal(t, "torch-policy", got.Target)
	require.Equal(t, a.Text, got.Text)
	require.True(t, got.Fits)
	require.Equal(t, a.Peak, got.Peak)
	require.Equal(t, a.Overhead, got.Share)
	require.Equal(t, *a.Limit, got.Limit)
	require.Equal(t, a.Own.Peak, got.Own.Peak)
}

// layered is the plan of the net with blocks of the names layers.0, layers.1 …
func layered(t *testing.T, share float64, edit ...string) *pytorch.Plan {
	t.Helper()
	data, err := os.ReadFile(net)
	require.NoError(t, err)
	text := strings.NewReplacer(append([]string{`"h.`, `"layers.`}, edit...)...).Replace(string(data))
	step, err := torchsim.ReadStep(strings.NewReader(text))
	require.NoError(t, err)
	return pytorch.MakeTraced(context.Background(), step, "net.step.json", "", pytorch.Options{Share: share})
}

// TestTitan: the save set is the cheapest of all, by the rules of torchtitan's checkpoints: around all layers, without
// an early stop, and every second product of matrices runs again.
func TestTitan(t *testing.T) {
	_, err := emit.Torch(context.Background(), target(t, "torchtitan"), plan(t, 0.8), emit.Moves{}, func() {})
	require.ErrorIs(t, err, emit.ErrNoLayers)
	a := answer(t, "torchtitan", layered(t, 1))
	require.True(t, strings.HasSuffix(a.Text, "\nactivation_checkpoint = None\n"), a.Text)
	require.Zero(t, a.Overhead)
	saved := 0
	for _, edit := range [][]string{nil, {"aten.addmm.default", "aten.mm.default"}} {
		for _, share := range []float64{0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.5, 0.3} {
			p := layered(t, share, edit...)
			a := answer(t, "torchtitan", p)
			best, least := bruteTitan(p)
			require.Equal(t, best >= 0, a.Fits, share)
			if !a.Fits {
				require.Equal(t, least, a.Peak)
				continue
			}
			require.LessOrEqual(t, a.Peak, p.Limit)
			require.InDelta(t, best, a.Overhead*p.Step, 1e-15, share)
			require.Contains(t, a.Text, "preserve_rng_state=True", "blocks drop")
			saved += strings.Count(a.Text, "torch.ops.aten.")
		}
	}
	require.Greater(t, saved, 5)
}

// bruteTitan is the least time of recomputation of all save sets that fit, -1 for none, and the least peak.
func bruteTitan(p *pytorch.Plan) (best float64, least int64) {
	program := *p.Program
	program.Early = false
	keepable := program.Keepable()
	var calls []int32
	var ops []string
	byOp := map[string][]int{}
	for c := range program.Tree.Calls {
		name := program.Tree.Modules[program.Tree.Calls[c].Module].Name
		if strings.Count(name, ".") != 1 || !strings.HasPrefix(name, "layers.") {
			continue
		}
		calls = append(calls, int32(c))
		products := 0
		for i := range program.Steps[:program.Backward] {
			s := &program.Steps[i]
			if s.Call < 0 || !program.Tree.Within(s.Call, int32(c)) || !keepable[i] {
				continue
			}
			if s.Op == "aten.mm.default" {
				if products++; products == 2 {
					continue
				}
			}
			if byOp[s.Op] == nil {
				ops = append(ops, s.Op)
			}
			byOp[s.Op] = append(byOp[s.Op], i)
		}
	}
	sim := program.Simulator()
	best, least = -1, p.Baseline.Usage.Peak
	if p.Baseline.Usage.Peak <= p.Limit {
		best = 0
	}
	for bits := range 1 << len(ops) {
		kept := make([]bool, len(program.Steps))
		for k, op := range ops {
			for _, step := range byOp[op] {
				kept[step] = bits>>k&1 == 1
			}
		}
		u := sim.RunKeeping(calls, kept)
		least = min(least, u.Peak)
		if u.Peak <= p.Limit && (best < 0 || u.Seconds < best) {
			best = u.Seconds
		}
	}
	return best, least
}

// TestTitanBest compares the search with all save sets, where operators take other times.
func TestTitanBest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	best := 0
	for range 60 {
		p := layered(t, 0.6+0.35*r.Float64())
		for i := range p.Program.Steps {
			p.Program.Steps[i].Seconds *= 0.2 + r.Float64()
		}
		least, _ := bruteTitan(p)
		found := answer(t, "torchtitan", p).Overhead * p.Step
		require.GreaterOrEqual(t, found, least-1e-15)
		if found <= least+1e-15 {
			best++
		}
	}
	require.GreaterOrEqual(t, best, 57)
}

// TestSelectiveLast: where not all equal blocks may keep a result, the last ones do.
func TestSelectiveLast(t *testing.T) {
	text := answer(t, "torch-policy", plan(t, 0.8)).Text
	for _, want := range []string{
		"{\n            \"aten.addmm.default\": {1},\n        },\n        [\n            \"h.0\",\n        ],\n",
		"{\n            \"aten.addmm.default\": {0, 1},\n        },\n        [\n            \"h.1\",\n        ],\n",
	} {
		require.Contains(t, text, want)
	}
}
