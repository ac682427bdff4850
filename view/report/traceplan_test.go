package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/check/streams"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/view/report"
	"memopt/view/timeline"
)

// traced returns the timeline of a plan of a drawn training graph, of which name renames the nodes.
func traced(t *testing.T, seed uint64, name func(i int, old string) string) *timeline.Timeline {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 29))
	m := graphtest.Training(rng, graphtest.Options{Nodes: 10 + rng.IntN(50), Parts: seed%2 == 0, Control: seed%3 == 0})
	for i, n := range m.Graph.Nodes {
		n.Name = name(i, n.Name)
	}
	types, err := op.InferAsIs(m)
	require.NoError(t, err)
	p, err := planner.MakeContext(context.Background(), m, types, planner.Options{Strategy: planner.Level(1 + seed%2)})
	require.NoError(t, err)
	tl, err := timeline.Of(p)
	require.NoError(t, err)
	return tl
}

func sameName(_ int, old string) string { return old }

// traceEvent is an event as a viewer reads it.
type traceEvent struct {
	Name, Cat, Ph string
	Ts, Dur       float64
	Bind          string `json:"bind_id"`
	Into          bool   `json:"flow_in"`
	Out           bool   `json:"flow_out"`
	Args          map[string]any
}

func readTrace(t *testing.T, tl *timeline.Timeline) []traceEvent {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, report.PlanTrace(&b, tl, report.TimelineHeader{Dims: map[string]int64{}}))
	require.NotContains(t, b.String(), "\x1b")
	require.NotContains(t, b.String(), "\u202e")
	var doc struct{ TraceEvents []traceEvent }
	require.NoError(t, json.Unmarshal(b.Bytes(), &doc))
	return doc.TraceEvents
}

// TestPlanTrace: the trace of a plan has every node once, one after the other, with the simulation's
// live bytes; what is planned by kind are these and what lives throughout; and a flow leads from
// every node that runs again to each of its clones, and from no other.
func TestPlanTrace(t *testing.T) {
	clones := 0
	for seed := range uint64(30) {
		tl := traced(t, seed, sameName)
		var nodes []traceEvent
		begins, open, planned := map[string]string{}, "", 0
		for _, e := range readTrace(t, tl) {
			switch {
			case e.Ph == "X":
				require.Equal(t, open, e.Cat, "the phase on its track")
				nodes = append(nodes, e)
			case e.Ph == "B":
				require.Empty(t, open)
				open = e.Name
			case e.Ph == "E":
				require.Equal(t, open, e.Name)
				last := nodes[len(nodes)-1]
				require.InDelta(t, last.Ts+last.Dur, e.Ts, 1e-6)
				open = ""
			case e.Name == "planned bytes":
				sum := 0.0
				for _, n := range e.Args {
					sum += n.(float64)
				}
				require.Equal(t, float64(tl.Simulated.Live[planned]+tl.Persistent.Sum()), sum)
				planned++
			}
		}
		require.Len(t, nodes, len(tl.Steps))
		require.Equal(t, len(tl.Steps), planned)
		require.Empty(t, open)
		for i, e := range nodes {
			require.Equal(t, float64(tl.Simulated.Live[i]), e.Args["live_bytes"])
			require.Equal(t, tl.Steps[i].Name, e.Name)
			if i > 0 {
				require.InDelta(t, nodes[i-1].Ts+nodes[i-1].Dur, e.Ts, 1e-6)
			}
			if e.Out {
				begins[e.Bind] = e.Name
			}
			origin, clone := e.Args["origin"]
			require.Equal(t, clone, e.Into)
			if clone {
				clones++
				require.Equal(t, origin, begins[e.Bind])
				require.True(t, strings.HasPrefix(e.Name, origin.(string)+"_recompute"))
			}
		}
		for bind := range begins {
			require.True(t, func() bool {
				for _, e := range nodes {
					if e.Into && e.Bind == bind {
						return true
					}
				}
				return false
			}(), "a flow ends somewhere")
		}
	}
	require.Greater(t, clones, 20)
}

// hostileName gives nodes names that readers stumble over.
func hostileName(i int, old string) string {
	return []string{`"quotes" \ </script>`, "\x00\x1b[31m", "\u202eleft", "bad \xff",
		strings.Repeat("long/", 2000)}[i%5] +
		fmt.Sprint(i)
}

// TestHostileNamesInTraces: whatever nodes are called, traces and overlays are JSON that steers no
// terminal, and have all of them.
func TestHostileNamesInTraces(t *testing.T) {
	tl := traced(t, 4, hostileName)
	at := 0
	for _, e := range readTrace(t, tl) {
		if e.Ph == "X" {
			require.Equal(t, strings.ToValidUTF8(tl.Steps[at].Name, "\uFFFD"), e.Name)
			at++
		}
	}
	require.Equal(t, len(tl.Steps), at)
	for i := range report.Overlays {
		require.Len(t, readOverlay(t, tl, &report.Overlays[i]), len(tl.Steps))
	}
	same := traced(t, 4, func(int, string) string { return "n" })
	for i := range report.Overlays {
		require.Less(t, len(readOverlay(t, same, &report.Overlays[i])), len(same.Steps))
	}
}

// overlaid is what an overlay says of a node.
type overlaid struct {
	Value   float64
	BgColor string
}

func readOverlay(t *testing.T, tl *timeline.Timeline, o *report.Overlay) map[string]overlaid {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, report.WriteOverlay(&b, tl, o))
	require.NotContains(t, b.String(), "\x1b")
	var doc map[string]struct {
		Results  map[string]overlaid
		Gradient []struct{ Stop float64 }
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &doc))
	require.Len(t, doc, 1)
	g := doc[tl.Graph.Name]
	require.Equal(t, len(g.Results), strings.Count(b.String(), `{"value": `), "no node is told of twice")
	if len(g.Gradient) > 0 {
		require.Zero(t, g.Gradient[0].Stop)
		require.Equal(t, 1.0, g.Gradient[len(g.Gradient)-1].Stop)
	}
	return g.Results
}

// TestOverlays: the bytes that nodes hold at the peak are together the peak, but for what clones take
// besides; live bytes are the simulation's; a clone is one, and what it repeats is recomputed; times
// add up to the step.
func TestOverlays(t *testing.T) {
	seen := map[float64]bool{}
	for seed := range uint64(20) {
		tl := traced(t, seed, sameName)
		of := map[string]map[string]overlaid{}
		for i := range report.Overlays {
			o := &report.Overlays[i]
			of[o.Name] = readOverlay(t, tl, o)
			require.NotEmpty(t, o.Doc)
		}
		var held, took float64
		for i := range tl.Steps {
			s := &tl.Steps[i]
			held += of["peak-bytes"][s.Name].Value
			took += of["milliseconds"][s.Name].Value
			require.Equal(t, float64(tl.Persistent.Sum()+tl.Simulated.Live[i]), of["live-bytes"][s.Name].Value)
			decision := of["decision"][s.Name]
			seen[decision.Value] = true
			require.NotEmpty(t, decision.BgColor)
			require.Equal(t, s.Clone(), decision.Value == 3)
			if s.Clone() {
				require.Equal(t, 2.0, of["decision"][tl.Steps[s.Repeats].Name].Value)
			}
			require.LessOrEqual(t, of["bytes"][s.Name].Value, float64(tl.Simulated.Live[i]))
		}
		require.Equal(t, float64(tl.PeakBytes()), held)
		require.InDelta(t, tl.Seconds()*1e3, took, 1e-6)
	}
	require.Len(t, seen, 4)
}

// TestTraceFlows: in every step of a run a flow of its own leads from a node to its clone, and phases
// end with their last nodes.
func TestTraceFlows(t *testing.T) {
	var b bytes.Buffer
	w := report.NewTraceWriter(&b, report.TraceHeader{})
	node, clone := report.NewTraceNode("n", "Exp", "forward", ""), report.NewTraceNode("c", "Exp", "backward", "n")
	node.Begins(7)
	clone.Ends(7)
	for step := range 2 {
		at := time.Duration(step) * time.Second
		w.Phase("forward", at)
		w.Event(node, at, time.Millisecond, 1, step)
		w.Phase("backward", at+2*time.Millisecond)
		w.Event(clone, at+2*time.Millisecond, time.Millisecond, 1, step)
	}
	require.NoError(t, w.Close())
	var doc struct{ TraceEvents []traceEvent }
	require.NoError(t, json.Unmarshal(b.Bytes(), &doc))
	var flows, phases []string
	for _, e := range doc.TraceEvents {
		switch e.Ph {
		case "X":
			flows = append(flows, fmt.Sprint(e.Name, e.Bind, e.Out, e.Into))
		case "B", "E":
			phases = append(phases, fmt.Sprint(e.Ph, e.Name, e.Ts))
		}
	}
	require.Equal(t, []string{"n0x8true false", "c0x8false true", "n0x100000008true false", "c0x100000008false true"},
		flows)
	require.Equal(t, []string{"Bforward0", "Eforward1000", "Bbackward2000", "Ebackward3000", "Bforward1e+06",
		"Eforward1.001e+06", "Bbackward1.002e+06", "Ebackward1.003e+06"}, phases)
}

// TestPlanTraceUses: the events of a plan's trace name buffers, and none of their uses is a race.
func TestPlanTraceUses(t *testing.T) {
	freed := 0
	for seed := range uint64(20) {
		var b bytes.Buffer
		tl := traced(t, seed, sameName)
		require.NoError(t, report.PlanTrace(&b, tl, report.TimelineHeader{Dims: map[string]int64{}}))
		freed += strings.Count(b.String(), `"frees": [`)
		races, operations, err := streams.Trace(&b)
		require.NoError(t, err)
		require.Empty(t, races)
		require.Positive(t, operations)
	}
	require.Greater(t, freed, 100)
}
