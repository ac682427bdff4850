package webpage_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/explain"
	"memopt/internal/test/schematest"
	"memopt/planner/offload"
	"memopt/view/report"
	"memopt/view/timeline"
	"memopt/view/webpage"
)

// movedPage is a plan whose values move, and its page.
func movedPage(t *testing.T) (*memopt.Moving, []byte) {
	t.Helper()
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 16, "seq": 128}})
	require.NoError(t, err)
	p, err := m.PlanMoves(t.Context(), memopt.Budget{Share: 0.3, Effort: 0.02}, memopt.PlanOptions{},
		memopt.MoveOptions{Link: offload.Link{BytesPerSecond: 4e10}, HostBudget: 1 << 30})
	require.NoError(t, err)
	require.NotEmpty(t, p.Moves)
	o := webpage.Options{Version: "test", Moving: p, Moves: report.MovingPlan{Peak: p.Peak, Arena: p.Arena,
		Total: p.Arena + p.Persistent, Persistent: p.Persistent, HostPeak: p.HostPeak, Moved: p.Moved,
		Overhead: p.Overhead, Recomputed: p.Plan.Recompute.Nodes, BytesPerSecond: 4e10}}
	o.Explained, err = explain.OfMoving(t.Context(), p, explain.Options{Top: -1})
	require.NoError(t, err)
	var page bytes.Buffer
	require.NoError(t, webpage.Write(t.Context(), &page, p.Plan, o))
	return p, page.Bytes()
}

// TestMoves: the page of a plan with moves has the schema, and shows the copies, the bytes on the host and the plan's
// figures in windows of two widths and both themes; values that move have their colour, and a copy under the mouse is
// named.
func TestMoves(t *testing.T) {
	p, data := movedPage(t)
	schematest.Load(t, schematest.Folder(t), "page").Check(t, unpacked(t, data))
	tl, err := timeline.Of(p.Laid)
	require.NoError(t, err)
	tl.Over(p.Options.Link)
	file := saved(t, data)
	for _, w := range []window{{400, 1000, "dark"}, {1280, 1000, "light"}} {
		b := show(t, file, w)
		b.all()
		b.shoot(fmt.Sprintf("moves-%d-%s", w.width, w.theme))
		for field, n := range map[string]int64{"baseline_bytes": p.Plan.Baseline().Base.Peak.Bytes,
			"planned_bytes": p.Peak, "arena_bytes": p.Arena, "total_bytes": p.Arena + p.Persistent,
			"moved_bytes": p.Moved, "host_peak": p.HostPeak} {
			require.Equal(t, n, b.data(`[data-field="`+field+`"]`, "data-value"), field)
		}
		require.Equal(t, p.Moved, b.data("[data-copied]", "data-copied"))
		require.Equal(t, p.HostPeak, b.data("[data-host]", "data-host"))
		require.Equal(t, p.Laid.Planned.Host.Live[tl.Peak], b.data("[data-on-host]", "data-on-host"))
		require.Equal(t, tl.Steps[tl.Peak].Live[timeline.Moved], b.data(`[data-kind="moved"]`, "data-bytes"))
		require.Greater(t, painted(t, b.picture(`document.querySelector("#copies canvas")`)), 0.05)
		contrasts(b)
		narrow(b)

		c := &tl.Copies[0]
		eval[bool](b, `(() => {
			document.querySelector("#copies").scrollIntoView({ block: "center" });
			return true;
		})()`)
		box := eval[[]float64](b, `(() => { const c = document.querySelector("#copies canvas").getBoundingClientRect();
			const u = document.querySelector("#timeline .u-over").getBoundingClientRect();
			return [u.left, c.top, u.width]; })()`)
		b.move(box[0]+box[2]*(float64(c.Begun)+4)/float64(len(tl.Steps)), box[1]+10)
		require.Contains(t, b.text("#copies-readout"), "goes to the host")

		b.press(`input[name="axis"][value="time"]`)
		b.settle()
		require.Greater(t, painted(t, b.picture(`document.querySelector("#copies canvas")`)), 0.05)
		b.press(`input[name="shown"][value="baseline"]`)
		require.True(t, eval[bool](b, `document.querySelector("#copies").hidden`))
		b.clean()
	}
}
