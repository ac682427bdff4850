package driver

import "errors"

// capture is the driver's record of a stream whose work is being captured, and of the graphs that
// were made.
type capture struct {
	on     bool
	stream Stream
	staged []uintptr           // copies, in pinned memory, of the capture's sources that are not pinned
	graphs map[Graph][]uintptr // and those of each graph
	pinned map[uintptr]int     // the bytes of Pin's results, by address
}

// holds reports whether memory of the host is pinned.
func (c *capture) holds(b []byte) bool {
	at := Address(b)
	for start, n := range c.pinned {
		if at >= start && at+uintptr(len(b)) <= start+uintptr(n) {
			return true
		}
	}
	return false
}

// stage returns memory that a graph can read when it is replayed, with the present contents of src:
// src itself, unless the stream is being captured and src is not pinned. A graph would read such
// memory later, when its contents may have changed.
func (d *cuda) stage(s Stream, src []byte) ([]byte, error) {
	c := &d.capture
	if !c.on || s != c.stream || len(src) == 0 || c.holds(src) {
		return src, nil
	}
	if err := d.do(cuMemHostAlloc, d.addr(0), uintptr(len(src)), 0); err != nil {
		return nil, err
	}
	at := uintptr(d.out[0])
	c.staged = append(c.staged, at)
	b := Memory(at, len(src))
	copy(b, src)
	return b, nil
}

// unstage gives copies back.
func (d *cuda) unstage(staged []uintptr) (err error) {
	for _, at := range staged {
		err = errors.Join(err, d.do(cuMemFreeHost, at))
	}
	return err
}

// captureRelaxed allows all calls: a goroutine may change threads in the middle of a capture.
const captureRelaxed = 2

// BeginCapture starts a capture.
func (d *cuda) BeginCapture(s Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.do(cuStreamBeginCapture, uintptr(s), captureRelaxed)
	if err == nil {
		d.capture.on, d.capture.stream = true, s
	}
	return err
}

// EndCapture makes a graph that can be replayed.
func (d *cuda) EndCapture(s Stream) (Graph, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &d.capture
	staged := c.staged
	c.on, c.staged = false, nil
	if err := d.do(cuStreamEndCapture, uintptr(s), d.addr(0)); err != nil {
		d.unstage(staged)
		return 0, err
	}
	g := uintptr(d.out[0])
	err := d.do(cuGraphInstantiate, d.addr(1), g, 0)
	exec := Graph(d.out[1])
	if e := d.do(cuGraphDestroy, g); err == nil {
		err = e
	}
	if err != nil {
		d.unstage(staged)
		return 0, err
	}
	if len(staged) > 0 {
		c.graphs[exec] = staged
	}
	return exec, nil
}

// Replay runs the captured work.
func (d *cuda) Replay(g Graph, s Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.do(cuGraphLaunch, uintptr(g), uintptr(s))
}

// FreeGraph frees a graph.
func (d *cuda) FreeGraph(g Graph) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.do(cuGraphExecDestroy, uintptr(g))
	staged := d.capture.graphs[g]
	delete(d.capture.graphs, g)
	return errors.Join(err, d.unstage(staged))
}
