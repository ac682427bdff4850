// Package ort runs models in ONNX Runtime and measures what memory it takes for them.
//
// The runtime is a C library that is opened at run time; see [Candidates] for where it is looked
// for. Its C API is a table of function pointers that only ever grows, so that a function's place
// in the table identifies it (onnxruntime_c_api.h, struct OrtApi).
//
// A fault in a C library ends the process that it is loaded in. Callers therefore do not use
// [Session] directly but a [Process]: a second process that loads the library, is told what to do
// over a pipe, and whose death is an error like any other ([CrashError]). Being fresh, it also says
// how much memory a model needs by the operating system's own count, without what the caller holds.
// The second process is the same program, started with arguments that make it call [Serve].
//
// # The second process
//
// With -e ort no session of memopt's runs: the file that apply writes goes to ONNX Runtime's C library in a
// second process, which is this program again (ort.Serve). Requests and answers are lines of JSON, tensors are
// files. A step's measure is the arena's MaxInUse less what was in use once the session was made; the arena
// rounds, so --ort-arena exact makes it split chunks to fit. What is predicted is what the simulation of the
// planner's anchors gives, live bytes and bytes of the arena, or, where a file has no backward half, the live
// bytes in the file's order. A crash of the library is an error of the caller's.
package ort
