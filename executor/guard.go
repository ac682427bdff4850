package executor

import (
	"memopt/graph"
)

// guardByte is what guards are made of.
const guardByte = 0xa5

// checkGuards looks at the guards behind the operands of a step that has run.
func (st *step) checkGuards() error {
	for _, list := range [][]graph.ValueID{st.node.Inputs, st.node.Outputs} {
		for _, v := range list {
			if v == graph.NoValue {
				continue
			}
			guard, err := st.f.space.readable(st.f.guardOf(v))
			if err != nil {
				return st.named(err)
			}
			for i, b := range guard {
				if b != guardByte {
					return st.prep.Errorf("byte %d behind value %q has been written to", i, st.f.g.ValueName(v))
				}
			}
		}
	}
	if st.planned.size > 0 && st.planned.offset >= 0 {
		end := st.planned.offset + st.planned.size
		guard, err := st.f.space.readable(st.f.s.base[end : end+guardBytes])
		if err != nil {
			return st.named(err)
		}
		for i, b := range guard {
			if b != guardByte {
				return st.prep.Errorf("byte %d behind the workspace has been written to", i)
			}
		}
	}
	return nil
}

// guardOf returns the guard behind a value's buffer, nil where it has none.
func (f *frame) guardOf(v graph.ValueID) []byte {
	root := f.timeline.Root[v]
	if root == graph.NoValue || f.bytes[root] <= 0 {
		return nil
	}
	if off := f.offsets[root]; off >= 0 {
		end := off + f.bytes[root]
		return f.s.base[end : end+guardBytes]
	}
	if b := f.blocks[root]; b != nil {
		return b[len(b)-guardBytes:]
	}
	return nil
}
