package executor

import (
	"fmt"
	"slices"

	"memopt/graph"
)

// Fuser is an Accelerator that does neighbouring nodes over equally many elements as one piece of
// work, with intermediate results in registers. For example, Mul, Add and Gelu become one launch.
//
// Every node of a fusion group takes its output's memory as if it ran alone, so that fusion changes
// neither plans nor measurements. A value without readers outside the group need not be written.
type Fuser interface {
	Accelerator
	// Fits reports whether nodes can be one group, in this order, if all of their outputs are
	// stored. If a list fits, so does every beginning of it.
	Fits(nodes []Fusible) bool
	// Fuse makes a group of the nodes, or returns nil if that would save no time.
	Fuse(nodes []Fusible) (FusionGroup, error)
}

// Fusible is a node that may be part of a device's fusion group: its kernel runs on the device,
// takes no workspace and makes one output, and all of its operands live there.
type Fusible struct {
	Kernel Kernel
	Prep   *Prep
	In     []graph.ValueID // by input; NoValue where it is left out
	Shapes [][]int         // of the inputs
	Out    graph.ValueID
	Shape  []int // of the output
	Stored bool  // the output is read outside the group
}

// FusionGroup is a group of nodes of one session.
type FusionGroup interface {
	// Part returns node i's part. All of them begin, in order, before Run.
	Part(i int) Beginner
	// Run does the work of all nodes, from the second time on without an allocation.
	Run() error
	// Bytes returns how many bytes of operands with as many elements as the results the nodes move
	// one by one, and how many the group moves.
	Bytes() (alone, fused int64)
}

// Fused counts the work that a session's fusion groups save in a step on a device.
type Fused struct {
	Groups, Nodes int   // the nodes run in that many groups
	Alone, Fused  int64 // bytes that the nodes move one by one, and that the fusion groups move: FusionGroup.Bytes
}

// Fused counts the fusion groups that a device runs.
func (s *Session) Fused() Fused {
	var c Fused
	for i := range s.root.steps {
		st := &s.root.steps[i]
		if st.part != nil {
			c.Nodes++
		}
		if st.work != nil {
			alone, fused := st.work.Bytes()
			c.Groups, c.Alone, c.Fused = c.Groups+1, c.Alone+alone, c.Fused+fused
		}
	}
	return c
}

// fuseOnDevice marks fusion groups of a device as fuseLoops does those of the host. Constants
// between the nodes of a fusion group do not separate them.
func (f *frame) fuseOnDevice(c Fuser) error {
	last := f.lastReaders()
	for i := 0; i < len(f.steps); i++ {
		nodes, n := f.fusibleFrom(c, i)
		if len(nodes) < 2 {
			continue
		}
		for k := range nodes {
			nodes[k].Stored = last[nodes[k].Out] >= i+n
		}
		work, err := c.Fuse(nodes)
		if err != nil {
			return err
		}
		if work == nil {
			continue
		}
		steps := f.steps[i : i+n]
		steps[0].fused, steps[0].work = n, work
		at := 0
		for k := range steps {
			if steps[k].kernel != nil {
				steps[k].part = work.Part(at)
				at++
			}
		}
		i += n - 1
	}
	return nil
}

// lastReaders returns the last step that reads each value; the number of steps for those that are
// read after the run.
func (f *frame) lastReaders() []int {
	last := make([]int, len(f.g.Values))
	for i := range f.steps {
		for _, list := range [][]graph.ValueID{f.steps[i].node.Inputs, f.steps[i].node.Captures()} {
			for _, v := range list {
				if v != graph.NoValue {
					last[v] = i
				}
			}
		}
	}
	for _, o := range f.g.Outputs {
		last[o.Value] = len(f.steps)
	}
	return last
}

// fusibleFrom returns the nodes of the longest group that begins with step i, and the number of
// steps that it has with the constants in between.
func (f *frame) fusibleFrom(c Fuser, i int) (nodes []Fusible, n int) {
	for j := i; j < len(f.steps); j++ {
		if j > i && f.steps[j].kernel == nil {
			continue
		}
		l, ok := f.fusible(&f.steps[j])
		if !ok || len(nodes) > 0 && (length(l.Shape) != length(nodes[0].Shape) || !f.independentOf(i, j)) {
			break
		}
		if nodes = append(nodes, l); !c.Fits(nodes) {
			nodes = nodes[:len(nodes)-1]
			break
		}
		n = j + 1 - i
	}
	return nodes, n
}

// independentOf reports whether step j is independent of the steps i..j-1.
func (f *frame) independentOf(i, j int) bool {
	for k := i; k < j; k++ {
		if f.steps[k].kernel != nil && !f.independent(&f.steps[k], &f.steps[j]) {
			return false
		}
	}
	return true
}

// fusible describes a step that may be part of a fusion group.
func (f *frame) fusible(st *step) (Fusible, bool) {
	n := st.node
	switch {
	case st.kernel == nil || st.hostWhy != "" || st.planned.size > 0 || st.prep.Info.View ||
		len(st.prep.Info.Mutates) > 0 || len(n.Captures()) > 0:
		return Fusible{}, false
	case st.needsHost() || len(st.toDevice) > 0:
		return Fusible{}, false
	case len(n.Outputs) == 0 || n.Outputs[0] == graph.NoValue ||
		slices.ContainsFunc(n.Outputs[1:], func(v graph.ValueID) bool { return v != graph.NoValue }):
		return Fusible{}, false
	}
	out := n.Outputs[0]
	in, ok := f.knownShapes(n.Inputs)
	root := f.timeline.Root[out]
	if !ok || f.shapes[out] == nil ||
		f.stateOf(out) == graph.NoValue && (root == graph.NoValue || f.offsets[root] < 0) {
		return Fusible{}, false
	}
	return Fusible{Kernel: st.kernel, Prep: st.prep, In: n.Inputs, Shapes: in, Out: out, Shape: f.shapes[out]}, true
}

// doDeviceGroup lets the device run a fusion group, and waits for it if there is an observer.
func (f *frame) doDeviceGroup(work FusionGroup, steps []step) error {
	err := work.Run()
	if err == nil && f.observer() != nil {
		err = f.mem.Sync() // the time is that of the work, not that of the request for it
	}
	if err != nil {
		return fmt.Errorf("nodes %q to %q, which run as one: %w",
			steps[0].prep.Label, steps[len(steps)-1].prep.Label, err)
	}
	return nil
}
