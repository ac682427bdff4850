package ort

import (
	"encoding/json"
	"fmt"
	"io"

	"memopt/executor"
	"memopt/graph"
)

// Named is an input or an output.
type Named struct {
	Name   string
	Tensor *executor.Tensor
}

// The two processes exchange one JSON object per line. The child begins by naming its library; then
// it answers every request with one answer. Tensors travel in files, whose bytes are the elements.

// exchangeable reports whether tensors of a type can be exchanged with the runtime. Its element
// types have the numbers of TensorProto.DataType, as far as both go.
func exchangeable(d graph.DType) error {
	switch {
	case d == graph.String, d == graph.Complex64, d == graph.Complex128, d <= graph.Undefined, d > graph.Float8E5M2FNUZ:
		return fmt.Errorf("elements of type %v cannot be exchanged with ONNX Runtime: wanted float, integer or bool", d)
	}
	return nil
}

// Exchangeable reports whether tensors of a type can be given to the runtime and taken from it.
func Exchangeable(d graph.DType) bool { return exchangeable(d) == nil }

// Exactly one field of a request is set.
type request struct {
	Open    *openRequest    `json:"open,omitempty"`
	Step    *struct{}       `json:"step,omitempty"`
	Restart *struct{}       `json:"restart,omitempty"` // resets states to their first values
	Outputs *outputsRequest `json:"outputs,omitempty"`
	// Models that share states in the heap.
	Load   *loadRequest `json:"load,omitempty"`
	Turn   *turnRequest `json:"turn,omitempty"` // runs one of them once
	Unload *turnRequest `json:"unload,omitempty"`
}

// openRequest makes a session of a model.
type openRequest struct {
	Model   string  `json:"model"`
	Options Options `json:"options"`
	Inputs  []File  `json:"inputs"`
	States  []State `json:"states,omitempty"`
}

// State is an input that every step replaces by an output. The process keeps both in its own memory
// and binds the output to it, so that they take no part of the runtime's arena.
type State struct {
	Input  string `json:"input"`
	Output string `json:"output"`
	// InPlace makes the runtime write the output into the input's own buffer. The old value must
	// have no reader after the node that makes the next one has begun. Without InPlace, the output
	// has a second buffer, and the two change places after every step.
	InPlace bool `json:"in_place"`
}

// loadRequest opens one more model. Its inputs, states and the outputs that are wanted lie in the
// heap.
type loadRequest struct {
	Model   string        `json:"model"`
	Options Options       `json:"options"`
	Inputs  []Place       `json:"inputs,omitempty"`
	States  []SharedState `json:"states,omitempty"`
	Outputs []Place       `json:"outputs,omitempty"`
}

// turnRequest is about one of the models that are loaded.
type turnRequest struct {
	Model int `json:"model"`
}

// Place is a tensor in the heap.
type Place struct {
	Name  string      `json:"name"`
	DType graph.DType `json:"dtype"`
	Shape []int       `json:"shape"`
	At    int64       `json:"at"`
}

// SharedState is a state of a model that shares it with others.
type SharedState struct {
	ID int `json:"id"` // its name for all models; small numbers
	// Output is "" for a state that the model only reads, Input for one that it only writes.
	State
	DType graph.DType `json:"dtype"`
	Shape []int       `json:"shape"`
	// At has the places of its buffers, a negative number for a missing one. A state begins in the
	// first. Every run of a model for which it is not InPlace moves it to the other.
	At [2]int64 `json:"at"`
}

// outputsRequest writes the outputs of the last step into a folder.
type outputsRequest struct {
	Dir string `json:"dir"`
}

// File is a tensor in a file.
type File struct {
	Name  string      `json:"name"`
	DType graph.DType `json:"dtype"`
	Shape []int       `json:"shape"`
	Path  string      `json:"path"`
}

// Exactly one field of an answer is set.
type answer struct {
	Hello   *Info         `json:"hello,omitempty"`
	Opened  *Opened       `json:"opened,omitempty"`
	Step    *Step         `json:"step,omitempty"`
	Done    bool          `json:"done,omitempty"` // of a request without another answer
	Outputs []File        `json:"outputs,omitempty"`
	Loaded  *Loaded       `json:"loaded,omitempty"`
	Missing *missing      `json:"missing,omitempty"`
	Runtime *RuntimeError `json:"runtime,omitempty"`
	Fault   string        `json:"fault,omitempty"` // an error of another kind
}

type missing struct {
	Reason string `json:"reason"`
}

// Info is the library that is used.
type Info struct {
	Path    string `json:"path"` // of the library's file
	Version string `json:"version"`
	Doubt   string `json:"doubt,omitempty"` // a reason to distrust the file
}

// Opened is the memory that a session took before its first step.
type Opened struct {
	Arena    Stats `json:"arena"`
	Resident int64 `json:"resident"` // memory of the process, in bytes; inputs included
}

// Loaded is the number of a model that shares states with others, and the memory of all of them.
type Loaded struct {
	Model int   `json:"model"`
	Arena Stats `json:"arena"`
}

// Step is the time and memory of one step.
type Step struct {
	Nanoseconds int64 `json:"ns"`
	Arena       Stats `json:"arena"` // after it, its outputs alive
	// Resident is the most that the process had in memory during the step, in bytes; 0 if the
	// system does not report it.
	Resident int64 `json:"resident"`
}

// reply writes an answer. If it is not read, the caller's next read ends.
func reply(w io.Writer, a answer) {
	data, err := json.Marshal(a)
	if err != nil {
		data, _ = json.Marshal(answer{Fault: err.Error()})
	}
	w.Write(append(data, '\n'))
}
