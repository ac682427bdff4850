package executor

import (
	"slices"

	"memopt/graph"
)

// guardByte fills the guards.
const guardByte = 0xa5

// checkGuards looks at the guards behind the operands of a step that has run.
func (st *step) checkGuards() error {
	for _, list := range [][]graph.ValueID{st.node.Inputs, st.node.Outputs} {
		for _, v := range list {
			if v == graph.NoValue {
				continue
			}
			i, err := st.touched(st.f.guardOf(v))
			if err != nil {
				return err
			}
			if i >= 0 {
				return st.prep.Errorf("byte %d behind value %q has been written to", i, st.f.g.ValueName(v))
			}
		}
	}
	if st.planned.size > 0 && st.planned.offset >= 0 {
		end := st.planned.offset + st.planned.size
		i, err := st.touched(st.f.s.base[end : end+guardBytes])
		if err != nil {
			return err
		}
		if i >= 0 {
			return st.prep.Errorf("byte %d behind the workspace has been written to", i)
		}
	}
	return nil
}

// touched returns the first byte of a guard that has been written to, or -1.
func (st *step) touched(guard []byte) (int, error) {
	guard, err := st.f.space.readable(guard)
	if err != nil {
		return -1, st.named(err)
	}
	return slices.IndexFunc(guard, func(b byte) bool { return b != guardByte }), nil
}

// guardOf returns the guard behind a value's buffer, or nil.
func (f *frame) guardOf(v graph.ValueID) []byte {
	root, base := f.timeline.Root[v], f.s.base
	if r := f.hostRoot(v); r != graph.NoValue && f.mem == (hostMemory{}) {
		root, base = r, f.s.host.base
	}
	if root == graph.NoValue || f.bytes[root] <= 0 {
		return nil
	}
	if off := f.offsets[root]; off >= 0 {
		end := off + f.bytes[root]
		return base[end : end+guardBytes]
	}
	if b := f.blocks[root]; b != nil {
		return b[len(b)-guardBytes:]
	}
	return nil
}
