package double

import (
	"errors"
	"fmt"
	"slices"

	"memopt/executor/cuda/driver"
)

// graph is the requests to streams in a capture.
type graph struct {
	open    bool            // the capture is under way
	streams []driver.Stream // that take part, the first one before those that have joined it
	// orders are two ways of doing the work of all streams: whatever no event orders with the first
	// one's is done as early as it can be, and as late.
	orders [2][]func() error
}

// BeginCapture records work instead of doing it.
func (d *Double) BeginCapture(s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.join(&graph{open: true}, s)
}

// join makes a stream a part of a capture.
func (d *Double) join(g *graph, s driver.Stream) error {
	switch d.streams[s].graph {
	case g:
		return nil
	case nil:
	default:
		return errors.New("double: the stream is a part of another capture")
	}
	if !g.open {
		return errors.New("double: an event of a capture that has ended")
	}
	if err := d.run(s); err != nil {
		return err
	}
	d.streams[s].graph = g
	g.streams = append(g.streams, s)
	return nil
}

// EndCapture makes a graph.
func (d *Double) EndCapture(s driver.Stream) (driver.Graph, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.streams[s].graph
	if g == nil || g.streams[0] != s {
		return 0, errors.New("double: no capture has begun with the stream")
	}
	g.open = false
	work := make([][]piece, len(g.streams))
	for i, s := range g.streams {
		work[i] = d.streams[s].work
		d.streams[s] = stream{}
	}
	if i := unjoined(work); i >= 0 {
		return 0, fmt.Errorf("double: the capture ends, and work of stream %d is not waited for", g.streams[i])
	}
	g.orders = [2][]func() error{inOrder(work, true), inOrder(work, false)}
	d.graphs = append(d.graphs, g)
	return driver.Graph(len(d.graphs)), nil
}

// unjoined returns the number of a stream, other than the first, with work behind its last event
// that another stream waits for, or -1.
func unjoined(work [][]piece) int {
	waited := map[*mark]bool{}
	for _, w := range work {
		for _, p := range w {
			waited[p.wait] = true
		}
	}
	for i, w := range work[1:] {
		if n := len(w); n > 0 && (w[n-1].record == nil || !waited[w[n-1].record]) {
			return i + 1
		}
	}
	return -1
}

// inOrder makes one list of the work of streams. Where early, the first stream goes on only when
// the others cannot; else the others do when it cannot.
func inOrder(work [][]piece, early bool) (list []func() error) {
	work = slices.Clone(work)
	if early {
		slices.Reverse(work)
	}
	happened := map[*mark]bool{nil: true}
	ready := func(w []piece) bool { return len(w) > 0 && happened[w[0].wait] }
	for i := slices.IndexFunc(work, ready); i >= 0; i = slices.IndexFunc(work, ready) {
		p := work[i][0]
		work[i] = work[i][1:]
		happened[p.record] = true
		if p.do != nil {
			list = append(list, p.do)
		}
	}
	return list
}

// Replay runs the captured work, alternately in one order and in the other.
func (d *Double) Replay(g driver.Graph, s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.Replays++
	for _, work := range d.graphs[g-1].orders[d.counts.Replays%2] {
		switch {
		case d.lost != nil:
			return d.lost
		case d.now(s):
			d.lost = work()
		default:
			d.later(s, work)
		}
	}
	return d.lost
}

// FreeGraph forgets a graph.
func (d *Double) FreeGraph(g driver.Graph) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.graphs[g-1] = nil
	return nil
}
