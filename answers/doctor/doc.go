// Package doctor examines the effects of a machine and its environment on memory and speed: how
// many cores and how much memory a process may use, which variables hold libraries back, which
// libraries there are, how glibc's allocator and ONNX Runtime's arena are set. Each finding has its
// value, its effect, a remedy and a source; for example a CPU quota of 2 on 8 cores, with the
// advice to set GOMAXPROCS.
//
//	m := doctor.This()
//	m.Libraries = doctor.FindLibraries(ctx, nil)
//	for _, f := range m.Examine() { … }
//
// A Machine is a tree of files and an environment, so that other machines can be examined as well.
// Try runs a command with one variable changed at a time and measures the effect.
package doctor
