//go:build !nodl

package mpi

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keepSignals leaves signals to Go while do opens and starts a library. The threads that it starts
// inherit a mask that blocks them, and handlers that it installs are taken out again: MPICH takes
// SIGUSR1, on whatever stack a thread has, which ends a Go program, and UCX takes the signals that
// Go turns into panics. Open MPI has handlers that print traces; opal_signal lists them.
func keepSignals(do func() error) error {
	if _, set := os.LookupEnv("OMPI_MCA_opal_signal"); !set {
		defer os.Unsetenv("OMPI_MCA_opal_signal")
		os.Setenv("OMPI_MCA_opal_signal", "")
	}
	unblock, err := blockSignals()
	if err != nil {
		return err
	}
	defer unblock()
	defer signalHandlers().restore()
	return do()
}

// blockSignals blocks the signals that come from outside for the calling thread, and for those that
// it starts until unblock is called.
func blockSignals() (unblock func(), err error) {
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	for _, fault := range []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP} {
		all.Val[0] &^= 1 << (fault - 1)
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, &old); err != nil {
		return nil, fmt.Errorf("blocking signals while MPI starts: %w", err)
	}
	return func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }, nil
}

// sigaction is the kernel's struct of that name.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// handlers are a process's actions by signal.
type handlers [65]sigaction

// signalHandlers reads this process's actions by signal.
func signalHandlers() *handlers {
	h := new(handlers)
	for s := 1; s < len(h); s++ {
		changeHandler(s, nil, &h[s])
	}
	return h
}

// restore takes out handlers that were installed since.
func (h *handlers) restore() {
	now := signalHandlers()
	for s := 1; s < len(h); s++ {
		if now[s] != h[s] {
			changeHandler(s, &h[s], nil)
		}
	}
}

// changeHandler sets the action of a signal, and reads the old one; it cannot fail except for
// SIGKILL and SIGSTOP, which have no handlers.
func changeHandler(signal int, set, old *sigaction) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(old)), unsafe.Sizeof(uint64(0)), 0, 0)
}
