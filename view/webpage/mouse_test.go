package webpage_test

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"memopt"
)

// mouse sends an event of the left button.
func (b *tab) mouse(kind input.DispatchMouseEventType, x, y float64, clicks int) {
	b.t.Helper()
	b.do(chromedp.MouseEvent(kind, x, y, chromedp.ButtonLeft, chromedp.ClickCount(clicks)))
}

// click presses and releases the left button.
func (b *tab) click(x, y float64, clicks int) {
	b.t.Helper()
	b.mouse(input.DispatchMouseEventTypeMousePressed, x, y, clicks)
	b.mouse(input.DispatchMouseEventTypeMouseReleased, x, y, clicks)
	b.settle()
}

// TestMouse: a drag zooms, a double click shows everything again, a click holds the step, and so does
// not a drag.
func TestMouse(t *testing.T) {
	p := example(t, "transformer-small", memopt.Level(1))
	count := len(timelineOf(t, p).Steps)
	b := show(t, saved(t, written(t, p)), window{1280, 1000, "light"})
	step := func() int { return int(b.data("#details", "data-step")) }
	at := func(share float64) (x, y float64) {
		quarter, y := chartPoint(b, 0, 2)
		middle, _ := chartPoint(b, 0, 1)
		return middle + (middle-quarter)*4*(share-0.5), y
	}
	x, y := at(0.25)
	b.move(x, y)
	require.InDelta(t, count/4, step(), 1)
	b.mouse(input.DispatchMouseEventTypeMousePressed, x, y, 1)
	for _, share := range []float64{0.3, 0.4, 0.5} {
		x, y = at(share)
		b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y, chromedp.ButtonLeft))
	}
	b.mouse(input.DispatchMouseEventTypeMouseReleased, x, y, 1)
	b.settle()
	x, y = at(0.5)
	b.move(x+3, y)
	b.move(x, y)
	require.InDelta(t, float64(count)*0.375, step(), 2, "a quarter of the steps is shown")

	b.click(x, y, 1)
	held := step()
	x, y = at(0.9)
	b.move(x, y)
	require.Equal(t, held, step())
	require.Contains(t, b.text(".tip"), "pinned")
	b.click(x, y, 1)
	b.move(x-5, y)
	require.NotEqual(t, held, step())

	x, y = at(0.75)
	b.click(x, y, 1)
	b.click(x, y, 2)
	b.settle()
	b.move(x-4, y)
	b.move(x, y)
	require.InDelta(t, float64(count)*0.75, step(), 2, "all steps are shown")

	x, y = at(0)
	for range 4 { // the wheel zooms around the step that it stands on, the first one
		eval[bool](b, `document.querySelector("#timeline .u-over").dispatchEvent(
			new WheelEvent("wheel", { ctrlKey: true, deltaY: -100, clientX: %f, clientY: %f, cancelable: true }))`, x+1, y)
	}
	b.settle()
	x, y = at(0.5)
	b.move(x, y)
	require.InDelta(t, float64(count)*0.5*0.8*0.8*0.8*0.8, step(), 2, "the wheel zooms")
	b.clean()
}
