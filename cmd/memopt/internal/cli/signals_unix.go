//go:build unix

package cli

import "syscall"

// Batch systems send it some time before they end a job.
func init() { asks[syscall.SIGUSR1] = errWarned }
