package executor

import (
	"slices"

	"memopt/graph/live"
)

// LibraryWork is work of a kernel that a vendor's library can do, by an algorithm with a workspace
// that is part of the kernel's.
type LibraryWork struct {
	Library, What string
	// Own is the reason why the device's own kernels compute it, "" if the library does.
	Own string
	// Workspace is the bytes that the library is lent, 0 if it does not compute the node. Least is
	// the same for the algorithm with the least workspace (cudnn_conv_use_max_workspace=0).
	Workspace, Least int64
}

// LibraryUser is a kernel with such work.
type LibraryUser interface {
	// LibraryWork lists the work of a run with operands of these shapes, as for Workspacer.
	LibraryWork(in, out [][]int) []LibraryWork
}

// LibraryNode is a node with work that a library does, or that it could do.
type LibraryNode struct {
	Label string
	LibraryWork
}

// LibraryNodes lists the work of the main graph's nodes that libraries can do, in order; that of
// nodes whose shapes are not known before the run is left out.
func (s *Session) LibraryNodes() []LibraryNode {
	var list []LibraryNode
	for i := range s.root.steps {
		st := &s.root.steps[i]
		for _, w := range s.root.libraryWork(st) {
			list = append(list, LibraryNode{st.prep.Label, w})
		}
	}
	return list
}

func (f *frame) libraryWork(st *step) []LibraryWork {
	k, ok := st.kernel.(LibraryUser)
	if !ok || st.hostWhy != "" {
		return nil
	}
	in, known := f.knownShapes(st.node.Inputs)
	out, alsoKnown := f.knownShapes(st.node.Outputs)
	if !known || !alsoKnown {
		return nil
	}
	return k.LibraryWork(in, out)
}

// leastLive returns the peak of live bytes that the frame would have if libraries were limited to
// the least workspace.
func (f *frame) leastLive(p *live.Program, peak int64) (int64, error) {
	least := *p
	least.Bytes = slices.Clone(p.Bytes)
	changed := false
	for i := range f.steps {
		st := &f.steps[i]
		var now, then int64
		for _, w := range f.libraryWork(st) { // one at a time, in the same memory
			now, then = max(now, w.Workspace), max(then, w.Least)
		}
		if id := st.planned.value; then < now {
			least.Bytes[id] -= now - then
			changed = true
		}
	}
	if !changed {
		return peak, nil
	}
	t, err := least.Simulate()
	if err != nil {
		return 0, err
	}
	return t.Peak.Bytes, nil
}
