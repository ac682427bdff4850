//go:build !linux

package fileio

import "os"

func allocate(f *os.File, bytes int64) error { return f.Truncate(bytes) }
