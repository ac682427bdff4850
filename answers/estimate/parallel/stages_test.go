package parallel_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/estimate/parallel"
	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/internal/test/graphtest"
)

// microStep makes of a model, forward or with a backward half, the step of a micro-batch: it adds to
// sums of gradients, and gives the loss alone. The second result names the parameters.
func microStep(m *memopt.Model) (*memopt.Model, []string, error) {
	_, err := live.FindBoundary(m.Model)
	if errors.Is(err, live.ErrNoBoundary) {
		_, how, err := m.Differentiate(autograd.Options{LossOutput: true}, nil)
		if err != nil {
			return nil, nil, err
		}
		step, how, err := m.Differentiate(autograd.Options{Accumulate: true, LossOutput: true,
			Outputs: []string{how.Loss}}, nil)
		if err != nil {
			return nil, nil, err
		}
		return step, how.Wrt, nil
	}
	step, _, how, err := m.Updating(memopt.UpdateOptions{Accumulate: true,
		Optimizer: autograd.Optimizer{Kind: "sgd", LR: 1}})
	if err != nil {
		return nil, nil, err
	}
	return step, how.Wrt, nil
}

// TestStagesAddUp: what all stages of a pipeline hold between the halves of a micro-batch is what one
// device holds: nothing is counted twice, and nothing is lost. A tied table is on both ends.
func TestStagesAddUp(t *testing.T) {
	for _, p := range []shape{
		{a: 4, b: 2, h: 32, L: 4, s: 16, v: 64, ffn: 128},
		{a: 4, b: 2, h: 32, L: 6, s: 16, v: 64, ffn: 128, dropout: 0.1, tied: true, half: true},
	} {
		m := transformer(t, p)
		one := split(t, m, parallel.Layout{}, parallel.Options{}).Stages[0]
		for _, l := range []parallel.Layout{{PP: 2}, {PP: 4}, {PP: 2, Interleave: 2, Microbatches: 2}} {
			r := split(t, m, l, parallel.Options{})
			stash, params := int64(0), int64(0)
			for _, st := range r.Stages {
				params += st.Params
				for _, c := range st.Chunks {
					stash += c.Stash
					assert.Less(t, c.Peak, one.Chunks[0].Peak)
				}
			}
			tied := int64(0)
			if p.tied {
				tied = int64(p.v * p.h)
			}
			assert.Equal(t, one.Params+tied, params, "%+v", l)
			assert.Equal(t, one.Chunks[0].Stash, stash, "%+v", l)
			for i, st := range r.Stages[1:] {
				x := int64(4 * p.b * p.s * p.h)
				if p.half {
					x /= 2
				}
				last := i == len(r.Stages)-2
				for _, c := range st.Chunks[:1] {
					want := 2 * x // what it receives: an activation, and a gradient
					if last && len(st.Chunks) == 1 {
						want = x + int64(8*p.b*p.s) // and labels
					}
					assert.Equal(t, want, c.Inputs, "%+v: stage %d", l, i+1)
				}
			}
		}
	}
}

// TestAnnotatedStages: pipeline stages of the file beat layers, and their number must be --pp.
func TestAnnotatedStages(t *testing.T) {
	p := shape{a: 4, b: 2, h: 32, L: 3, s: 16, v: 64, ffn: 128}
	m := transformer(t, p)
	m.Configurations = []graph.DeviceConfiguration{{Name: "pipe", NumDevices: 2}}
	for _, n := range m.Graph.Nodes {
		stage := int64(0)
		if !strings.HasPrefix(n.Name, "/h.0/") && strings.HasPrefix(n.Name, "/h.") {
			stage = 4 // the numbers need not be dense
		}
		if strings.HasPrefix(n.Name, "/h.") {
			n.EditRare(func(r *graph.Rare) {
				r.Devices = []graph.NodeDevices{{Configuration: "pipe", Stage: stage}}
			})
		}
	}
	r := split(t, m, parallel.Layout{PP: 2, Microbatches: 2}, parallel.Options{})
	assert.Contains(t, r.Cuts, "IR version 11")
	assert.Equal(t, "stage 4", r.Stages[1].Chunks[0].Name)
	layer := int64(12*p.h*p.h + 13*p.h)
	assert.Equal(t, 2*layer+int64(2*p.h+p.v*p.h), r.Stages[1].Params, "two layers, the last norm, the head")

	step, params, err := microStep(m)
	require.NoError(t, err)
	_, err = parallel.Split(t.Context(), step, params, parallel.Layout{PP: 3}, parallel.Options{})
	var stage *parallel.StageError
	require.ErrorAs(t, err, &stage)
	assert.ErrorContains(t, err, "have 2 pipeline stages, and PP and Interleave ask for 3")
}

// TestStageErrors: models that cannot be cut into so many stages.
func TestStageErrors(t *testing.T) {
	step, params, err := microStep(transformer(t, shape{a: 4, b: 2, h: 32, L: 3, s: 16, v: 64, ffn: 128}))
	require.NoError(t, err)
	_, err = parallel.Split(t.Context(), step, params, parallel.Layout{PP: 4}, parallel.Options{})
	assert.EqualError(t, err, "the model has 3 layers (/h.0 to /h.2), too few for 4 stages")
	_, err = parallel.Split(t.Context(), step, params, parallel.Layout{PP: -4}, parallel.Options{})
	var layout *parallel.LayoutError
	require.ErrorAs(t, err, &layout)

	step.Configurations = []graph.DeviceConfiguration{{Name: "devices"}} // without a number
	for _, c := range []struct {
		layout  parallel.Layout
		refused bool
	}{{parallel.Layout{}, false}, {parallel.Layout{PP: 2}, true}, {parallel.Layout{TP: 2}, true}} {
		_, err = parallel.Split(t.Context(), step, params, c.layout, parallel.Options{})
		var shard *parallel.ShardError
		require.Equal(t, c.refused, errors.As(err, &shard), "%+v: %v", c.layout, err)
	}
}

// TestBudget: a stage that does not fit is planned on one micro-batch, for what its states and the
// stashes of the others leave; the plan's own stashes count.
func TestBudget(t *testing.T) {
	m := transformer(t, shape{a: 4, b: 4, h: 64, L: 4, s: 64, v: 64, ffn: 256})
	l := parallel.Layout{PP: 2, Microbatches: 8}
	plain := split(t, m, l, parallel.Options{})
	st := &plain.Stages[0]
	require.Equal(t, 0, plain.Limiting)
	total := st.Parts.Total()
	roomy := split(t, m, l, parallel.Options{Memory: total, Reserve: 0})
	fits, known := roomy.Fits()
	assert.True(t, fits && known)
	assert.Nil(t, roomy.Stages[0].Plan)
	assert.Equal(t, st.Chunks[0].Peak, roomy.Stages[0].Budget, "just what the arena takes")

	memory := total * 8 / 10
	tight := split(t, m, l, parallel.Options{Memory: memory})
	plan := tight.Stages[0].Plan
	require.NotNil(t, plan)
	assert.True(t, plan.Fits)
	assert.LessOrEqual(t, plan.Total, memory)
	assert.Positive(t, plan.Overhead)
	assert.Equal(t, plan.Total, plan.Parts.Total())
	assert.Equal(t, st.Chunks[0].Peak-(total-memory), tight.Stages[0].Budget)
	assert.True(t, tight.FitsPlanned())

	none := split(t, m, l, parallel.Options{Memory: states(st)})
	assert.False(t, none.FitsPlanned())
	assert.Contains(t, none.Answer(), "No")
}

// TestManyLayers: layers whose numbers have different lengths are of one kind.
func TestManyLayers(t *testing.T) {
	m := transformer(t, shape{a: 2, b: 1, h: 8, L: 12, s: 4, v: 16, ffn: 16})
	r := split(t, m, parallel.Layout{PP: 4, TP: 2, Microbatches: 4}, parallel.Options{})
	assert.Equal(t, "/h.0", strings.Split(r.Stages[0].Chunks[0].Name, " ")[0])
	assert.Contains(t, r.Stages[3].Chunks[0].Name, "h.11")
	for _, w := range r.Weights {
		assert.Equal(t, len(w.Names)%12 == 0, strings.HasPrefix(w.Names[0], "h."), w.Names)
	}
}

// TestRandomGraphs: whatever the graph, the layout is refused with a reason, or adds up: stages hold
// what one device holds or more, since what crosses is on both sides, and ranks no more.
func TestRandomGraphs(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		g := graphtest.Training(rng, graphtest.Options{Nodes: 5 + rng.IntN(40), Rows: 4, Width: 8, Yield: seed%3 == 0,
			Control: seed%5 == 0})
		m, err := memopt.New(g, memopt.Options{})
		require.NoError(t, err, "seed %d", seed)
		params := floatInputs(m)
		whole, err := parallel.Split(t.Context(), m, params, parallel.Layout{}, parallel.Options{})
		if err != nil {
			continue // no training graph
		}
		for _, l := range []parallel.Layout{{TP: 2}, {TP: 4, SequenceParallel: true}, {PP: 2, Microbatches: 3},
			{PP: 3, TP: 2, Microbatches: 2, DP: 3, Zero: 3}, {PP: 2, Interleave: 2, Microbatches: 2}} {
			o := parallel.Options{}
			if seed%8 == 0 {
				o.Memory = whole.Stages[0].Parts.Total() * 2 / 3
			}
			r, err := parallel.Split(t.Context(), m, params, l, o)
			var stage *parallel.StageError
			if errors.As(err, &stage) {
				continue
			}
			require.NoError(t, err, "seed %d, %+v", seed, l)
			if l.PP == 0 {
				got, most := &r.Stages[0], &whole.Stages[0]
				assert.LessOrEqual(t, got.Chunks[0].Peak, most.Chunks[0].Peak, "seed %d, %+v", seed, l)
				assert.LessOrEqual(t, got.Params, most.Params, "seed %d, %+v", seed, l)
			}
			for i := range r.Stages {
				sum := int64(0)
				lines := r.Arithmetic(&r.Stages[i])
				for _, line := range lines[:len(lines)-1] {
					sum += line.Bytes
				}
				assert.Equal(t, r.Stages[i].Parts.Total(), sum, "seed %d, %+v: the lines of stage %d", seed, l, i)
			}
		}
	}
}

// floatInputs names what a random graph may train.
func floatInputs(m *memopt.Model) (names []string) {
	for _, d := range m.Graph.Inputs {
		if m.Graph.Values[d.Value].Type.DType.IsFloat() {
			names = append(names, m.Graph.ValueName(d.Value))
		}
	}
	return names
}
