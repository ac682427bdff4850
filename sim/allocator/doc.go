// Package allocator hands out a device's memory by the rules of the allocators that runtimes have there, and counts
// the bytes that each takes from the device: PyTorch's caching allocator ([Caching]), and the arena of TensorFlow,
// JAX and ONNX Runtime ([BFC]). [Replay] plays the events of a step through one of them: a step that takes fewer
// bytes than the device has may still run out of memory, since free blocks lie where no request fits.
//
// The rules of [Caching] are those of c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.cpp of PyTorch
// 2.15, in the same order, since the order decides which of two blocks is taken. Unlike there, memory has no contents,
// and the work of a stream is done when [Caching.Done] says so.
package allocator
