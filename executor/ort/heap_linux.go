package ort

import (
	"os"

	"golang.org/x/sys/unix"
)

// NewHeap makes an empty heap.
func NewHeap() (*Heap, error) {
	fd, err := unix.MemfdCreate("memopt-states", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return &Heap{file: os.NewFile(uintptr(fd), "memopt-states")}, nil
}
