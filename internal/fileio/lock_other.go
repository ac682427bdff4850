//go:build !unix || solaris || aix

package fileio

import "os"

// lockFile does nothing: this system has no such locks.
func lockFile(*os.File) error { return nil }
