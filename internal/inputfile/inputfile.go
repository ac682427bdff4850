// Package inputfile opens the files that users name. It rejects a file that is neither regular nor
// a pipe, or is larger than the limit for its kind, before it is read: /dev/zero has no end, and a
// sparse file may claim any size.
package inputfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"memopt/internal/memlimit"
)

// Error says why a file cannot be read.
type Error struct {
	Path string
	Why  error
}

// Error returns "path: why".
func (e *Error) Error() string { return e.Path + ": " + e.Why.Error() }

// Unwrap returns the reason without the path.
func (e *Error) Unwrap() error { return e.Why }

// SizeError says that there are more bytes than are read.
type SizeError struct {
	Size  int64 // -1: not counted
	Limit int64
}

// Error says how many there are, and how many are read.
func (e *SizeError) Error() string {
	if e.Size < 0 {
		return fmt.Sprintf("has more than %d bytes; at most %d are read", e.Limit, e.Limit)
	}
	return fmt.Sprintf("has %d bytes; at most %d are read", e.Size, e.Limit)
}

// Unlimited is the size of files that are not read as a whole.
const Unlimited = -1

// Open opens a regular file of at most limit bytes, or a pipe: a FIFO, or the name that a shell
// makes of <(command). Whether it is a pipe is told by its mode. The error is an *Error.
func Open(path string, limit int64) (*os.File, fs.FileInfo, error) {
	return open(path, func(info fs.FileInfo) error { return check(info, limit) })
}

// OpenRegular is Open for a file that is not read from beginning to end, which excludes pipes.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	return open(path, func(info fs.FileInfo) error {
		if info.Mode()&fs.ModeNamedPipe != 0 {
			return errors.New("is a pipe; wanted a file, because it is not read from start to end")
		}
		return check(info, Unlimited)
	})
}

func open(path string, check func(fs.FileInfo) error) (*os.File, fs.FileInfo, error) {
	// The kind is checked first, because opening a device can have side effects.
	info, err := os.Stat(path)
	if err == nil {
		err = check(info)
	}
	if err != nil {
		return nil, nil, fault(path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fault(path, err)
	}
	if info, err = f.Stat(); err == nil {
		err = check(info)
	}
	if err != nil {
		f.Close()
		return nil, nil, fault(path, err)
	}
	return f, info, nil
}

// Read returns the contents of a file that Open takes. The error is an *Error; it wraps
// memlimit.ErrOutOfMemory where there is no memory for them.
func Read(path string, limit int64) ([]byte, error) {
	f, info, err := Open(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int64(0)
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	data, err := ReadAll(f, size, limit)
	if err != nil {
		return nil, fault(path, err)
	}
	return data, nil
}

// ReadAll reads a stream to its end, which must come after at most limit bytes: otherwise the error
// is a *SizeError. size is how many bytes are expected, 0 if unknown. Memory is checked before it
// is taken.
func ReadAll(r io.Reader, size, limit int64) ([]byte, error) {
	const least = 64 << 10
	room := max(size, least) + 1 // with room to see the end
	if err := memlimit.Check(room, "its contents"); err != nil {
		return nil, err
	}
	data := make([]byte, 0, room)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limit:
			return nil, &SizeError{-1, limit}
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case len(data) < cap(data):
			continue
		}
		room = min(2*int64(cap(data)), limit+1)
		if err := memlimit.Check(room, "its contents"); err != nil {
			return nil, err
		}
		data = append(make([]byte, 0, room), data...)
	}
}

// Limited returns a reader of at most limit bytes; more data is an error. So is running out of
// memory, which the data read so far may have used up.
func Limited(r io.Reader, limit int64) io.Reader { return &limited{r: r, left: limit, limit: limit} }

type limited struct {
	r           io.Reader
	left, limit int64
}

// Read reads no more than one byte beyond the limit.
func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, &SizeError{-1, l.limit}
	}
	if e := memlimit.Check(int64(n), "reading the first %d bytes and more", l.limit-l.left); e != nil {
		return 0, e
	}
	return n, err
}

// check rejects kinds and sizes.
func check(info fs.FileInfo, limit int64) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		if limit >= 0 && info.Size() > limit {
			return &SizeError{info.Size(), limit}
		}
		return nil
	case mode&fs.ModeNamedPipe != 0:
		return nil
	default:
		return fmt.Errorf("is %s; wanted a file or a pipe", kind(mode))
	}
}

// kind names the kind of a file that is neither regular nor a pipe.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}

// fault makes an *Error of an error, without the path that those of package os begin with.
func fault(path string, err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err
	}
	return &Error{path, err}
}
