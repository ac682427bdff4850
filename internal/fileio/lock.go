package fileio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Lock is a file that one process at a time holds. The system gives it back when the process ends,
// however that ends. The file stays.
type Lock struct{ f *os.File }

// LockedError says who holds a lock.
type LockedError struct {
	Path   string
	Holder string // the line that the holder has written into the file; "" if it is not known
}

// Error names the file and its holder.
func (e *LockedError) Error() string {
	if e.Holder == "" {
		return e.Path + " is locked by another process"
	}
	return fmt.Sprintf("%s is locked by another process: %s", e.Path, e.Holder)
}

// errLocked is the error of a system's call for a lock that another process has.
var errLocked = errors.New("locked")

// TakeLock takes the lock of a file, creating the file if necessary, and writes a line into it that
// says who has it. If another process has it the error is a *LockedError.
func TakeLock(path, holder string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, permissions)
	if err != nil {
		return nil, failed(path, err)
	}
	if err := lockFile(f); err != nil {
		defer f.Close()
		if errors.Is(err, errLocked) {
			const most = 512
			text, _ := io.ReadAll(io.LimitReader(f, most))
			line, _, _ := strings.Cut(string(text), "\n")
			return nil, &LockedError{path, line}
		}
		return nil, fmt.Errorf("cannot lock %s: %w", path, reason(err))
	}
	l := &Lock{f}
	if err := l.write(holder + "\n"); err != nil {
		f.Close()
		return nil, failed(path, err)
	}
	return l, nil
}

// write replaces the file's contents.
func (l *Lock) write(text string) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(text), 0)
	return err
}

// Release gives the lock back.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.f.Truncate(0), l.f.Close())
}
