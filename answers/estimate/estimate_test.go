package estimate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt"
	"memopt/answers/estimate"
	"memopt/autograd"
	"memopt/configs"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/precision"
	"memopt/internal/test/graphtest"
	_ "memopt/internal/test/rapidflags"
	"memopt/planner/device"
	"memopt/train"
)

// open opens a sample model, or skips.
func open(t *testing.T, name string, dims map[string]int64) *memopt.Model {
	t.Helper()
	list := graphtest.Structures.Files(t)
	at := slices.IndexFunc(list, func(x graphtest.Sample) bool { return x.Name == name })
	require.GreaterOrEqual(t, at, 0, name)
	m, err := memopt.Open(list[at].File, memopt.Options{Dims: dims})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// adamw is the recipe of memopt train's defaults.
func adamw() train.Recipe {
	return train.Recipe{Optimizer: autograd.Optimizer{Kind: "adamw", MaxNorm: 1}}
}

// TestPlansTotal: of a graph that is taken as it is, the total is that of its plan, and the parts
// are those of the plan's peak; with a budget, those of the plan to that budget.
func TestPlansTotal(t *testing.T) {
	for _, ex := range examples.All() {
		m, err := memopt.Example(ex.Name, memopt.Options{})
		require.NoError(t, err)
		r, err := estimate.Make(t.Context(), m, estimate.Options{})
		require.NoError(t, err, ex.Name)
		p, err := m.Plan(t.Context(), nil, memopt.PlanOptions{})
		require.NoError(t, err)
		require.Equal(t, p.Persistent+p.Arena.Bytes, r.Plain.Total()-r.Plain.Parts.Reserve, ex.Name)
		at, gaps := p.AtPeak()
		require.Equal(t, at.Activations, r.Plain.Parts.Activations, ex.Name)
		require.Equal(t, at.Temporaries+gaps, r.Plain.Parts.Temporaries, ex.Name)
		require.Equal(t, at.Gradients, r.Plain.Parts.Gradients, ex.Name)
		_, known := r.Fits()
		require.False(t, known)
		require.Nil(t, r.Planned)

		none := int64(0)
		total := p.Persistent + p.Arena.Bytes
		memory := total - p.Arena.Bytes/5
		r, err = estimate.Make(t.Context(), m, estimate.Options{Memory: memory, Reserve: &none})
		require.NoError(t, err)
		fits, known := r.Fits()
		require.True(t, known)
		require.False(t, fits)
		require.NotNil(t, r.Planned, ex.Name)
		require.LessOrEqual(t, r.Planned.Total(), memory)
		own := r.Planned.Plans[0]
		require.Equal(t, own.Persistent+own.Arena.Bytes, r.Planned.Total()-r.Planned.Parts.Reserve)
		require.Equal(t, own.Overhead, r.Planned.Overhead)
	}
}

// TestParameters counts by hand: GPT-2 of 124M has 124,439,808 parameters (Radford and others, 2019,
// as counted in openai/gpt-2: 50257·768 + 1024·768 + 12·(12·768² + 13·768) + 2·768), and AdamW keeps
// two moments of 4 bytes for each, besides a count of steps.
func TestParameters(t *testing.T) {
	const params = 50257*768 + 1024*768 + 12*(12*768*768+13*768) + 2*768
	require.Equal(t, 124_439_808, params)
	m := open(t, "gpt2_124m", map[string]int64{"batch": 1, "seq": 64})
	for _, c := range []struct {
		precision             precision.Precision
		optimizer             string
		weight, state, master int64
	}{
		{precision.AsIs, "adamw", 4, 8, 0},
		{precision.FP32, "adam", 4, 8, 0},
		{precision.FP32, "sgd", 4, 0, 0},
		{precision.BF16, "adamw", 2, 12, 4},
		{precision.FP16Mixed, "adamw", 2, 12, 4},
		{precision.BF16, "sgd", 2, 4, 4},
		{precision.BF16Pure, "adamw", 2, 4, 0},
	} {
		recipe := adamw()
		recipe.Optimizer.Kind = c.optimizer
		r, err := estimate.Make(t.Context(), m, estimate.Options{Recipe: recipe, Precision: c.precision})
		require.NoError(t, err, c)
		require.Equal(t, int64(params), r.Parameters)
		p := r.Plain.Parts
		require.InDelta(t, c.state*params, p.State, 64, c) // beside a count of steps
		require.Equal(t, c.master*params, p.Master, c)
		// Besides parameters there are masks of 12 layers, of 1024·1024 bytes at most, and constants.
		require.GreaterOrEqual(t, p.Weights-p.Inputs, c.weight*params, c)
		require.LessOrEqual(t, p.Weights-p.Inputs, c.weight*params+12<<20, c)
		require.Equal(t, c.weight+c.state, r.PerParameter.Weight+r.PerParameter.Master+r.PerParameter.Moments, c)
	}
}

// TestStateOfJobs: the state that an estimate states is that of the job, to the byte, in any precision: master weights
// apart, which a job has as its weights.
func TestStateOfJobs(t *testing.T) {
	models := map[string]*memopt.Model{
		"gpt2_6l_256": open(t, "gpt2_6l_256", map[string]int64{"batch": 1, "seq": 16}),
		"mlp_8x1024":  open(t, "mlp_8x1024", map[string]int64{"batch": 4}),
		"resnet18":    open(t, "resnet18", map[string]int64{"batch": 1}),
		"gpt2_124m":   open(t, "gpt2_124m", map[string]int64{"batch": 1, "seq": 8}),
	}
	coded := 0
	for name, m := range models {
		for _, kind := range []string{"adam8bit", "adamw8bit", "adam4bit", "adamw4bit", "adamw", "lion", "sgd",
			"muon", "adafactor"} {
			for _, p := range []precision.Precision{precision.AsIs, precision.BF16, precision.BF16Pure} {
				if name == "gpt2_124m" && (p != precision.BF16Pure || kind != "adamw4bit") {
					continue // one suffices of the large one
				}
				what := fmt.Sprintf("%s, %s, %s", name, kind, p)
				recipe := adamw()
				recipe.Optimizer.Kind = kind
				r, err := estimate.Make(t.Context(), m, estimate.Options{Recipe: recipe, Precision: p})
				require.NoError(t, err, what)
				recipe.Differentiate.Precision = p
				steps, err := train.Make(m, recipe)
				require.NoError(t, err, what)
				state := int64(0)
				for _, s := range steps.States {
					n, known := s.Type.Bytes().Const()
					require.True(t, known, s.Name)
					if !s.Model {
						state += n
					}
					if s.Type.DType == graph.Uint8 {
						coded++
					}
				}
				require.Equal(t, state, r.Plain.Parts.State-r.Plain.Parts.Master, what)
			}
		}
	}
	require.Greater(t, coded, 100)
}

// TestAccumulation: gradients that are accumulated stay throughout, 4 bytes for each parameter, and
// all of the optimizer's state is there though a micro-step does not read it.
func TestAccumulation(t *testing.T) {
	m := open(t, "gpt2_6l_256", map[string]int64{"batch": 2, "seq": 32})
	one, err := estimate.Make(t.Context(), m, estimate.Options{Recipe: adamw()})
	require.NoError(t, err)
	recipe := adamw()
	recipe.Micros = 4
	four, err := estimate.Make(t.Context(), m, estimate.Options{Recipe: recipe})
	require.NoError(t, err)
	require.GreaterOrEqual(t, four.Plain.Parts.Gradients, 4*four.Parameters)
	require.Equal(t, one.Parameters, four.Parameters)
	require.Equal(t, one.Plain.Parts.State, four.Plain.Parts.State)
	require.Len(t, four.Plain.Plans, 2)

	// Running statistics of norms change with each micro-step: they make no states of sums.
	norms := open(t, "resnet18", map[string]int64{"batch": 2})
	one, err = estimate.Make(t.Context(), norms, estimate.Options{Recipe: adamw()})
	require.NoError(t, err)
	sums, err := estimate.Make(t.Context(), norms, estimate.Options{Recipe: recipe})
	require.NoError(t, err)
	require.Equal(t, one.Plain.Parts.State, sums.Plain.Parts.State)
	require.GreaterOrEqual(t, sums.Plain.Parts.Gradients, 4*sums.Parameters)

	// It is what a job of memopt train promises, but for numbers that the loop gives to each step, and
	// the update's constants.
	steps, err := train.Make(m, recipe)
	require.NoError(t, err)
	plans, err := steps.Plan(t.Context(), 2, 0, train.Selection{})
	require.NoError(t, err)
	require.InDelta(t, plans.Total(), four.Plain.Total()-four.Plain.Parts.Reserve, 4096)
}

// TestWithoutLoss: of a model that makes no loss, the gradients of its outputs are inputs; what the
// update of accumulated gradients has besides counts against the budget of the step.
func TestWithoutLoss(t *testing.T) {
	for _, s := range graphtest.Tiny.Files(t) {
		if s.Name != "mlp_tiny_logits" {
			continue
		}
		m, err := memopt.Open(s.File, memopt.Options{Dims: map[string]int64{"batch": 64}})
		require.NoError(t, err)
		defer m.Close()
		none := int64(0)
		o := estimate.Options{Recipe: adamw(), Reserve: &none}
		o.Recipe.Micros = 2
		r, err := estimate.Make(t.Context(), m, o)
		require.NoError(t, err)
		require.Contains(t, r.Notes[0], "makes no loss")
		require.Equal(t, int64(1930), r.Parameters)
		require.InDelta(t, 8*1930, r.Plain.Parts.State, 16)
		// x, the gradients of the scores, and numbers such as the learning rate
		require.InDelta(t, 4*64*(16+10), r.Plain.Parts.Inputs, 64)
		o.Memory = r.Plain.Total() - 1024
		r, err = estimate.Make(t.Context(), m, o)
		require.NoError(t, err)
		require.NotNil(t, r.Planned)
		require.LessOrEqual(t, r.Planned.Total(), o.Memory)
	}
}

// TestPrecisionHalves: with 16 bits in place of 32, activations take half as much, but for those
// that are no floats, and master weights and moments stay.
func TestPrecisionHalves(t *testing.T) {
	m := open(t, "gpt2_6l_256", map[string]int64{"batch": 4, "seq": 128})
	full, err := estimate.Make(t.Context(), m, estimate.Options{Recipe: adamw()})
	require.NoError(t, err)
	same, err := estimate.Make(t.Context(), m, estimate.Options{Recipe: adamw(), Precision: precision.FP32})
	require.NoError(t, err)
	require.InDelta(t, full.Plain.Total(), same.Plain.Total(), 8, "the graph is in float32 already, but for a number")
	half, err := estimate.Make(t.Context(), m, estimate.Options{Recipe: adamw(), Precision: precision.BF16})
	require.NoError(t, err)
	require.InEpsilon(t, full.Plain.Parts.Activations/2, half.Plain.Parts.Activations, 0.02)
	require.Equal(t, full.Plain.Parts.State+4*full.Parameters, half.Plain.Parts.State)
	require.Less(t, half.Plain.Total(), full.Plain.Total())
}

// TestReserve: what no step can have comes from the profile, or from the caller, and counts against
// the memory.
func TestReserve(t *testing.T) {
	m, err := memopt.Example("mlp", memopt.Options{Dims: map[string]int64{"batch": 64}})
	require.NoError(t, err)
	device, err := configs.LoadDevice("t4")
	require.NoError(t, err)
	r, err := estimate.Make(t.Context(), m, estimate.Options{Device: device})
	require.NoError(t, err)
	require.Equal(t, device.Memory, r.Memory)
	require.Equal(t, device.Reserve, r.Plain.Parts.Reserve-r.Plain.Parts.Rounding)
	require.Less(t, r.Plain.Parts.Rounding, int64(5<<20))
	require.Zero(t, (r.Plain.Total()-device.Reserve)%(2<<20), "blocks are whole pages")
	// The step fits into exactly what it takes, and not into a byte less.
	total := r.Plain.Total()
	for _, c := range []struct {
		memory int64
		want   bool
	}{{total, true}, {total - 1, false}} {
		r, err := estimate.Make(t.Context(), m, estimate.Options{Device: device, Memory: c.memory})
		require.NoError(t, err)
		fits, known := r.Fits()
		require.True(t, known)
		require.Equal(t, c.want, fits)
	}
	// A plan leaves the reserve alone.
	large, err := memopt.Example("mlp", memopt.Options{})
	require.NoError(t, err)
	r, err = estimate.Make(t.Context(), large, estimate.Options{Device: device})
	require.NoError(t, err)
	memory := r.Plain.Total() - r.Plain.Plans[0].Arena.Bytes/4
	r, err = estimate.Make(t.Context(), large, estimate.Options{Device: device, Memory: memory})
	require.NoError(t, err)
	require.NotNil(t, r.Planned)
	require.LessOrEqual(t, r.Planned.Total(), memory)

	none := int64(0)
	r, err = estimate.Make(t.Context(), m, estimate.Options{Device: device, Reserve: &none})
	require.NoError(t, err)
	require.Zero(t, r.Plain.Parts.Rounding)
	require.Zero(t, r.Plain.Parts.Reserve)
}

// TestAdvice: every change that is advised makes the step fit when it is made, and takes what was
// said; without a plan no step fits that did not.
func TestAdvice(t *testing.T) {
	dims := map[string]int64{"batch": 16, "seq": 128}
	m := open(t, "gpt2_6l_256", dims)
	none := int64(0)
	base := estimate.Options{Recipe: adamw(), Reserve: &none}
	r, err := estimate.Make(t.Context(), m, base)
	require.NoError(t, err)
	base.Memory, base.Advise = r.Plain.Total()*8/10, true
	r, err = estimate.Make(t.Context(), m, base)
	require.NoError(t, err)
	require.NotEmpty(t, r.Advice)
	seen := map[string]bool{}
	var ranks []int
	for _, a := range r.Advice {
		ranks = append(ranks, slices.IndexFunc([]string{"Dims", "Precision bf16", "MaxNorm",
			"Precision bf16-pure", "Optimizer"}, func(start string) bool {
			return a.What == start || strings.HasPrefix(a.What, start+" ")
		}))
		require.LessOrEqual(t, a.Total, base.Memory, a.What)
		o, dims := base, map[string]int64{"batch": 16, "seq": 128}
		o.Advise = false
		switch {
		case a.What == "Precision bf16":
			o.Precision = precision.BF16
		case a.What == "Precision bf16-pure":
			o.Precision = precision.BF16Pure
		case strings.HasPrefix(a.What, "Optimizer "):
			o.Recipe.Optimizer.Kind = strings.TrimPrefix(a.What, "Optimizer ")
		case a.What == "MaxNorm 0":
			o.Recipe.Optimizer.MaxNorm = 0
		default:
			var batch int64
			var micros int
			_, err := fmt.Sscanf(a.What, "Dims batch=%d Recipe.Micros %d", &batch, &micros)
			require.NoError(t, err)
			require.GreaterOrEqual(t, batch*int64(micros), int64(16))
			dims["batch"], o.Recipe.Micros = batch, micros
			seen["accumulate"] = true
		}
		seen[a.What] = true
		again, err := estimate.Make(t.Context(), open(t, "gpt2_6l_256", dims), o)
		require.NoError(t, err)
		fits, _ := again.Fits()
		require.True(t, fits, a.What)
		require.InDelta(t, again.Plain.Total(), a.Total, 1<<16, a.What)
	}
	base.Memory = 1
	r, err = estimate.Make(t.Context(), m, base)
	require.NoError(t, err)
	require.Empty(t, r.Advice, "nothing makes it fit")
	require.True(t, slices.IsSorted(ranks), "the cheapest first: %v", seen)
	require.True(t, seen["accumulate"] && seen["Precision bf16"], "%v", seen)
}

// TestAdviceTogether: where no change helps alone, several do that are named together, as they promise; the cheapest
// first.
func TestAdviceTogether(t *testing.T) {
	m := open(t, "gpt2_6l_256", map[string]int64{"batch": 1, "seq": 16})
	none := int64(0)
	base := estimate.Options{Recipe: adamw(), Reserve: &none}
	plain, err := estimate.Make(t.Context(), m, base)
	require.NoError(t, err)
	plans, seen := 0, map[string]bool{}
	for _, percent := range []int64{20, 27, 32, 38, 45} {
		base.Memory, base.Advise = plain.Plain.Total()*percent/100, true
		r, err := estimate.Make(t.Context(), m, base)
		require.NoError(t, err)
		require.Nil(t, r.Planned)
		require.NotEmpty(t, r.Advice, "%d %%", percent)
		before := 0.0
		for _, a := range r.Advice {
			o := base
			o.Advise = false
			words := strings.Fields(a.What)
			for i := 0; i+1 < len(words); i += 2 {
				switch words[i] {
				case "Precision":
					o.Precision = precision.Precision(words[i+1])
				case "Optimizer":
					o.Recipe.Optimizer.Kind = words[i+1]
				case "MaxNorm":
					require.Equal(t, "0", words[i+1])
					o.Recipe.Optimizer.MaxNorm = 0
				default:
					require.Fail(t, a.What)
				}
				seen[words[i]+" "+words[i+1]] = true
			}
			again, err := estimate.Make(t.Context(), m, o)
			require.NoError(t, err)
			require.NotNil(t, again.Planned, a.What)
			require.InDelta(t, again.Planned.Total(), a.Total, 1<<12, a.What)
			require.LessOrEqual(t, a.Total, base.Memory)
			if again.Planned != again.Plain {
				plans++
				require.Contains(t, a.Price, fmt.Sprintf("with a plan, an estimated %.1f %% more time",
					100*again.Planned.Overhead))
			} else {
				require.NotContains(t, a.Price, "with a plan")
			}
			require.GreaterOrEqual(t, again.Planned.Overhead, before-1e-3, "the cheapest first")
			before = again.Planned.Overhead
		}
	}
	require.Positive(t, plans)
	for _, change := range []string{"Precision bf16-pure", "Optimizer adamw4bit", "Optimizer adafactor", "MaxNorm 0"} {
		require.True(t, seen[change], "%s: %v", change, seen)
	}
}

// TestAdviceMoved: where the device has a link, moves to the host are named with the bytes that they take there.
func TestAdviceMoved(t *testing.T) {
	m := open(t, "gpt2_6l_256", map[string]int64{"batch": 16, "seq": 128})
	none := int64(0)
	device, err := configs.LoadDevice("a100")
	require.NoError(t, err)
	base := estimate.Options{Recipe: adamw(), Reserve: &none, Device: device}
	r, err := estimate.Make(t.Context(), m, base)
	require.NoError(t, err)
	base.Memory, base.Advise = r.Plain.Total()*85/100, true
	r, err = estimate.Make(t.Context(), m, base)
	require.NoError(t, err)
	found := false
	for _, a := range r.Advice {
		text, ok := strings.CutPrefix(a.What, "HostBudget ")
		if !ok {
			continue
		}
		var size int64
		_, err := fmt.Sscanf(text, "%dMiB", &size)
		require.NoError(t, err)
		o := base
		o.Advise, o.Moves.Link.BytesPerSecond, o.Moves.HostBudget = false, device.Link, size<<20
		again, err := estimate.Make(t.Context(), m, o)
		require.NoError(t, err)
		require.NotNil(t, again.Planned)
		require.InDelta(t, again.Planned.Total(), a.Total, 1<<20)
		require.LessOrEqual(t, again.Planned.Copies.Arena, size<<20)
		var more float64
		_, err = fmt.Sscanf(a.Price, "values move to the host and back: an estimated %f %% more time", &more)
		require.NoError(t, err)
		require.InDelta(t, 100*again.Planned.Overhead, more, 5)
		found = true
	}
	require.True(t, found, "%v", r.Advice)
}

// TestUnbound: sizes that are not known are an error that names the symbols.
func TestUnbound(t *testing.T) {
	_, err := estimate.Make(t.Context(), open(t, "gpt2_6l_256", nil), estimate.Options{Recipe: adamw()})
	require.ErrorContains(t, err, `symbols "batch", "seq" have no value`)
}

// TestNearestDevice: the reserve of a device of which the size alone is known.
func TestNearestDevice(t *testing.T) {
	for _, c := range []struct {
		memory int64
		want   string
	}{{24 << 30, "rtx3090"}, {80 << 30, "a100"}, {1, "rtx3060-12g"}, {1 << 50, "mi300x"}, {16 << 30, "rtx4080"}} {
		require.Equal(t, c.want, configs.NearestDevice(c.memory).Name)
	}
	require.NotEqual(t, device.Default.Name, configs.NearestDevice(24<<30).Name)
}

// TestParts: at random sizes, in every precision, with and without accumulation, the parts add up to
// the total, which is what the plans take besides master weights and the reserve; 16 bits never take
// more than 32 but for master weights.
func TestParts(t *testing.T) {
	list := graphtest.Tiny.Files(t)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(list).Draw(t, "model")
		m, err := memopt.Open(s.File, memopt.Options{Dims: map[string]int64{
			"batch": rapid.Int64Range(1, 9).Draw(t, "batch"), "seq": rapid.Int64Range(2, 24).Draw(t, "seq")}})
		require.NoError(t, err)
		defer m.Close()
		o := estimate.Options{Recipe: adamw()}
		o.Recipe.Micros = rapid.IntRange(1, 2).Draw(t, "micros")
		o.Recipe.Optimizer.Kind = rapid.SampledFrom(autograd.OptimizerKinds).Draw(t, "optimizer")
		total := map[precision.Precision]int64{}
		for _, p := range append(precision.Precisions, precision.AsIs) {
			o.Precision = p
			r, err := estimate.Make(t.Context(), m, o)
			require.NoError(t, err)
			at := r.Plain.Parts
			sum := int64(0)
			for _, row := range at.Rows() {
				require.GreaterOrEqual(t, row.Bytes, int64(0), row.Name)
				if row.Share < 0 {
					sum += row.Bytes
				}
			}
			require.Equal(t, sum, r.Plain.Total())
			arena, held := int64(0), int64(0)
			for _, plan := range r.Plain.Plans {
				arena, held = max(arena, plan.Arena.Bytes), max(held, plan.Persistent)
			}
			rest := r.Plain.Total() - at.Reserve - at.Master - arena
			require.GreaterOrEqual(t, rest, held)
			if len(r.Plain.Plans) == 1 {
				require.Equal(t, held, rest)
			}
			require.Equal(t, at.Rounding, at.Reserve, "no device was named")
			total[p] = r.Plain.Total() - at.Master
		}
		require.InDelta(t, total[precision.AsIs], total[precision.FP32], 512)
		require.LessOrEqual(t, total[precision.BF16], total[precision.FP32]+512)
		require.LessOrEqual(t, total[precision.BF16Pure], total[precision.BF16]+512)
	})
}

// TestParametersOfGraphs: a graph with gradients trains the tensors that it has gradients of, and a step that
// updates its own states trains those; frozen weights and integers are not.
func TestParametersOfGraphs(t *testing.T) {
	const text = `<ir_version: 8, opset_import: ["" : 17]>
net (float[8, 6] x, int64[8] y) => (float loss)
	<float[6, 2] w1 = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[2, 3] w2 = {1, 2, 3, 4, 5, 6},
	 int64[2] same = {8, 3}> {
	a = MatMul(x, w1)  h = Tanh(a)  o = MatMul(h, w2)  r = Reshape(o, same)  loss = SoftmaxCrossEntropyLoss(r, y)
}`
	for _, c := range []struct {
		noGrad []string
		update *autograd.Optimizer
		want   int64
	}{
		{nil, nil, 18}, {[]string{"w2"}, nil, 12}, {[]string{"w1"}, nil, 6},
		{nil, &autograd.Optimizer{Kind: "sgd", LR: 1}, 18},
		{[]string{"w2"}, &autograd.Optimizer{Kind: "sgd", LR: 1}, 12},
	} {
		g, err := graph.Parse(text, "net")
		require.NoError(t, err)
		m, err := memopt.New(g, memopt.Options{})
		require.NoError(t, err)
		step, _, err := m.Differentiate(autograd.Options{NoGrad: c.noGrad}, c.update)
		require.NoError(t, err)
		r, err := estimate.Make(t.Context(), step, estimate.Options{})
		require.NoError(t, err)
		require.Equal(t, c.want, r.Parameters, "%+v", c)
	}
}

// TestUpdatedWithoutGradient: a state that a graph updates by a value of some other name is trained, too.
func TestUpdatedWithoutGradient(t *testing.T) {
	g, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
net (float[8, 2] x) => (float loss, float[2, 2] next) <float[2, 2] w = {1, 2, 3, 4}> {
	a = MatMul(x, w)  loss = ReduceMean<keepdims = 0>(a)  d = Mul(w, loss)  next = Sub(w, d)
}`, "net")
	require.NoError(t, err)
	m, err := memopt.New(g, memopt.Options{States: []string{"w=next"}})
	require.NoError(t, err)
	r, err := estimate.Make(t.Context(), m, estimate.Options{})
	require.NoError(t, err)
	require.EqualValues(t, 4, r.Parameters)
}
