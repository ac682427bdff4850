// Package doctor says what a machine and its environment do to memory and speed: how many cores and
// how much memory a process may use, which variables hold libraries back, which libraries there
// are, how glibc's allocator and ONNX Runtime's arena are set. Each finding has its value, its
// effect, what to do and where that is written.
//
//	m := doctor.This()
//	m.Libraries = doctor.FindLibraries(ctx, nil)
//	for _, f := range m.Examine() { … }
//
// A Machine is a tree of files and an environment, so that other machines can be examined as well.
// Try runs a command with one variable changed at a time and measures what that does.
package doctor
