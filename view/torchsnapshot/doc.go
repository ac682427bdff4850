// Package torchsnapshot writes a predicted step as a snapshot of PyTorch's memory allocator, as
// torch.cuda.memory._dump_snapshot writes it of a run: for the page pytorch.org/memory_viz
// (torch/utils/viz/MemoryViz.js) and for torch.cuda._memory_viz.
//
// A snapshot is a pickled dict. Its device_traces are the events of the allocator, here those that the
// plan implies: the blocks of a node's outputs are allocated when it begins, and freed when the node
// after the last one that needs them begins. Its segments are the memory in the end, tiled by blocks; the
// page plays the events backwards from there. Frames, which name lines of source in a run, here name the
// value in a block, its last reader, its producer and the layer.
//
// Requirements of the page's reader: a pickle of protocol 2 to 4 of the opcodes that [pickler] has, lists
// in batches, free_completed right behind free_requested, every address in a segment, and, since
// categories are used, one event of the category "unknown". It hides frames whose texts have words of
// Python's and PyTorch's own sources, for example "/python"; [visible] keeps ours readable.
package torchsnapshot
