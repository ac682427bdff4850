package webpage_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/color"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/graph"
	"memopt/internal/test/graphtest"
	"memopt/view/timeline"
	"memopt/view/webpage"
)

// TestScreens shows a page in windows of three widths and both themes: every view has something in
// it, text can be read on what lies behind it, and nothing is complained of. MEMOPT_SHOTS=FOLDER
// keeps pictures to look at.
func TestScreens(t *testing.T) {
	file := saved(t, written(t, example(t, "transformer", memopt.Level(1)), measured(t)...))
	for _, width := range []int64{400, 1280, 2560} {
		for _, theme := range []string{"light", "dark"} {
			b := show(t, file, window{width, 1000, theme})
			b.all()
			b.shoot(fmt.Sprintf("%d-%s", width, theme))
			for _, view := range views {
				list := eval[int](b, `document.querySelectorAll(%s).length`, quoted("#"+view+" "+pictures))
				require.Positive(t, list, view)
				for i := range list {
					at := fmt.Sprintf("document.querySelectorAll(%s)[%d]", quoted("#"+view+" "+pictures), i)
					require.Greater(t, painted(t, b.picture(at)), 0.005, "%s: picture %d", view, i)
				}
			}
			narrow(b)
			contrasts(b)
			b.clean()
		}
	}
}

// narrow wants no element to be wider than the window, but for those that scroll by themselves.
func narrow(b *tab) {
	b.t.Helper()
	require.Empty(b.t, eval[[]string](b, `[...document.querySelectorAll("body *")]
		.filter((e) => !e.closest(".scroll, .views, .skip")
		&& e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + "." + e.className)`),
		"the page is too wide")
}

// pictures selects what views show: charts, maps, tables and graphs.
const pictures = ":is(.plot, .treemap, .neighbours, table)"

// painted is the share of a picture that is not of its most frequent colour.
func painted(t *testing.T, data []byte) float64 {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	count, most := map[color.Color]int{}, 0
	r := img.Bounds()
	const stride = 3 // one point of nine tells as much
	points := 0
	for y := r.Min.Y; y < r.Max.Y; y += stride {
		for x := r.Min.X; x < r.Max.X; x += stride {
			points++
			c := img.At(x, y)
			count[c]++
			most = max(most, count[c])
		}
	}
	return 1 - float64(most)/float64(points)
}

// contrasts wants text to have at least the contrast that WCAG 2.2 asks for (1.4.3: 4.5 to 1) with
// what lies behind it.
func contrasts(b *tab) {
	b.t.Helper()
	require.Empty(b.t, eval[[]string](b, `(() => {
		const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
		const rgb = (c) => {
			canvas.clearRect(0, 0, 1, 1);
			canvas.fillStyle = c;
			canvas.fillRect(0, 0, 1, 1);
			return canvas.getImageData(0, 0, 1, 1).data;
		};
		const light = (c) => {
			const [r, g, b] = Array.from(rgb(c), (x) => x / 255).map((x) =>
				x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
			return 0.2126 * r + 0.7152 * g + 0.0722 * b;
		};
		const behind = (e) => {
			for (; e; e = e.parentElement) {
				const c = getComputedStyle(e).backgroundColor;
				if (rgb(c)[3] === 255) { return c; }
			}
			return "white";
		};
		const bad = new Set();
		for (const e of document.querySelectorAll("body *")) {
			const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
			if (!own || !e.checkVisibility() || e.closest("script, noscript")) { continue; }
			const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
			const ratio = (a + 0.05) / (b + 0.05);
			if (ratio < 4.5) { bad.add(e.tagName + "." + e.className + " " + ratio.toFixed(2)); }
		}
		return [...bad];
	})()`), "too little contrast")
}

// TestNumbers: what the page shows of the plan, of the baseline and of both is what the report says.
func TestNumbers(t *testing.T) {
	p := example(t, "transformer", memopt.Level(1))
	want := reportOf(t, p)
	b := show(t, saved(t, written(t, p)), window{1280, 1000, "light"})
	b.all()
	for field, n := range map[string]int64{"baseline_bytes": want.Peak.Baseline, "planned_bytes": want.Peak.Planned,
		"arena_bytes": want.Peak.Arena, "persistent_bytes": want.Peak.Persistent, "total_bytes": want.Peak.Total} {
		require.Equal(t, n, b.data(`[data-field="`+field+`"]`, "data-value"), field)
	}
	peaks := func() []int64 {
		return eval[[]int64](b, `[...document.querySelectorAll("[data-peak]")].map((e) => Number(e.dataset.bytes))`)
	}
	require.Equal(t, []int64{want.Peak.Planned}, peaks())
	require.Equal(t, want.Peak.Arena, b.data("[data-arena]", "data-bytes"))
	for kind, n := range map[string]int64{"weights": want.AtPeak.Weights, "gradients": want.AtPeak.Gradients,
		"activations": want.AtPeak.Activations} {
		require.Equal(t, n, b.data(`[data-kind="`+kind+`"]`, "data-bytes"), kind)
	}
	groups := func() (sum int64) {
		for _, n := range eval[[]int64](b,
			`[...document.querySelectorAll("[data-group]")].map((e) => Number(e.dataset.bytes))`) {
			sum += n
		}
		return sum
	}
	for _, by := range []string{"layer", "operator", "cluster"} {
		b.press(`input[name="group"][value="` + by + `"]`)
		require.Equal(t, want.Peak.Planned, groups(), by)
	}

	b.press(`input[name="shown"][value="baseline"]`)
	require.Equal(t, []int64{want.Peak.Baseline}, peaks())
	require.Equal(t, want.Peak.Baseline, groups())
	b.press(`[data-zoom="peak"]`)
	require.Equal(t, want.Peak.Baseline, b.data("[data-live]", "data-live"))

	b.press(`input[name="shown"][value="both"]`)
	require.Equal(t, []int64{want.Peak.Planned, want.Peak.Baseline}, peaks())
	b.press(`[data-zoom="peak"]`)
	require.Equal(t, want.Peak.Planned, b.data("[data-live]", "data-live"))

	rows := func(table string) string { return b.text("#" + table + " .controls [role=status]") }
	require.Equal(t, fmt.Sprintf("%d of %d", len(want.Stashed), len(want.Stashed)), rows("stashes"))
	require.Equal(t, fmt.Sprintf("%d of %d", len(want.Clusters), len(want.Clusters)), rows("clusters"))
	b.clean()
}

// chartPoint is where the timeline shows the middle of a step, when all steps are shown.
func chartPoint(b *tab, step, steps int) (x, y float64) {
	box := eval[[]float64](b, `(() => { const r = document.querySelector("#timeline .u-over").getBoundingClientRect();
		return [r.left, r.top, r.width, r.height]; })()`)
	return box[0] + box[2]*(float64(step)+0.5)/float64(steps), box[1] + box[3]/2
}

// TestHover puts the mouse on three places of the timeline and on the largest block of the arena: the
// page names the node that runs there, what is live, who made it and who reads it last.
func TestHover(t *testing.T) {
	p := example(t, "transformer", memopt.Level(1))
	tl := timelineOf(t, p)
	b := show(t, saved(t, written(t, p)), window{1280, 1000, "light"})
	b.all()
	for _, at := range []int{7, tl.Peak, len(tl.Steps) - 3} {
		b.move(chartPoint(b, at, len(tl.Steps)))
		b.settle()
		step := &tl.Steps[at]
		require.Equal(t, int64(at), b.data("#details", "data-step"))
		require.Equal(t, step.Name, b.text("#node-name"))
		require.Equal(t, step.Live.Sum(), b.data("[data-live]", "data-live"))
		block := largest(tl, int32(at))
		row := eval[[]string](b, `[...document.querySelector("#live tbody tr").cells].map((c) => c.textContent.trim())`)
		require.Equal(t, shortened(block.Name, 60), row[1])
		require.Equal(t, shortened(tl.Steps[block.Made].Name, 40), row[2])
		if block.Reader >= 0 {
			require.Equal(t, shortened(tl.Steps[block.Reader].Name, 40), row[3])
		}
	}

	eval[bool](b, `(document.getElementById("arena").scrollIntoView(), true)`)
	b.settle()
	block := largest(tl, int32(tl.Peak))
	box := eval[[]float64](b, `(() => { const r = document.querySelector("#arena canvas").getBoundingClientRect();
		return [r.left, r.top, r.width, r.height]; })()`)
	middle := (float64(block.First) + float64(block.Last) + 1) / 2 / float64(len(tl.Steps))
	address := (float64(tl.Offset(block)) + float64(block.Bytes)/2) / float64(p.Arena.Bytes)
	b.move(box[0]+78+(box[2]-86)*middle, box[1]+8+(box[3]-36)*(1-address))
	require.Contains(t, b.text("#arena-readout"), shortened(block.Name, 80))
	require.Contains(t, b.text("#arena-readout"), shortened(tl.Steps[block.Made].Name, 80))
	b.clean()
}

// largest is the largest block that is live at a step; of equal ones, the first.
func largest(tl *timeline.Timeline, at int32) *timeline.Block {
	var out *timeline.Block
	for i := range tl.Blocks {
		x := &tl.Blocks[i]
		if x.First <= at && at <= x.Last && (out == nil || x.Bytes > out.Bytes) {
			out = x
		}
	}
	return out
}

// shortened cuts a plain name as the page does.
func shortened(name string, most int) string {
	if len(name) <= most {
		return name
	}
	half := (most - 1) / 2
	return name[:half] + "…" + name[len(name)-half:]
}

// TestKeyboard: everything that can be pressed has a name for screen readers, the first key leads to
// a link past the header, arrows walk through the steps, and sorting says so.
func TestKeyboard(t *testing.T) {
	p := example(t, "transformer-small", memopt.Level(1))
	b := show(t, saved(t, written(t, p)), window{1280, 1000, "dark"})
	b.all()
	require.Empty(t, eval[[]string](b, `[...document.querySelectorAll("button, input, a, [role=img], [role=region]")]
		.filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length))
		.map((e) => e.outerHTML)`), "elements without a name")
	require.Empty(t, eval[[]string](b, `(() => { const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
		return ids.filter((id, i) => ids.indexOf(id) !== i); })()`), "ids that are there twice")
	eval[bool](b, `(scrollTo(0, 0), document.activeElement.blur(), true)`)
	order := []string{}
	for range 8 {
		b.key("\t")
		order = append(order, eval[string](b, `document.activeElement.textContent || document.activeElement.value`))
	}
	require.Contains(t, order, "Timeline")
	eval[bool](b, `(document.getElementById("step").focus(), true)`)
	before := b.data("#details", "data-step")
	b.key(right)
	b.settle()
	require.Equal(t, before+1, b.data("#details", "data-step"))
	b.key("p")
	b.settle()
	require.Equal(t, int64(timelineOf(t, p).Peak), b.data("#details", "data-step"))

	b.press(`#stash-table th:nth-child(3) button`)
	require.Equal(t, "ascending", eval[string](b, `document.querySelector("#stash-table th:nth-child(3)").ariaSort`))
	sizes := eval[[]string](b,
		`[...document.querySelectorAll("#stash-table tbody td:nth-child(3)")].map((e) => e.textContent)`)
	require.NotEmpty(t, sizes)
	b.press(`#stash-table th:nth-child(1) button`)
	names := eval[[]string](b,
		`[...document.querySelectorAll("#stash-table tbody td:nth-child(1)")].map((e) => e.textContent.trim())`)
	require.True(t, slices.IsSorted(names), names)
	b.clean()
}

// TestSearch finds nodes and stashes by parts of their names.
func TestSearch(t *testing.T) {
	p := example(t, "transformer-small", memopt.Level(1))
	b := show(t, saved(t, written(t, p)), window{1280, 1000, "light"})
	b.all()
	b.fill("#node-search", "softmax")
	found := eval[[]string](b, `[...document.querySelectorAll("#graph .found li")].map((e) => e.textContent)`)
	require.NotEmpty(t, found)
	for _, text := range found {
		require.Contains(t, strings.ToLower(text), "softmax")
	}
	b.press("#graph .found button")
	require.Contains(t, strings.ToLower(b.text("#graph .current")), "softmax")
	node := eval[[]string](b, `[...document.querySelectorAll("#graph .column")].map((e) => e.textContent)`)
	require.Len(t, node, 5)
	b.fill("#stash-table-search", "no such name")
	require.Contains(t, b.text("#stash-table tbody"), "No row is found")
	b.clean()
}

// TestZoom: zooming and panning keep the range within the steps, and everything comes back.
func TestZoom(t *testing.T) {
	p := example(t, "transformer-small", memopt.Level(1))
	tl := timelineOf(t, p)
	b := show(t, saved(t, written(t, p)), window{1280, 1000, "light"})
	b.press(`[data-zoom="zoom-in"]`)
	b.press(`[data-zoom="zoom-in"]`)
	b.press(`[data-zoom="left"]`)
	x, y := chartPoint(b, 0, 1) // the middle of what is shown now
	b.move(x, y)
	b.settle()
	require.NotEqual(t, int64(len(tl.Steps)/2), b.data("#details", "data-step"))
	for range 20 {
		b.press(`[data-zoom="right"]`)
		b.press(`[data-zoom="zoom-out"]`)
	}
	b.press(`input[name="axis"][value="time"]`)
	last := len(tl.Steps) - 1
	want := 0
	for i := range tl.Steps {
		if tl.Steps[i].Start <= tl.Seconds()/2 {
			want = i
		}
	}
	b.move(chartPoint(b, 0, 1))
	b.settle()
	require.InDelta(t, want, b.data("#details", "data-step"), float64(last)/100)
	b.clean()
}

// hostile are names that pages and terminals have stumbled over.
var hostile = []string{`</script><script>window.hacked = 1</script>`, `<img src=x onerror="window.hacked = 1">`,
	`"quotes" 'and' ` + "`more`", "control \x00\x07\x1b[31m\r\ncharacters",
	"\u202eright to left\u202c \u05d0\u05d1\u05d2",
	"<!--", "-->", "&lt;&#x41;", "{{.Data}}", strings.Repeat("long/", 2000), "\xff\xfe no UTF-8", "__proto__",
	"constructor"}

// TestNamesInPages: names of all kinds are text in the page, and run nothing.
func TestNamesInPages(t *testing.T) {
	m := graphtest.Training(rand.New(rand.NewPCG(3, 1)), graphtest.Options{Nodes: 60, Layers: true})
	for i, n := range m.Graph.Nodes {
		n.Name = hostile[i%len(hostile)] + fmt.Sprint(i)
	}
	for i := range m.Graph.Values {
		if m.Graph.Values[i].Def != graph.NoNode {
			m.Graph.Values[i].Name = hostile[(i+1)%len(hostile)] + fmt.Sprint("v", i)
		}
	}
	m.Path = `</script>"model'` + "\x1b.onnx"
	model, err := memopt.New(m, memopt.Options{})
	require.NoError(t, err)
	p := planned(t, model, memopt.Level(1))
	page := written(t, p)
	require.NotContains(t, string(page), "hacked")
	b := show(t, saved(t, page), window{1280, 1000, "light"})
	b.all()
	require.Equal(t, "undefined", eval[string](b, `typeof window.hacked`))
	require.Contains(t, b.text("#model"), `</script>"model'\u{1b}.onnx`)
	tl := timelineOf(t, p)
	for i := range tl.Steps {
		eval[bool](b, `(() => { const s = document.getElementById("step"); s.value = %d;
			s.dispatchEvent(new Event("input")); return true; })()`, i)
		b.settle()
		name := b.text("#node-name")
		require.NotEmpty(t, name)
		require.NotRegexp(t, `[\x00-\x1f\x{202a}-\x{202e}]`, name)
		if plain := tl.Steps[i].Name; len(plain) < 100 && utf8.ValidString(plain) &&
			!strings.ContainsAny(plain, "\x00\u202e") {
			require.Equal(t, plain, name)
		}
	}
	require.Zero(t, eval[int](b, `document.querySelectorAll("main img, main script").length`))
	b.clean()
}

// TestBrokenRuns: a file that lacks what its kind should have is said to, beside the others.
func TestBrokenRuns(t *testing.T) {
	var runs []*webpage.Run
	for i, text := range []string{`{"schema": "memopt.run/v1"}`, `{"schema": "memopt.verify/v1", "planned": 5}`,
		`{"schema": "memopt.train/v1", "loss_first": {"a": "<b>"}, "peak": null}`,
		`{"schema": "memopt.run/v1", "peak": {"arena_bytes": "</td>", "measured_arena_bytes": []}}`,
		`{"step": 1, "loss": {}}`, measurements["metrics.jsonl"]} {
		runs = append(runs, readRun(t, fmt.Sprint("<i>", i, ".json"), text))
	}
	b := show(t, saved(t, written(t, example(t, "mlp", memopt.Level(1)), runs...)), window{1280, 1000, "light"})
	b.all()
	require.Contains(t, b.text("#runs"), "cannot be shown")
	require.Equal(t, len(runs), eval[int](b, `document.querySelectorAll("#runs h3").length`))
	require.Positive(t, eval[int](b, `document.querySelectorAll("#runs canvas").length`))
	require.Zero(t, eval[int](b, `document.querySelectorAll("main i, main b").length`))
	b.clean()
}

// TestManyNodes shows a step of 100,000 nodes, and says how long it takes until it is drawn and until
// a zoom is.
func TestManyNodes(t *testing.T) {
	m := graphtest.Training(rand.New(rand.NewPCG(1, 1)),
		graphtest.Options{Nodes: 134_000, Layers: true, Rows: 4, Width: 8})
	model, err := memopt.New(m, memopt.Options{})
	require.NoError(t, err)
	p, err := model.Plan(t.Context(), nil, memopt.PlanOptions{})
	require.NoError(t, err)
	began := time.Now()
	page := plainPage(t, p)
	t.Logf("%d nodes: a page of %d KiB in %v", len(model.Graph.Nodes), len(page)>>10,
		time.Since(began).Round(time.Millisecond))
	b := show(t, saved(t, page), window{1280, 1000, "light"})
	b.settle()
	paint := eval[float64](b, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1`)
	t.Logf("first paint after %.0f ms, charts after %.0f ms", paint,
		eval[float64](b, `performance.getEntriesByName("drawn")[0].startTime`))
	for range 12 {
		took := eval[float64](b, `new Promise((done) => {
			const began = performance.now();
			document.querySelector('[data-zoom="zoom-in"]').click();
			requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
		})`)
		t.Logf("zoom drawn after %.0f ms, of which scripts take %.1f for the timeline and %.1f for the arena", took,
			eval[float64](b, `performance.getEntriesByName("timeline").at(-1).duration`),
			eval[float64](b, `performance.getEntriesByName("arena").at(-1)?.duration ?? 0`))
	}
	tl := timelineOf(t, p)
	b.press(`[data-zoom="all"]`)
	b.press(`[data-zoom="peak"]`)
	require.Equal(t, tl.PeakBytes(), b.data("[data-live]", "data-live"))
	require.Equal(t, tl.Steps[tl.Peak].Name, b.text("#node-name"))
	b.clean()
}

// TestPrint: what is printed is light and has all views, whatever the theme is.
func TestPrint(t *testing.T) {
	b := show(t, saved(t, written(t, example(t, "mlp", memopt.Level(1)))), window{1280, 1000, "dark"})
	// A printer takes the page when the event is over.
	require.Positive(t, eval[int](b, `(dispatchEvent(new Event("beforeprint")),
		document.querySelectorAll("#treemap .cell").length)`))
	require.Positive(t, eval[int](b, `new Set(document.querySelector("#arena canvas").getContext("2d")
		.getImageData(100, 20, 400, 100).data).size - 1`))
	require.LessOrEqual(t, eval[int64](b, `Math.max(...[...document.querySelectorAll("canvas")]
		.map((e) => e.getBoundingClientRect().right - document.body.getBoundingClientRect().left))`), int64(680))
	b.settle()
	require.Equal(t, "rgb(255, 255, 255)", eval[string](b, `getComputedStyle(document.body).backgroundColor`))
	require.Equal(t, len(views),
		eval[int](b, `[...document.querySelectorAll(".view")].filter((v) => v.children.length > 1).length`))
	eval[bool](b, `dispatchEvent(new Event("afterprint"))`)
	require.NotEqual(t, "rgb(255, 255, 255)", eval[string](b, `getComputedStyle(document.body).backgroundColor`))
	b.settle()
	require.Greater(t, eval[int64](b, `document.querySelector("#arena canvas").clientWidth`), int64(1000))
	b.clean()
}

// TestSamePage: equal plans give equal bytes, which ask nobody for anything and stay small.
func TestSamePage(t *testing.T) {
	once := written(t, example(t, "transformer", memopt.Level(1)))
	require.Equal(t, once, written(t, example(t, "transformer", memopt.Level(1))))
	data := dataElement.FindSubmatch(once)[1]
	require.Less(t, len(once)-len(data), 2<<20)
	text := strings.ReplaceAll(string(once), string(data), "")
	for _, word := range []string{"src=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket", "import("} {
		require.NotContains(t, text, word)
	}
	require.Contains(t, text, "Permission is hereby granted")
	var kinds struct {
		Kinds []string `json:"kinds"`
	}
	require.NoError(t, json.Unmarshal(unpacked(t, once), &kinds))
	require.Contains(t, text, `const kinds = [`+"\n  \""+strings.Join(kinds.Kinds, "\",\n  \"")+"\",\n]")
}
