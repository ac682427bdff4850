//go:build !linux

package memlimit

// rlimits returns nil: the usage of a limit is read in Linux's format.
func rlimits() []rlimit { return nil }
