package executor

import (
	"fmt"
	"slices"

	"memopt/graph"
)

// Chainer is an Accelerator that does neighbouring nodes over equally many elements as one piece of
// work: what one of them makes the next one finds in registers.
//
// Every node of a chain takes its output's memory as if it ran alone, so that a chain changes
// nothing of what is planned and measured. What no other node reads need not be written there.
type Chainer interface {
	Accelerator
	// Fits reports whether nodes can be one chain, in this order, if all of their outputs are
	// stored. A list that fits does so without its last nodes, too.
	Fits(links []Link) bool
	// Chain makes a chain of nodes that fit, or returns nil where it would save nothing.
	Chain(links []Link) (DeviceChain, error)
}

// Link is a node that may be part of a device's chain: its kernel runs on the device, takes no
// workspace and makes one output, and all of its operands live there.
type Link struct {
	Kernel Kernel
	Prep   *Prep
	In     []graph.ValueID // by input; NoValue where it is left out
	Shapes [][]int         // of the inputs
	Out    graph.ValueID
	Shape  []int // of the output
	Stored bool  // somebody outside the chain reads the output
}

// DeviceChain is a chain of nodes of one session.
type DeviceChain interface {
	// Link returns node i's part. All of them begin, in order, before Run.
	Link(i int) Beginner
	// Run does the work of all nodes. It allocates nothing from the second time on.
	Run() error
	// Bytes returns how many bytes of operands with as many elements as the results the nodes move
	// one by one, and how many the chain moves.
	Bytes() (alone, chained int64)
}

// Chained is what a session's chains save in a step on a device.
type Chained struct {
	Chains, Nodes  int   // that many nodes are done in that many pieces of work
	Alone, Chained int64 // bytes that the nodes move one by one, and that the chains move: DeviceChain.Bytes
}

// Chained counts the chains that a device runs.
func (s *Session) Chained() Chained {
	var c Chained
	for i := range s.root.steps {
		st := &s.root.steps[i]
		if st.link != nil {
			c.Nodes++
		}
		if st.work != nil {
			alone, chained := st.work.Bytes()
			c.Chains, c.Alone, c.Chained = c.Chains+1, c.Alone+alone, c.Chained+chained
		}
	}
	return c
}

// deviceChains marks chains of a device as loopChains does those of the host. Constants between the
// nodes of a chain do not part them.
func (f *frame) deviceChains(c Chainer) error {
	last := f.lastReaders()
	for i := 0; i < len(f.steps); i++ {
		links, n := f.linksFrom(c, i)
		if len(links) < 2 {
			continue
		}
		for k := range links {
			links[k].Stored = last[links[k].Out] >= i+n
		}
		work, err := c.Chain(links)
		if err != nil {
			return err
		}
		if work == nil {
			continue
		}
		steps := f.steps[i : i+n]
		steps[0].chain, steps[0].work = n, work
		at := 0
		for k := range steps {
			if steps[k].kernel != nil {
				steps[k].link = work.Link(at)
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

// linksFrom returns the nodes of the longest chain that begins with step i, and the number of steps
// that it has with the constants in between.
func (f *frame) linksFrom(c Chainer, i int) (links []Link, n int) {
	for j := i; j < len(f.steps); j++ {
		if j > i && f.steps[j].kernel == nil {
			continue
		}
		l, ok := f.linkOf(&f.steps[j])
		if !ok || len(links) > 0 && (length(l.Shape) != length(links[0].Shape) || !f.independentOf(i, j)) {
			break
		}
		if links = append(links, l); !c.Fits(links) {
			links = links[:len(links)-1]
			break
		}
		n = j + 1 - i
	}
	return links, n
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

// linkOf describes a step that may be part of a chain.
func (f *frame) linkOf(st *step) (Link, bool) {
	n := st.node
	switch {
	case st.kernel == nil || st.hostWhy != "" || st.planned.size > 0 || st.prep.Info.View ||
		len(st.prep.Info.Mutates) > 0 || len(n.Captures()) > 0:
		return Link{}, false
	case st.needsHost() || len(st.toDevice) > 0:
		return Link{}, false
	case len(n.Outputs) == 0 || n.Outputs[0] == graph.NoValue ||
		slices.ContainsFunc(n.Outputs[1:], func(v graph.ValueID) bool { return v != graph.NoValue }):
		return Link{}, false
	}
	out := n.Outputs[0]
	in, ok := f.knownShapes(n.Inputs)
	if root := f.timeline.Root[out]; !ok || f.shapes[out] == nil || root == graph.NoValue || f.offsets[root] < 0 {
		return Link{}, false
	}
	return Link{Kernel: st.kernel, Prep: st.prep, In: n.Inputs, Shapes: in, Out: out, Shape: f.shapes[out]}, true
}

// doDeviceChain has the device do a chain, and waits for it where somebody observes.
func (f *frame) doDeviceChain(work DeviceChain, steps []step) error {
	err := work.Run()
	if err == nil && f.observer() != nil {
		err = f.mem.Sync() // what is timed is the work, not the request for it
	}
	if err != nil {
		return fmt.Errorf("nodes %q to %q, which run as one: %w",
			steps[0].prep.Label, steps[len(steps)-1].prep.Label, err)
	}
	return nil
}
