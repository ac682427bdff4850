// Package snapshot explains a snapshot of PyTorch's allocator: which lines of a program held the memory when it ran
// out, or when the most was in use, and which change would help, tried by a replay of the events.
package snapshot
