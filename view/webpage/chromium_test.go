package webpage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// browserLimit is how long a test waits for the browser at most.
const browserLimit = 3 * time.Minute

// views are the sections of a page, in their order.
var views = []string{"timeline", "arena", "treemap", "pareto", "clusters", "stashes", "graph", "runs"}

// tab is a page in a headless Chromium that has no network.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string // what the console and the network complained of
}

// chromium returns the browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium, in which pages are tried: .ci/install or apt-get install chromium installs it")
	}
	return path
}

// window is how a page is shown.
type window struct {
	width, height int64
	theme         string // of the system: light or dark
}

// show opens a file in a window.
func show(t *testing.T, file string, w window) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)),
		chromedp.Flag("no-sandbox", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"))
	limited, cancel := context.WithTimeout(t.Context(), browserLimit)
	t.Cleanup(cancel)
	allocator, stop := chromedp.NewExecAllocator(limited, options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Do(ctx))
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: true})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: w.theme}}})
	require.NoError(t, err)
	path, err := filepath.Abs(file)
	require.NoError(t, err)
	b.do(chromedp.EmulateViewport(w.width, w.height), chromedp.Navigate("file://"+path))
	require.Equal(t, "yes", eval[string](b, `new Promise((done) => {
		const look = (left) => {
			const ready = document.documentElement.dataset.ready;
			if (ready || left === 0) { done(ready ?? document.body.textContent.slice(0, 2000)); }
			else { setTimeout(look, 50, left - 1); }
		};
		look(600);
	})`), "the page does not begin")
	b.clean()
	return b
}

// listen notes what must not happen: errors, warnings, and requests for anything but the file.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b.faults = append(b.faults, fmt.Sprintf("console %s: %s", e.Type, e.Args[0].Value))
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, exception(e.ExceptionDetails))
	case *log.EventEntryAdded:
		b.faults = append(b.faults, "log: "+e.Entry.Text+" "+e.Entry.URL)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "file://") {
			b.faults = append(b.faults, "request: "+e.Request.URL)
		}
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, actions...))
}

// eval evaluates an expression in the page; a promise is awaited.
func eval[T any](b *tab, script string, args ...any) T {
	b.t.Helper()
	if len(args) > 0 {
		script = fmt.Sprintf(script, args...)
	}
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, script)
	return out
}

// clean wants that nothing was complained of.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.faults)
}

// settle waits until what was asked for is drawn.
func (b *tab) settle() {
	b.t.Helper()
	eval[bool](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// all draws every view, as for a printer, and waits for them.
func (b *tab) all() {
	b.t.Helper()
	eval[bool](b, `dispatchEvent(new Event("beforeprint"))`)
	eval[bool](b, `dispatchEvent(new Event("afterprint"))`)
	b.settle()
	b.settle()
}

// press clicks what a selector finds first.
func (b *tab) press(selector string) {
	b.t.Helper()
	require.True(b.t, eval[bool](b,
		`(() => { const e = document.querySelector(%s); e?.click(); return Boolean(e); })()`,
		quoted(selector)), "nothing is %s", selector)
	b.settle()
}

// text is what an element says.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, `document.querySelector(%s).textContent`, quoted(selector))
}

// data is a number among the data attributes of an element.
func (b *tab) data(selector, attribute string) int64 {
	b.t.Helper()
	return eval[int64](b, `Number(document.querySelector(%s).getAttribute(%s))`, quoted(selector), quoted(attribute))
}

// move puts the mouse on a point of the window.
func (b *tab) move(x, y float64) {
	b.t.Helper()
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
	b.settle()
}

// picture is what the page shows of an element.
func (b *tab) picture(script string) []byte {
	b.t.Helper()
	box := eval[[]float64](b, `(() => { const r = %s.getBoundingClientRect();
		return [r.left + scrollX, r.top + scrollY, r.width, r.height]; })()`, script)
	require.Positive(b.t, box[2]*box[3], "%s has no area", script)
	beyond := true
	out, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		CaptureBeyondViewport: &beyond,
		Clip:                  &page.Viewport{X: box[0], Y: box[1], Width: box[2], Height: box[3], Scale: 1}})
	require.NoError(b.t, err)
	return out.Data
}

// shoot writes pictures of all views where MEMOPT_SHOTS names a folder, to look at.
func (b *tab) shoot(name string) {
	b.t.Helper()
	folder := os.Getenv("MEMOPT_SHOTS")
	if folder == "" {
		return
	}
	for _, view := range append([]string{"details"}, views...) {
		data := b.picture(fmt.Sprintf("document.getElementById(%q)", view))
		require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+"-"+view+".png"), data, 0o644))
	}
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), b.picture("document.body"), 0o644))
}

// quoted is a text as JavaScript has it.
func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// exception says what was thrown, and where.
func exception(e *runtime.ExceptionDetails) string {
	text := fmt.Sprintf("exception: %s, line %d", e.Text, e.LineNumber)
	if e.Exception != nil {
		text += ": " + e.Exception.Description
	}
	return text
}

// right is the key that leads to the right.
const right = kb.ArrowRight

// key presses a key.
func (b *tab) key(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
	b.settle()
}

// fill writes into a field.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	eval[bool](b, `(() => { const e = document.querySelector(%s); e.value = %s; e.dispatchEvent(new Event("input"));
		return true; })()`, quoted(selector), quoted(text))
	b.settle()
}
