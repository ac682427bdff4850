// Package memlimit says how much memory this process may still take, so that an allocation beyond
// it is an error in advance: otherwise the system kills the process without a message, or Go's
// runtime ends it with a trace.
//
// Four things bound a process, and the least of them counts: the machine's free memory and swap
// (proc_meminfo(5)), the limits of the control groups that it is in, of version 1 or 2 and of every
// group up to the root (Linux's Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst),
// and the resource limits of its address space and of its data (getrlimit(2): RLIMIT_AS,
// RLIMIT_DATA). A system that does not report any of these sets no bound.
//
// Memory is taken when it is touched, not when it is mapped. Memory that was mapped but not touched
// yet is announced with Promise, so that two large mappings do not count on the same free memory.
package memlimit
