//go:build linux && (amd64 || arm64) && !nodl

package ort

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"memopt/executor"
	"memopt/graph"
)

// Feed is inputs as the runtime takes them, and the memory of outputs that are bound. It refers to
// the memory of the tensors, which stays where it is until the feed is closed.
type Feed struct {
	session *Session
	names   []*byte
	values  []uintptr
	bound   []uintptr // by output: a value in the caller's memory; 0 if the runtime makes one
	pinned  runtime.Pinner
}

// Feed prepares inputs for any number of runs.
func (s *Session) Feed(inputs []Named) (*Feed, error) {
	f := &Feed{session: s, bound: make([]uintptr, len(s.outputs))}
	for _, in := range inputs {
		v, err := f.value(in.Tensor)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		f.names, f.values = append(f.names, cString(in.Name)), append(f.values, v)
	}
	return f, nil
}

// Bind has every run with this feed write an output into the memory of a tensor, whose type and
// shape must be those of the output. That memory may be an input's: the runtime does not know, and
// a node that runs after the one that makes the output finds the new value in the input.
func (f *Feed) Bind(output string, t *executor.Tensor) error {
	at := slices.Index(f.session.outputs, output)
	if at < 0 {
		return fmt.Errorf("output %q: the model has no such output", output)
	}
	v, err := f.value(t)
	if err != nil {
		return fmt.Errorf("output %q: %w", output, err)
	}
	f.session.lib.api.release(fnReleaseValue, f.bound[at])
	f.bound[at] = v
	return nil
}

// value makes a value of the runtime that lies in the memory of a tensor.
func (f *Feed) value(t *executor.Tensor) (value uintptr, err error) {
	if err := exchangeable(t.DType); err != nil {
		return 0, err
	}
	if n, ok := executor.Bytes(t.DType, t.Shape); !ok || n != len(t.Data) {
		return 0, fmt.Errorf("%v has %d bytes of data", t, len(t.Data))
	}
	shape := make([]int64, len(t.Shape)+1) // one more, so that a scalar's has an address
	for i, d := range t.Shape {
		shape[i] = int64(d)
	}
	data := t.Data
	if len(data) == 0 {
		data = make([]byte, 8)
	}
	f.pinned.Pin(&data[0])
	err = f.session.lib.api.call(fnCreateTensorWithData, f.session.tensors, uintptr(unsafe.Pointer(&data[0])),
		uintptr(len(t.Data)),
		uintptr(unsafe.Pointer(&shape[0])), uintptr(len(t.Shape)), uintptr(t.DType), uintptr(unsafe.Pointer(&value)))
	return value, err
}

// Close gives the values back, not the tensors' memory.
func (f *Feed) Close() {
	for _, v := range slices.Concat(f.values, f.bound) {
		f.session.lib.api.release(fnReleaseValue, v)
	}
	f.values, f.bound = nil, nil
	f.pinned.Unpin()
}

// Results are the outputs of a run, in memory of the runtime or in that which they are bound to.
type Results struct {
	session *Session
	values  []uintptr
	bound   []uintptr // as in the feed, which must stay open
}

// Run executes the model once and returns its outputs, in the order of [Session.Outputs]. The
// caller closes them.
func (s *Session) Run(f *Feed) (*Results, error) {
	r := &Results{session: s, values: slices.Clone(f.bound), bound: f.bound}
	names := make([]*byte, len(s.outputs))
	for i, name := range s.outputs {
		names[i] = cString(name)
	}
	const defaults = 0 // no run options
	err := s.lib.api.call(fnRun, s.handle, defaults,
		uintptr(unsafe.Pointer(unsafe.SliceData(f.names))), uintptr(unsafe.Pointer(unsafe.SliceData(f.values))),
		uintptr(len(f.values)),
		uintptr(unsafe.Pointer(unsafe.SliceData(names))), uintptr(len(names)),
		uintptr(unsafe.Pointer(unsafe.SliceData(r.values))))
	runtime.KeepAlive(f)
	if err != nil {
		r.Close()
		return nil, asPhase(PhaseRun, err)
	}
	return r, nil
}

// Tensor returns output i. Its memory is the runtime's and valid until Close.
func (r *Results) Tensor(i int) (*executor.Tensor, error) {
	t, err := r.tensor(r.values[i])
	if err != nil {
		return nil, fmt.Errorf("output %q: %w", r.session.outputs[i], err)
	}
	return t, nil
}

func (r *Results) tensor(value uintptr) (*executor.Tensor, error) {
	a := r.session.lib.api
	var kind int32
	if err := a.call(fnGetValueType, value, uintptr(unsafe.Pointer(&kind))); err != nil {
		return nil, err
	}
	if kind != 1 { // ONNX_TYPE_TENSOR
		return nil, fmt.Errorf("is a sequence, a map or empty: only tensors are compared")
	}
	var info uintptr
	if err := a.call(fnGetTensorTypeAndShape, value, uintptr(unsafe.Pointer(&info))); err != nil {
		return nil, err
	}
	defer a.release(fnReleaseTensorTypeAndShape, info)
	var dtype int32
	var rank uintptr
	if err := a.call(fnGetTensorElementType, info, uintptr(unsafe.Pointer(&dtype))); err != nil {
		return nil, err
	}
	if err := a.call(fnGetDimensionsCount, info, uintptr(unsafe.Pointer(&rank))); err != nil {
		return nil, err
	}
	dims := make([]int64, rank+1)
	if err := a.call(fnGetDimensions, info, uintptr(unsafe.Pointer(&dims[0])), rank); err != nil {
		return nil, err
	}
	t := &executor.Tensor{DType: graph.DType(dtype), Shape: make([]int, rank)}
	for i := range t.Shape {
		t.Shape[i] = int(dims[i])
	}
	if err := exchangeable(t.DType); err != nil {
		return nil, err
	}
	var data uintptr
	if err := a.call(fnGetTensorMutableData, value, uintptr(unsafe.Pointer(&data))); err != nil {
		return nil, err
	}
	if n, ok := executor.Bytes(t.DType, t.Shape); ok && n > 0 {
		t.Data = unsafe.Slice((*byte)(address(data)), n)
	}
	return t, nil
}

// Copy returns output i in Go's memory.
func (r *Results) Copy(i int) (*executor.Tensor, error) {
	t, err := r.Tensor(i)
	if err == nil {
		t.Data = slices.Clone(t.Data)
	}
	return t, err
}

// Close gives the outputs' memory back to the runtime, as far as it is the runtime's.
func (r *Results) Close() {
	for i, v := range r.values {
		if v != r.bound[i] {
			r.session.lib.api.release(fnReleaseValue, v)
		}
		r.values[i] = 0
	}
}
