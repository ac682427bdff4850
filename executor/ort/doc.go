// Package ort runs models in ONNX Runtime and measures their memory.
//
// The runtime is a C library that is opened at run time; see [Candidates] for the search. Its C API
// is a table of function pointers that only grows, so that a function's place in the table
// identifies it (onnxruntime_c_api.h, struct OrtApi).
//
// A fault in a C library ends the process that it is loaded in. Callers therefore do not use
// [Session] directly but a [Process]: a second process that loads the library, gets requests over a
// pipe, and whose death is an error like any other ([CrashError]). Being fresh, it also gives the
// memory of a model by the operating system's own count, without the memory of the caller. The
// second process is the same program, started with arguments that make it call [Serve].
//
// # The second process
//
// For ONNX Runtime no session of memopt's runs: the file of the rewritten model goes to ONNX Runtime's C
// library in a second process, which is this program again (Serve). Requests and answers are lines of JSON,
// tensors are files. The measure of a step is the arena's MaxInUse less the bytes in use once the session was
// made. The arena rounds; options can make it split chunks to fit. The prediction is the result of the
// simulation for the planner's anchors, live bytes and bytes of the arena, or, for a file without a backward
// half, the live bytes in the file's order. A crash of the library is an error of the caller's.
package ort
