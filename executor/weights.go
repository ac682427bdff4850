package executor

import (
	"fmt"
	"runtime"
	"unsafe"

	"memopt/graph"
	"memopt/graph/op"
)

// loadWeights gives every initializer its contents, and every constant node its output. Contents
// that the file holds in the form that the executor needs stay there.
func (f *frame) loadWeights() error {
	if f.s.virtual {
		for i := range f.steps {
			if op.Of(f.steps[i].node.Kind).Has(op.ConstantRole) {
				f.steps[i].kernel = nil
			}
		}
		return nil
	}
	for i := range f.g.Values {
		v := &f.g.Values[i]
		if v.SparseData != nil {
			return &Unsupported{fmt.Errorf("initializer %q is sparse; the executor has dense tensors only", v.Name)}
		}
		if v.Data == nil || v.Data.DType == graph.String || f == f.s.root && f.s.states.stored[i] {
			continue
		}
		if err := f.loadWeight(graph.ValueID(i), v.Data); err != nil {
			return err
		}
	}
	for i := range f.steps {
		st := &f.steps[i]
		if !op.Of(st.node.Kind).Has(op.ConstantRole) {
			continue
		}
		if err := f.space.runConstant(st); err != nil {
			return err
		}
		st.kernel = nil
	}
	return nil
}

func (f *frame) loadWeight(id graph.ValueID, data *graph.TensorData) error {
	t := f.vals[id]
	n, err := data.Elements()
	if err != nil {
		return err
	}
	t.DType = data.DType
	t.Shape = t.Shape[:0]
	for _, d := range data.Dims {
		t.Shape = append(t.Shape, int(d))
	}
	want, ok := Bytes(t.DType, t.Shape)
	if !ok || data.DType.Bits() == 0 {
		return &Unsupported{fmt.Errorf("initializer %q: the executor has no tensors like %v", data.Name, t)}
	}
	if n == 0 {
		return nil
	}
	if data.Source == nil {
		return fmt.Errorf("initializer %q has no contents", data.Name)
	}
	raw, err := data.Source.Bytes()
	if err != nil {
		return fmt.Errorf("initializer %q: %w", data.Name, err)
	}
	if len(raw) != want {
		return fmt.Errorf("initializer %q (%v): has %d bytes, wanted %d", data.Name, t, len(raw), want)
	}
	aligned := uintptr(unsafe.Pointer(unsafe.SliceData(raw)))%8 == 0
	return f.space.load(id, raw, aligned)
}

// touch brings a mapping's pages into memory, so that they do not count for the first step.
func touch(data []byte) {
	const page = 4096
	var sum byte
	for i := 0; i < len(data); i += page {
		sum += data[i]
	}
	runtime.KeepAlive(sum) // else the loads could be optimized away
}

// weightMemory gives constant nodes memory that stays for the session.
type weightMemory struct{ a *Arena }

func (m weightMemory) Output(_, n int) ([]byte, error) { return m.a.Alloc(n) }
func (m weightMemory) Scratch(n int) ([]byte, error)   { return m.a.Alloc(n) }
