// Package xla simulates the memory of programs that XLA compiled: which values of a module (package hlo) share memory,
// when each is live, and the peak, as XLA's buffer assignment for the CPU counts them. Sizes are those of one rank,
// since a partitioned module has the shapes of one partition.
//
// [Run] lays the instructions of all computations that run as such in one row, the schedule, with those of a called
// computation before its call. Fusions and the operators of reductions are single steps. The rules follow
// github.com/openxla/xla: xla/service/hlo_dataflow_analysis.cc (who forwards, who works in place),
// xla/hlo/utils/hlo_live_range.cc (from when to when), xla/service/buffer_assignment.cc (results and donated inputs
// have allocations of their own, with temporaries in them where they are not in use) and
// xla/service/heap_simulator.cc (temporaries in one heap, aligned to 64 bytes).
//
// A module from before XLA's optimizations has no fusions, no copies and no order. Run then inlines its calls, finds
// the values that loops compute for their readers without storing them, and gives the carries of loops memory of their
// own where copy insertion would. Values that move to the host take none of the device.
package xla
