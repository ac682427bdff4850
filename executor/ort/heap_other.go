//go:build !linux

package ort

import "errors"

// NewHeap has no memory to share on this system.
func NewHeap() (*Heap, error) { return nil, errors.New("processes share memory on Linux only") }
