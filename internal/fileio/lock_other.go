//go:build !unix || solaris || aix

package fileio

import "os"

// lockFile has no effect: this system has no such locks.
func lockFile(*os.File) error { return nil }
