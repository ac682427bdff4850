// Package snapshot reads snapshots of PyTorch's allocator, as torch.cuda.memory._dump_snapshot writes them, and replays
// their events through sim/allocator: from the memory at the first event, which follows from that at the end, to the
// last one or to the moment when memory ran out.
package snapshot
