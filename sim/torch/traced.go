package torch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"memopt/graph"
	"memopt/graph/modules"
)

// StepFormat and StepVersion name the files of steps that PyTorch itself has traced on fake tensors
// (python/src/memopt/torch/_trace.py, docs/schemas/step.schema.json).
const (
	StepFormat  = "memopt-step"
	StepVersion = 1
)

// Traced is a training step as PyTorch traced it.
type Traced struct {
	*Program
	Model      string // the class of the model
	Device     string // "cpu" or "cuda"
	Parameters map[string][]int64
	Inputs     []TracedInput
	// Bytes that are held before the step.
	ParameterBytes, BufferBytes, InputBytes int64
	Kernels                                 []Kernel // by step
}

// TracedInput is a tensor that the step is given.
type TracedInput struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	Shape []int64 `json:"shape"`
}

// Kernel is the work of a step.
type Kernel struct {
	FLOPs, Moved int64 // Moved is the bytes of the tensors that it reads and writes
	Type         graph.DType
}

// stepFile is the JSON of a traced step.
type stepFile struct {
	Format         string             `json:"format"`
	Version        int                `json:"version"`
	Model          string             `json:"model"`
	Torch          string             `json:"torch"`
	Device         string             `json:"device"`
	ParameterBytes int64              `json:"parameter_bytes"`
	BufferBytes    int64              `json:"buffer_bytes"`
	InputBytes     int64              `json:"input_bytes"`
	Modules        []modules.Entry    `json:"modules"`
	Calls          []stepCall         `json:"calls"`
	Parameters     map[string][]int64 `json:"parameters"`
	Inputs         []TracedInput      `json:"inputs"`
	Storages       []stepStorage      `json:"storages"`
	Backward       int                `json:"backward"`
	Steps          []stepOp           `json:"steps"`
}

type stepCall struct {
	Module string `json:"module"`
	Outer  int32  `json:"outer"`
}

type stepStorage struct {
	Bytes  int64 `json:"bytes"`
	Held   bool  `json:"held"`
	Kept   bool  `json:"kept"`
	Cached bool  `json:"cached"`
}

// stepOp is a step in the file. Call and Of are nil if the step has no call or forward step.
type stepOp struct {
	Op     string      `json:"op"`
	Call   *int32      `json:"call"`
	Of     *int32      `json:"of"`
	Reads  []StorageID `json:"reads"`
	Makes  []StorageID `json:"makes"`
	Work   int64       `json:"work"`
	FLOPs  int64       `json:"flops"`
	Moved  int64       `json:"moved"`
	DType  string      `json:"dtype"`
	Saved  bool        `json:"saved"`
	Keeps  int8        `json:"keeps"`
	Packed [][4]int64  `json:"packed"` // storage, elements, bytes, 1 if strided
	Random bool        `json:"random"`
	Moves  bool        `json:"moves"`
}

// IsStep reports whether a file begins as one of a traced step does.
func IsStep(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	return bytes.HasPrefix(head, []byte("{")) && bytes.Contains(head[:min(len(head), 256)], []byte(`"`+StepFormat+`"`))
}

// ReadStep reads a step that PyTorch traced. The error says which part of the file is wrong.
func ReadStep(r io.Reader) (*Traced, error) {
	f := &stepFile{}
	if err := json.NewDecoder(r).Decode(f); err != nil {
		return nil, fmt.Errorf("wanted a step as memopt.torch.trace writes it: %w", err)
	}
	if f.Format != StepFormat || f.Version != StepVersion {
		return nil, fmt.Errorf("is of format %q, version %d: wanted %q, version %d", f.Format, f.Version, StepFormat,
			StepVersion)
	}
	t := &Traced{Program: &Program{Stacked: stacked(f.Torch), Early: true, Backward: f.Backward}, Model: f.Model,
		Device: f.Device, Parameters: f.Parameters, Inputs: f.Inputs, ParameterBytes: f.ParameterBytes,
		BufferBytes: f.BufferBytes, InputBytes: f.InputBytes}
	if err := t.storages(f); err != nil {
		return nil, err
	}
	if err := t.calls(f); err != nil {
		return nil, err
	}
	if f.Backward < 1 || f.Backward >= len(f.Steps) {
		return nil, fmt.Errorf("backward is %d of %d steps: wanted a forward and a backward half", f.Backward,
			len(f.Steps))
	}
	for i := range f.Steps {
		if err := t.step(i, &f.Steps[i]); err != nil {
			return nil, fmt.Errorf("step %d (%s): %w", i, f.Steps[i].Op, err)
		}
	}
	return t, nil
}

// storages reads the storages; all together must be less than 2^62 bytes.
func (t *Traced) storages(f *stepFile) error {
	var total int64
	for i, s := range f.Storages {
		if s.Bytes < 0 || total > math.MaxInt64/2-s.Bytes {
			return fmt.Errorf("storage %d has %d bytes", i, s.Bytes)
		}
		total += s.Bytes
		t.Storages = append(t.Storages, Storage(s))
		if s.Held {
			t.Held += s.Bytes
		}
	}
	return nil
}

// calls reads the modules and their calls.
func (t *Traced) calls(f *stepFile) error {
	list := make([]modules.Call, len(f.Calls))
	names := make([]string, len(f.Calls))
	for i, c := range f.Calls {
		if c.Outer < -1 || int(c.Outer) >= i {
			return fmt.Errorf("call %d (%s) lies in call %d, which does not come before it", i, c.Module, c.Outer)
		}
		list[i].Outer, names[i] = c.Outer, c.Module
	}
	t.Tree = modules.Traced(f.Torch, list, names, f.Modules)
	return nil
}

// step adds a step.
func (t *Traced) step(i int, s *stepOp) error {
	call, of := int32(-1), int32(-1)
	if s.Call != nil {
		call = *s.Call
	}
	if s.Of != nil {
		of = *s.Of
	}
	back := i >= t.Backward
	switch {
	case call < -1 || int(call) >= len(t.Tree.Calls):
		return fmt.Errorf("is of call %d, the file has %d", call, len(t.Tree.Calls))
	case back && (of < 0 || int(of) >= t.Backward), !back && of != -1:
		return fmt.Errorf("is the backward of step %d, the forward half has %d", of, t.Backward)
	case s.Work < 0 || s.FLOPs < 0 || s.Moved < 0 || s.Work > math.MaxInt64/2:
		return fmt.Errorf("takes %d bytes, %d operations, %d bytes moved", s.Work, s.FLOPs, s.Moved)
	}
	for _, list := range [2][]StorageID{s.Reads, s.Makes} {
		for _, id := range list {
			if id < 0 || int(id) >= len(t.Storages) {
				return fmt.Errorf("has storage %d, the file has %d", id, len(t.Storages))
			}
		}
	}
	packed, err := t.packed(s)
	if err != nil {
		return err
	}
	t.Steps = append(t.Steps, Step{Op: s.Op, Packed: packed, Node: graph.NoNode, Call: call, Backward: back,
		Of:    max(of, 0),
		Reads: s.Reads, Makes: s.Makes, Work: s.Work, Saves: s.Saved, Keeps: Keeping(s.Keeps), Random: s.Random,
		Moves: s.Moves})
	t.Kernels = append(t.Kernels, Kernel{FLOPs: s.FLOPs, Moved: s.Moved, Type: graph.Float32})
	if d, ok := graph.ParseDType(s.DType); ok {
		t.Kernels[i].Type = d
	}
	return nil
}

// packed reads the tensors that autograd saves for the backward of a step.
func (t *Traced) packed(s *stepOp) (out []Packed, err error) {
	for _, x := range s.Packed {
		if x[0] < 0 || x[0] >= int64(len(t.Storages)) || x[1] < 0 || x[2] < 0 || x[2] > math.MaxInt64/2 {
			return nil, fmt.Errorf("saves %d elements in %d bytes of storage %d, the file has %d storages", x[1],
				x[2], x[0], len(t.Storages))
		}
		out = append(out, Packed{StorageID(x[0]), x[1], x[2], x[3] != 0})
	}
	return out, nil
}
