package executor

import (
	"sync/atomic"
	"time"

	"memopt/graph"
)

// fusionBlock is the number of elements that a group of fused loops does at a time: the
// operands of a few loops over so many float32 fit into a core's first-level caches.
const fusionBlock = 4096

// fuse marks steps that run as one, unless an observer inspects the memory between them.
func (f *frame) fuse() error {
	if f.s.opts.NoFusion || f.s.opts.Guard || f.s.opts.Probe != nil {
		return nil
	}
	return f.space.fuse()
}

// fuseLoops marks runs of neighbouring loopers over the same number of elements. They run block by
// block, so that each node's results are in the cache when the next one reads them. Each still
// writes its output, at its planned place, with the results of a run alone.
func (f *frame) fuseLoops() {
	for i := 0; i < len(f.steps); {
		n := 1
		for i+n < len(f.steps) && f.joins(i, i+n) {
			n++
		}
		f.steps[i].fused = n
		i += n
	}
}

// joins reports whether step j can run in the same loop as the steps i..j-1.
func (f *frame) joins(i, j int) bool {
	a, b := &f.steps[i], &f.steps[j]
	n, ok := f.loopLength(a)
	m, ok2 := f.loopLength(b)
	if !ok || !ok2 || n != m || n < 2*fusionBlock {
		return false
	}
	for k := i; k < j; k++ {
		if !f.independent(&f.steps[k], b) {
			return false
		}
	}
	return true
}

// loopLength returns the number of elements of a step that is a loop.
func (f *frame) loopLength(st *step) (int, bool) {
	if _, ok := st.kernel.(Looper); !ok || len(st.node.Outputs) == 0 || len(st.watched) > 0 {
		return 0, false // the value is checked before the next node writes
	}
	v := st.node.Outputs[0]
	if v == graph.NoValue || f.shapes[v] == nil || st.planned.size > 0 {
		return 0, false
	}
	n := 1
	for _, d := range f.shapes[v] {
		n *= d
	}
	return n, true
}

// independent reports whether a step may start on its first elements before an earlier one has done
// its last: the later one must not write memory that the earlier one still reads or writes, except
// for the same element at the same place.
func (f *frame) independent(early, late *step) bool {
	n := length(f.shapes[late.node.Outputs[0]])
	for _, v := range early.node.Outputs {
		for _, in := range late.node.Inputs {
			if v != graph.NoValue && v == in && length(f.shapes[v]) != n {
				return false // every element of it may be read for each of the later one
			}
		}
	}
	for _, w := range late.node.Outputs {
		if w == graph.NoValue {
			continue
		}
		for _, list := range [][]graph.ValueID{early.node.Inputs, early.node.Outputs} {
			for _, v := range list {
				if v != graph.NoValue && !f.apart(v, w, n) {
					return false
				}
			}
		}
	}
	return true
}

func length(shape []int) int {
	if shape == nil {
		return -1
	}
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// apart reports whether two values share no memory, or lie in the same place element by element, so
// that a loop over n handles one element at a time.
func (f *frame) apart(v, w graph.ValueID, n int) bool {
	sv, sw := f.stateOf(v), f.stateOf(w)
	aligned := f.bytes[v] == f.bytes[w] && length(f.shapes[v]) == n && length(f.shapes[w]) == n
	if sv != graph.NoValue || sw != graph.NoValue {
		return sv != sw || aligned
	}
	rv, rw := f.timeline.Root[v], f.timeline.Root[w]
	if rv == graph.NoValue || rw == graph.NoValue {
		return true // other inputs and weights are never written
	}
	a, b := f.offsets[rv], f.offsets[rw]
	if a < 0 || b < 0 {
		return rv != rw
	}
	a, b = a+f.timeline.Begin(v), b+f.timeline.Begin(w)
	if a == b && aligned {
		return true
	}
	return a+f.bytes[v] <= b || b+f.bytes[w] <= a
}

// fusionTask runs a fusion group's loops block by block.
type fusionTask struct {
	steps []step
	took  []atomic.Int64 // by step, nanoseconds in the blocks that are timed; empty without an observer
}

// timedBlocks: where a fusion group is observed, one block of this many is timed. Reading the clock
// after every loop of every block would take a good part of the measured time.
const timedBlocks = 4

// Range does the elements lo..hi-1 of every step.
func (t *fusionTask) Range(lo, hi int) {
	for ; lo < hi; lo += fusionBlock {
		end := min(lo+fusionBlock, hi)
		if len(t.took) > 0 && lo/fusionBlock%timedBlocks == 0 {
			t.timed(lo, end)
			continue
		}
		for i := range t.steps {
			t.steps[i].kernel.(Looper).Range(lo, end)
		}
	}
}

// timed does a block and notes how long each step takes.
func (t *fusionTask) timed(lo, hi int) {
	last := time.Now()
	for i := range t.steps {
		t.steps[i].kernel.(Looper).Range(lo, hi)
		now := time.Now()
		t.took[i].Add(int64(now.Sub(last)))
		last = now
	}
}

// runGroup runs the steps of a fusion group, which starts at place i of the order, or those before
// the first one that turns out not to be a plain loop: there the group is cut for good. It returns
// how many steps it has run. Steps without a kernel, constants, are passed over.
func (f *frame) runGroup(at int, steps []step) (int, error) {
	start := f.watch(len(steps))
	want := length(f.shapes[steps[0].node.Outputs[0]])
	for i := range steps {
		st := &steps[i]
		if st.kernel == nil {
			continue
		}
		st.ctx.Step, st.scratchUsed = f.step, 0
		n, err := begin(st)
		if err != nil {
			return 0, err
		}
		if n != want {
			cut(steps, i)
			steps = steps[:i]
			break
		}
		if err := st.check(); err != nil {
			return 0, err
		}
		st.live = f.live
		f.settle(st) // as if each were done before the next begins
	}
	if err := f.doGroup(want, steps); err != nil {
		return 0, err
	}
	for i := range steps {
		if err := steps[i].named(steps[i].fetchOutputs()); err != nil {
			return 0, err
		}
	}
	f.report(at, steps, start)
	for i := range steps {
		if steps[i].kernel != nil {
			f.finish(&steps[i])
		}
	}
	return len(steps), nil
}

// doGroup completes the steps that a fusion group has begun, over n elements each. steps is empty
// if the first was not a plain loop.
func (f *frame) doGroup(n int, steps []step) error {
	if len(steps) == 0 {
		return nil
	}
	if work := steps[0].work; work != nil {
		return f.doDeviceGroup(work, steps)
	}
	f.task.steps = steps
	f.s.pool.Run(n, fusionBlock, &f.task)
	f.task.steps = nil
	return nil
}

// observer returns the observer of this frame's nodes, or nil.
func (f *frame) observer() Observer {
	if f == f.s.root {
		return f.s.opts.Observer
	}
	return nil
}

// watch prepares to time a fusion group of n steps, if it is observed, and returns the time.
func (f *frame) watch(n int) time.Time {
	if f.observer() == nil {
		return time.Time{}
	}
	if len(f.task.took) < n {
		f.task.took = make([]atomic.Int64, n)
	}
	for i := range n {
		f.task.took[i].Store(0)
	}
	return time.Now()
}

// report tells the observer of the steps of a fusion group. The time of the group is divided among
// them as the timed blocks were, or equally if the clock did not advance.
func (f *frame) report(at int, steps []step, start time.Time) {
	obs := f.observer()
	if obs == nil {
		return
	}
	took := time.Since(start)
	var sum, nodes int64
	for i := range steps {
		if steps[i].kernel != nil {
			nodes++
		}
		sum += f.task.took[i].Load()
	}
	for i := range steps {
		if steps[i].kernel == nil {
			continue
		}
		share := took / time.Duration(nodes)
		if sum > 0 {
			share = time.Duration(float64(took) * float64(f.task.took[i].Load()) / float64(sum))
		}
		obs.Node(at+i, steps[i].node.ID, start, share, steps[i].live)
		start = start.Add(share)
	}
}

// cut makes step i, whose Begin has had no effect, a step of its own.
func cut(steps []step, i int) {
	steps[0].fused = i
	steps[i].fused = 0
	if rest := steps[i+1:]; len(rest) > 0 {
		rest[0].fused = len(rest)
	}
}

// loop returns how a step of a fusion group begins.
func (st *step) loop() Beginner {
	if st.part != nil {
		return st.part
	}
	return st.kernel.(Looper)
}

// begin starts a loop; it returns errors as Invoke does.
func begin(st *step) (n int, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case Fault:
			err = st.prep.named(r.Err)
		default:
			panic(r)
		}
	}()
	if n, err = st.loop().Begin(st.ctx); err != nil {
		err = st.prep.named(err)
	}
	return n, err
}
