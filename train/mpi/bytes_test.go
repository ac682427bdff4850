package mpi_test

import "unsafe"

// bytesOf makes a buffer of n numbers.
func bytesOf[T float32 | float64](n int, next func() T) []byte {
	list := make([]T, n)
	for i := range list {
		list[i] = next()
	}
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), n*int(unsafe.Sizeof(zero)))
}

// numbers is a buffer as numbers.
func numbers[T float32 | float64](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}
