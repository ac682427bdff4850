package ort

import (
	"encoding/json"
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

// Exactly one field of a request is set.
type request struct {
	Open    *openRequest    `json:"open,omitempty"`
	Step    *struct{}       `json:"step,omitempty"`
	Outputs *outputsRequest `json:"outputs,omitempty"`
}

// openRequest makes a session of a model.
type openRequest struct {
	Model   string  `json:"model"`
	Options Options `json:"options"`
	Inputs  []File  `json:"inputs"`
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
	Outputs []File        `json:"outputs,omitempty"`
	Missing *missing      `json:"missing,omitempty"`
	Runtime *RuntimeError `json:"runtime,omitempty"`
	Fault   string        `json:"fault,omitempty"` // an error of another kind
}

type missing struct {
	Reason string `json:"reason"`
}

// Info says which library is used.
type Info struct {
	Path    string `json:"path"` // of the library's file
	Version string `json:"version"`
	Doubt   string `json:"doubt,omitempty"` // a reason to distrust the file
}

// Opened says what a session took before its first step.
type Opened struct {
	Arena    Stats `json:"arena"`
	Resident int64 `json:"resident"` // memory of the process, in bytes; inputs included
}

// Step says what one step took.
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
