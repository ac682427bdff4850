package webpage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/color"
	"image/png"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/explain"
	"memopt/view/timeline"
)

// kindColor is the colour in which the page draws a kind.
func kindColor(b *tab, kind string) color.RGBA {
	b.t.Helper()
	c := eval[[]int](b, `(() => { const e = document.body.appendChild(document.createElement("i"));
		e.className = "swatch " + %s;
		const found = getComputedStyle(e).backgroundColor.match(/\d+/g).map(Number);
		e.remove(); return found; })()`, quoted(kind))
	return color.RGBA{uint8(c[0]), uint8(c[1]), uint8(c[2]), 255}
}

// TestDrawn: in the picture of the timeline, the kinds stand above each other in the heights of their
// bytes, at steps of the plan and of the baseline.
func TestDrawn(t *testing.T) {
	p := example(t, "mlp", memopt.Level(1))
	base, err := timeline.Baseline(p.Plan)
	require.NoError(t, err)
	b := show(t, saved(t, written(t, p)), window{1280, 1000, "light"})
	colors := map[color.RGBA]timeline.Kind{}
	for k := range timeline.NumKinds {
		colors[kindColor(b, k.String())] = k
	}
	for _, x := range []struct {
		shown string
		tl    *timeline.Timeline
	}{{"plan", timelineOf(t, p)}, {"baseline", base}} {
		b.press(`input[name="shown"][value="` + x.shown + `"]`)
		b.press(`[data-zoom="peak"]`)
		img, err := png.Decode(bytes.NewReader(b.picture(`document.querySelector("#timeline .u-over")`)))
		require.NoError(t, err)
		size := img.Bounds().Size()
		var scale []float64 // bytes of a pixel
		for s := range x.tl.Steps {
			column := int((float64(s) + 0.5) / float64(len(x.tl.Steps)) * float64(size.X))
			if column < 200 || max(s-x.tl.Peak, x.tl.Peak-s) < 3 {
				continue // labels of lines, and the lines of the peak and of the chosen step
			}
			heights := timeline.Bytes{}
			for y := range size.Y {
				r, g, bl, _ := img.At(column, y).RGBA()
				if k, ok := colors[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(bl >> 8), 255}]; ok {
					heights[k]++
				}
			}
			for k := range timeline.NumKinds {
				n := x.tl.Steps[s].Live[k] + x.tl.Persistent[k]
				if n > x.tl.PeakBytes()/10 {
					scale = append(scale, float64(n)/float64(heights[k]))
				}
			}
		}
		require.Greater(t, len(scale), len(x.tl.Steps)/2)
		for _, one := range scale {
			require.InEpsilon(t, scale[0], one, 0.12, x.shown)
		}
	}
	b.clean()
}

// TestTreemap: the areas of groups and of what is in them are as their bytes, and none lies over
// another.
func TestTreemap(t *testing.T) {
	p := example(t, "transformer", memopt.Level(1))
	b := show(t, saved(t, written(t, p)), window{1280, 1000, "light"})
	b.all()
	for _, by := range []string{"layer", "operator"} {
		b.press(`input[name="group"][value="` + by + `"]`)
		groups := eval[[][]float64](b, `[...document.querySelectorAll("#treemap .group")].map((e) => {
			const r = e.getBoundingClientRect();
			return [r.left, r.top, r.right, r.bottom, Number(e.querySelector("h3").dataset.bytes)]; })`)
		require.Greater(t, len(groups), 3)
		perPixel := reportOf(t, p).Peak.Planned
		whole := eval[[]float64](b,
			`(() => { const r = document.querySelector("#treemap .treemap").getBoundingClientRect();
			return [r.left, r.top, r.right, r.bottom]; })()`)
		area := (whole[2] - whole[0]) * (whole[3] - whole[1])
		for i, g := range groups {
			want := g[4] / float64(perPixel) * area
			if want > 300 { // smaller ones are as large as their frames
				require.InEpsilon(t, want, (g[2]-g[0])*(g[3]-g[1]), 0.01, "group %d by %s", i, by)
				require.True(t, g[2] <= whole[2]+1 && g[3] <= whole[3]+1, "group %d by %s is outside", i, by)
			}
			for _, h := range groups[:i] {
				over := math.Min(g[2], h[2])-math.Max(g[0], h[0]) > 0.5 &&
					math.Min(g[3], h[3])-math.Max(g[1], h[1]) > 0.5
				require.False(t, over, "groups lie over each other")
			}
		}
	}
	b.press("#treemap .cell.activations")
	require.NotEmpty(t, b.text("#graph .current"))
	b.clean()
}

// TestMarks: the budget, the bound, usual plans and the clusters of stashes are those of the plan.
func TestMarks(t *testing.T) {
	m, err := memopt.Example("transformer", memopt.Options{})
	require.NoError(t, err)
	p, err := m.Plan(context.Background(), memopt.Budget{Share: 0.7, Solver: "greedy"}, memopt.PlanOptions{})
	require.NoError(t, err)
	var d struct {
		Limit    int64     `json:"limit_bytes"`
		Bound    int64     `json:"lower_bound_bytes"`
		Clusters []*string `json:"stash_clusters"`
		Plan     struct {
			Stashed []struct {
				Value string `json:"value"`
			} `json:"stashed"`
		} `json:"plan"`
		Pareto struct {
			Marks []struct {
				Name   string `json:"name"`
				Live   int64  `json:"live_bytes"`
				Chosen bool   `json:"chosen"`
			} `json:"marks"`
		} `json:"pareto"`
	}
	page := written(t, p)
	require.NoError(t, json.Unmarshal(unpacked(t, page), &d))
	require.Equal(t, p.Fit.Limit, d.Limit)
	require.Equal(t, p.PeakRecord().LowerBoundBytes, d.Bound)
	names := []string{}
	for _, x := range d.Pareto.Marks {
		names = append(names, x.Name)
		require.Equal(t, x.Name == "the plan", x.Chosen)
		if x.Chosen {
			require.Equal(t, p.Planned.Peak.Bytes, x.Live)
		}
	}
	require.Contains(t, names, "as it is")
	require.Contains(t, names, "the plan")
	require.Contains(t, names, "Level 1")
	r, err := explain.Explain(t.Context(), p, explain.Options{Top: -1})
	require.NoError(t, err)
	known := map[string]string{}
	for _, v := range r.Values {
		known[v.Name] = v.Cluster
	}
	checked := 0
	require.Len(t, d.Clusters, len(d.Plan.Stashed))
	for i, s := range d.Plan.Stashed {
		if want := known[s.Value]; want != "" {
			require.NotNil(t, d.Clusters[i], s.Value)
			require.Equal(t, want, *d.Clusters[i])
			checked++
		}
	}
	require.Positive(t, checked)

	level := written(t, example(t, "transformer", memopt.Level(1)))
	require.NoError(t, json.Unmarshal(unpacked(t, level), &d))
	for _, x := range d.Pareto.Marks {
		require.NotEqual(t, "Level 1", x.Name, "the plan is there twice")
	}
	b := show(t, saved(t, page), window{1280, 1000, "light"})
	b.all()
	require.Contains(t, b.text("#plans .chosen"), "this page")
	require.Contains(t, b.text("#plans .chosen"), fmt.Sprint(p.Recompute.Nodes))
	b.clean()
}
