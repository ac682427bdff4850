package ort

import (
	"fmt"
	"strings"
)

// MissingError means that no usable ONNX Runtime was found.
type MissingError struct {
	// Reason is why a library that was found cannot be used; "" if no library was found.
	Reason string
}

// howToGet tells how a user gets the library.
const howToGet = "get it with pip install onnxruntime, npm install onnxruntime-node (" + oldestRelease +
	" or later), the distribution's libonnxruntime, or an archive from ONNX Runtime's release " +
	"page; set MEMOPT_ORT_LIB=/path/to/libonnxruntime.so if it is installed elsewhere"

// Error names the missing library and the ways to get it.
func (e *MissingError) Error() string {
	if e.Reason == "" {
		return "ONNX Runtime is not installed: libonnxruntime.so was not found; " + howToGet
	}
	return e.Reason + "; " + howToGet
}

// Phases of a [RuntimeError].
const (
	PhaseOpen = "open" // the model was refused
	PhaseRun  = "run"  // a step failed
	PhaseCall = "call" // anything else
)

// RuntimeError is an error that ONNX Runtime returned.
type RuntimeError struct {
	Phase   string `json:"phase"`
	Code    int    `json:"code"` // OrtErrorCode; 0 where the error is not the library's own
	Message string `json:"message"`
}

// Error returns the runtime's message.
func (e *RuntimeError) Error() string {
	text := strings.Join(strings.Fields(e.Message), " ")
	switch e.Phase {
	case PhaseOpen:
		return "ONNX Runtime refuses the model: " + text
	case PhaseRun:
		return "ONNX Runtime cannot run the model: " + text
	}
	return "ONNX Runtime: " + text
}

// OutOfMemory reports whether the runtime had no memory for a value.
func (e *RuntimeError) OutOfMemory() bool {
	return strings.Contains(e.Message, "Failed to allocate memory") || strings.Contains(e.Message, "bad_alloc") ||
		strings.Contains(e.Message, "Available memory of")
}

// CrashError means that the ONNX Runtime process ended before its work was done.
type CrashError struct {
	Cause string // a signal or an exit status
	While string // the interrupted request
	Said  string // the end of its error stream, on one line
}

// Killed reports whether the process was killed, as the system does when memory runs out.
func (e *CrashError) Killed() bool { return strings.Contains(e.Cause, "killed") }

// Error describes how the process died.
func (e *CrashError) Error() string {
	text := fmt.Sprintf("ONNX Runtime died in a process of its own while it %s: %s", e.While, e.Cause)
	if e.Killed() {
		text += " (the system kills a process when memory runs out)"
	}
	if e.Said != "" {
		text += "; its last output: " + e.Said
	}
	return text
}
