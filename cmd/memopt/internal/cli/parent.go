package cli

import (
	"io"
	"os"
	"strconv"
	"syscall"
)

// parentVariable is the number of an open descriptor: the end of a pipe whose other end is open in the process that
// started this one, and closes when that process ends, however that comes about. The Python package sets it.
const parentVariable = "MEMOPT_PARENT_PIPE"

// ParentPipe returns that pipe, and takes its variable from the environment: processes that this one starts are not
// told of it. nil: there is none.
func ParentPipe() *os.File {
	text := os.Getenv(parentVariable)
	os.Unsetenv(parentVariable)
	fd, err := strconv.Atoi(text)
	if err != nil || fd <= 2 { // a standard stream is no pipe for this alone
		return nil
	}
	info, err := os.Stat("/dev/fd/" + strconv.Itoa(fd))
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return nil // a program between the two has closed it
	}
	return os.NewFile(uintptr(fd), parentVariable)
}

// awaitEnd waits until the pipe closes, which is then as if the terminal had been closed.
func awaitEnd(pipe io.Reader, signals chan<- os.Signal) {
	if _, err := io.Copy(io.Discard, pipe); err == nil {
		signals <- syscall.SIGHUP
	}
}
