// Package offload plans which values of a schedule move to host memory while they wait for their next
// reader, beside those that are kept and those that are recomputed.
//
// Three clocks run: computations, copies out (device to host) and copies in (host to device). A copy is
// queued at its place in the program, starts when the copies before it have ended and the computations
// before it too, and takes the latency of the link and its bytes divided by the rate of the link. A
// computation waits for a copy where the program says so:
//
//	compute h   offload h   compute z   wait h   free h   …   reload h   compute dz   wait h   compute dh
//
// Memory follows the program alone, however fast copies are. A value that moves out counts until it is
// freed behind the wait for its copy, and a value that comes back counts from the step that queues its
// copy. So the peak holds on any link; the rate decides the time alone, which is the makespan.
//
// A value on the host may be read back several times for one write (a clean copy). Views move with the
// memory that they share: they are freed before it goes and made anew behind it.
//
// # Search
//
// Recomputation within a larger budget than the given one leaves bytes that the link must move. Solve
// looks for the budget of recomputation whose schedule, with its moves, ends first. For one schedule,
// choose passes its runs in order with all three clocks. At a run above the budget it moves values that are read
// again last (Belady, "A study of replacement algorithms for a virtual-storage computer", 1966), out as early as
// the link is free. Those that are away come back in the order in which they are read, and the copy of the first
// one starts when it must for the last of all to be in time. Where no value can move in time, it takes the one
// that makes runs wait least, and the clocks of all that follows are later by that.
//
// # Bound
//
// At the first run of any task t, the values that are needed behind it are on the device, have moved, or
// are recomputed behind it. No more bytes have moved than the link carries in the time before t. With a
// price per byte no higher than the time that the link takes for one, delaying t for the sake of further
// copies costs at least as much as it saves, so the minimum cut that bounds recomputation bounds the makespan
// (see remat.Problem.MovedBound).
package offload
