package emit_test

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/answers/emit"
	jaxsim "memopt/sim/jax"
	"memopt/view/report"
)

func jaxStep(t *testing.T, net string) *jaxsim.Program {
	t.Helper()
	z, err := zip.OpenReader("../../sim/jax/testdata/steps.zip")
	require.NoError(t, err)
	defer z.Close()
	f, err := z.Open(net + "/names.json")
	require.NoError(t, err)
	defer f.Close()
	p, err := jaxsim.Read(io.Reader(f))
	require.NoError(t, err)
	return p
}

func jaxAnswer(t *testing.T, name string, p *jaxsim.Program, o emit.JAXOptions) *emit.Answer {
	t.Helper()
	o.Path = "names.json"
	a, err := emit.JAX(context.Background(), target(t, name), p, o)
	require.NoError(t, err)
	return a
}

// decisions reads the policy of an answer's text back.
func decisions(t *testing.T, text string) jaxsim.Policy {
	t.Helper()
	out := jaxsim.Policy{}
	of := func(list string, d jaxsim.Decision) {
		for name := range strings.SplitSeq(list, ", ") {
			if name = strings.Trim(name, `"`); name != "" {
				out[name] = d
			}
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if list, ok := strings.CutPrefix(line, "policy = jax.checkpoint_policies.save_only_these_names("); ok {
			of(strings.TrimSuffix(list, ")"), jaxsim.Keep)
		}
		if list, ok := strings.CutPrefix(line, "names_which_can_be_saved=["); ok {
			of(strings.TrimSuffix(list, "],"), jaxsim.Keep)
		}
		if list, ok := strings.CutPrefix(line, "names_which_can_be_offloaded=["); ok {
			of(strings.TrimSuffix(list, "],"), jaxsim.Offload)
		}
		for word, d := range map[string]jaxsim.Decision{"device": jaxsim.Keep, "offload": jaxsim.Offload} {
			if name, ok := strings.CutSuffix(line, ": '"+word+"'"); ok {
				out[name] = d
			}
		}
	}
	return out
}

// TestJAX: settings are within the budget and the best of all, and the text has them.
func TestJAX(t *testing.T) {
	for _, net := range []string{"mlp_blocks", "mlp_scan", "gpt_scan"} {
		p := jaxStep(t, net)
		whole := p.Peak(p.Everything).Peak
		fit := 0
		for _, share := range []float64{1, 0.7, 0.5, 0.4, 0.3, 0.1} {
			for _, host := range []int64{0, 1 << 20, 1 << 40} {
				if host > 0 && net == "gpt_scan" {
					continue // 3^8 settings
				}
				found := 0
				o := emit.JAXOptions{Share: share, HostBudget: host, Link: 1e10, Found: func() { found++ }}
				a := jaxAnswer(t, "jax", p, o)
				require.Equal(t, whole, a.Baseline.Peak)
				require.Equal(t, int64(share*float64(whole)), *a.Limit)
				if share == 1 {
					require.Equal(t, a.Baseline, a.Memory)
					require.Contains(t, a.Text, "policy = jax.checkpoint_policies.everything_saveable\n")
					continue
				}
				peak, ok := cheapest(p, *a.Limit, host)
				require.Equal(t, ok, a.Fits, "%s %v", net, share)
				require.Equal(t, ok, found > 0)
				require.Nil(t, a.Own)
				require.Equal(t, peak, a.Peak, "%s %v %d\n%s", net, share, host, a.Text)
				if !a.Fits {
					require.Empty(t, a.Text)
					require.ErrorContains(t, a.Infeasible(), "no setting of jax.checkpoint (named values) fits")
					continue
				}
				fit++
				require.Regexp(t, "^# .*: peak .*\n(# .*\n)*import jax\n\npolicy = jax", a.Text)
				x := p.With(decisions(t, a.Text))
				require.Equal(t, a.Peak, p.Peak(x.Body).Peak, a.Text)
				require.LessOrEqual(t, x.Moved, host)
				require.GreaterOrEqual(t, a.Overhead, 0.0)
			}
		}
		require.Greater(t, fit, 2, net)
	}
}

// cheapest finds the setting with the least work by products, then the least estimated time, of all; it returns the
// peak, of all settings if none fits.
func cheapest(p *jaxsim.Program, limit, host int64) (peak int64, ok bool) {
	choices := 2
	if host > 0 {
		choices = 3
	}
	time := func(b *jaxsim.Body) float64 { return p.Seconds(b, kernel) }
	base := time(p.Everything)
	best, lowest := math.Inf(1), int64(math.MaxInt64)
	n := 1
	for range p.Names {
		n *= choices
	}
	for k := range n {
		policy := jaxsim.Policy{}
		for i, rest := 0, k; i < len(p.Names); i, rest = i+1, rest/choices {
			policy[p.Names[i]] = jaxsim.Decision(rest % choices)
		}
		x := p.With(policy)
		if x.Moved > host {
			continue
		}
		u := p.Peak(x.Body)
		lowest = min(lowest, u.Peak)
		seconds := time(x.Body) + 2*max(0, float64(x.Moved)/1e10-base/3)
		if u.Peak <= limit && (seconds < best || seconds == best && u.Peak < peak) {
			best, peak, ok = seconds, u.Peak, true
		}
	}
	if !ok {
		return lowest, false
	}
	return peak, true
}

// kernel is the time by the data sheet of an A100, of which device.Default is one.
func kernel(k jaxsim.Kernel) float64 {
	rate := 19.5e12
	if k.Product {
		rate = 156e12
	}
	return max(k.FLOPs/rate, k.Moved/2.039e12, 3.8e-6)
}

// TestMaxText: its configuration decides about its own names alone, and never runs a layer's input again.
func TestMaxText(t *testing.T) {
	p := jaxStep(t, "llama_scan")
	require.Contains(t, p.Names, "probs")
	for _, share := range []float64{0.6, 0.5, 0.45, 0.05} {
		a := jaxAnswer(t, "maxtext", p, emit.JAXOptions{Share: share})
		if share < 0.1 {
			require.False(t, a.Fits)
			continue
		}
		require.True(t, a.Fits, share)
		_, text, _ := strings.Cut(a.Text, "\n")
		policy := decisions(t, text)
		require.Equal(t, a.Peak, p.Peak(p.With(policy).Body).Peak)
		var lines []string
		for line := range strings.Lines(text) {
			lines = append(lines, strings.TrimSpace(line))
		}
		require.Equal(t, "remat_policy: 'custom'", lines[0])
		require.Contains(t, lines, "decoder_layer_input: 'device'")
		require.NotContains(t, text, "probs")
		require.True(t, slices.ContainsFunc(lines, func(s string) bool { return strings.HasSuffix(s, ": 'remat'") }))
	}
	_, err := emit.JAX(context.Background(), target(t, "maxtext"), jaxStep(t, "mlp"), emit.JAXOptions{Share: 0.5})
	require.ErrorIs(t, err, emit.ErrNoMaxText)
}

// many is a step of layers in a row, each with a name of its own: too many settings to try all.
func many(n int) *jaxsim.Program {
	p := &jaxsim.Program{Everything: &jaxsim.Body{}, Nothing: &jaxsim.Body{Bytes: []int64{1 << 20}, Inputs: []int32{0}}}
	b := p.Nothing
	value := func(bytes int64) int32 { b.Bytes = append(b.Bytes, bytes); return int32(len(b.Bytes) - 1) }
	x, made := int32(0), []int32{0}
	for i := range n {
		y, z := value(int64(i+2)<<20), value(int64(i+2)<<20)
		name := fmt.Sprintf("n%02d", i)
		p.Names = append(p.Names, name)
		flops := int64((i*7)%n+1) << 36
		b.Steps = append(b.Steps,
			jaxsim.Step{Primitive: "dot_general", Type: "float32", In: []int32{x}, Out: []int32{y}, FLOPs: flops},
			jaxsim.Step{Primitive: "name", Name: name, Of: int32(i), In: []int32{y}, Out: []int32{z}})
		made, x = append(made, x), value(1<<20)
		b.Steps = append(b.Steps, jaxsim.Step{Primitive: "sort", In: []int32{z}, Out: []int32{x}})
	}
	g := x
	for i := n - 1; i >= 0; i-- {
		region := int32(i)
		y, z := value(int64(i+2)<<20), value(int64(i+2)<<20)
		b.Steps = append(b.Steps, jaxsim.Step{Primitive: "dot_general", Type: "float32", In: []int32{made[i+1]},
			Out: []int32{y}, FLOPs: int64((i*7)%n+1) << 36, Region: &region},
			jaxsim.Step{Primitive: "name", Name: p.Names[i], Of: int32(i), In: []int32{y}, Out: []int32{z},
				Region: &region})
		next := value(1 << 20)
		b.Steps = append(b.Steps, jaxsim.Step{Primitive: "sort", In: []int32{z, g},
			Out: []int32{next}, Region: &region})
		g = next
	}
	b.Outputs = []int32{g}
	p.Everything = p.With(func() jaxsim.Policy {
		all := jaxsim.Policy{}
		for _, name := range p.Names {
			all[name] = jaxsim.Keep
		}
		return all
	}()).Body
	return p
}

// TestManyNames: where there are too many settings to try all, the search is near the best of all, obeys its context,
// and does not take longer than without one.
func TestManyNames(t *testing.T) {
	p := many(11) // 2,048 settings
	for _, share := range []float64{0.75, 0.5, 0.35} {
		a := jaxAnswer(t, "jax", p, emit.JAXOptions{Share: share})
		require.True(t, a.Fits, share)
		best := math.Inf(1)
		for k := range 1 << len(p.Names) {
			policy := jaxsim.Policy{}
			for i, name := range p.Names {
				policy[name] = jaxsim.Decision(k >> i & 1)
			}
			if x := p.With(policy); p.Peak(x.Body).Peak <= *a.Limit {
				best = min(best, p.Seconds(x.Body, kernel))
			}
		}
		got := p.Seconds(p.With(decisions(t, a.Text)).Body, kernel)
		require.GreaterOrEqual(t, got, best*(1-1e-9))
		require.LessOrEqual(t, got, best*1.02, share)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a, err := emit.JAX(ctx, target(t, "jax"), many(40), emit.JAXOptions{Share: 0.9})
	require.NoError(t, err)
	require.True(t, a.Fits, "no checkpoint keeps a value: found before the search begins")
	require.False(t, errors.Is(a.Infeasible(), context.Canceled))
}

// TestManyNamesLocal: no change of one or two decisions makes the answer of a local search cheaper; each answer that
// fits is told.
func TestManyNamesLocal(t *testing.T) {
	p := many(11)
	for _, share := range []float64{0.9, 0.6, 0.45, 0.3, 0.05} {
		found := 0
		a := jaxAnswer(t, "jax", p, emit.JAXOptions{Share: share, Found: func() { found++ }})
		if !a.Fits {
			require.Zero(t, found)
			continue
		}
		require.Greater(t, found, 3, "the first one, and steps from there")
		policy := decisions(t, a.Text)
		best := p.Seconds(p.With(policy).Body, kernel)
		for i, name := range p.Names {
			for _, other := range p.Names[i:] {
				next := maps.Clone(policy)
				if next[name] = jaxsim.Keep - next[name]; other != name {
					next[other] = jaxsim.Keep - next[other]
				}
				if x := p.With(next); p.Peak(x.Body).Peak <= *a.Limit {
					seconds := p.Seconds(x.Body, kernel)
					require.GreaterOrEqual(t, seconds, best*(1-1e-9), "%v: %s, %s", share, name, other)
				}
			}
		}
	}
}

// TestNoTime: without time to try settings the two at the ends have been tried.
func TestNoTime(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	found := 0
	o := emit.JAXOptions{Total: 17 << 20, Found: func() { found++ }}
	a, err := emit.JAX(ctx, target(t, "jax"), jaxStep(t, "mlp_scan"), o)
	require.NoError(t, err)
	require.True(t, a.Fits)
	require.Equal(t, 1, found)
}

// TestWaiting: copies that a third of the step each way does not hide are waited for.
func TestWaiting(t *testing.T) {
	p := jaxStep(t, "mlp_scan")
	moved, waited := 0, 0
	base := p.Seconds(p.Everything, kernel)
	for _, link := range []float64{1e13, 1e11, 9e10, 8e10, 7e10, 6e10, 5e10, 1e9} {
		a := jaxAnswer(t, "jax", p, emit.JAXOptions{Total: 17 << 20, HostBudget: 1 << 30, Link: link})
		x := p.With(decisions(t, a.Text))
		wait := 2 * max(0, float64(x.Moved)/link-base/3)
		require.InDelta(t, (p.Seconds(x.Body, kernel)+wait)/base-1, a.Overhead, 1e-9)
		if x.Moved > 0 {
			moved++
			require.Equal(t, x.Moved, a.Moved.Bytes)
			require.InDelta(t, wait/base, a.Moved.Waited, 1e-9)
			require.Contains(t, a.Text, "\n# "+report.Bytes(x.Moved)+" move to the host; the step waits ")
		} else {
			require.Nil(t, a.Moved)
		}
		if wait > 0 {
			waited++
		}
	}
	require.Greater(t, moved, waited)
	require.Positive(t, waited)
	require.Less(t, moved, 8)
	still := jaxAnswer(t, "jax", p, emit.JAXOptions{Total: 17 << 20})
	require.Equal(t, still.Text, jaxAnswer(t, "jax", p, emit.JAXOptions{Total: 17 << 20, HostBudget: 1 << 30}).Text)
	low := jaxAnswer(t, "jax", p, emit.JAXOptions{Total: 1, HostBudget: 1 << 30})
	require.False(t, low.Fits)
	require.NoError(t, low.JSON(io.Discard), "without a link no time is infinite")
	require.Nil(t, low.Moved)
	low = jaxAnswer(t, "jax", p, emit.JAXOptions{Total: 1, HostBudget: 1 << 30, Link: 1e11})
	require.Positive(t, low.Moved.Bytes, "of the lowest peak")
}
