package events

import (
	"fmt"
	"io"

	"memopt/internal/fileio"
)

// maxPending is how many bytes wait for room on the disk; the oldest records are given up first.
const maxPending = 1 << 20

// target is an appender's view of a file, which is open for appending.
type target interface {
	io.WriteCloser
	Truncate(size int64) error
	Sync() error
}

// appender adds whole records to a file.
type appender struct {
	path    string
	file    target
	size    int64    // of the whole records in the file
	torn    bool     // the file may hold a part of a record behind them
	pending [][]byte // records that wait
	bytes   int      // of them
	failed  bool     // the last write did not work, and that was said
}

// openAppender opens a file for appending at its end, or makes it. A symbolic link is not followed.
// The reader has the former contents of the file.
func openAppender(path string) (*appender, io.Reader, error) {
	f, err := fileio.OpenAppend(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return &appender{path: path, file: f, size: info.Size()}, io.NewSectionReader(f, 0, info.Size()), nil
}

// add appends a record, and those that wait before it. The error of a disk that stays full comes
// once.
func (a *appender) add(record []byte) error {
	a.pending, a.bytes = append(a.pending, record), a.bytes+len(record)
	for len(a.pending) > 1 && a.bytes > maxPending {
		a.bytes -= len(a.pending[0])
		a.pending = a.pending[1:]
	}
	err := a.flush()
	if err == nil {
		a.failed = false
		return nil
	}
	if a.failed {
		return nil
	}
	a.failed = true
	return fmt.Errorf("%s: %w; further records are kept and written once that works", a.path, err)
}

// flush writes the pending records.
func (a *appender) flush() error {
	if a.torn {
		if err := a.file.Truncate(a.size); err != nil {
			return err
		}
		a.torn = false
	}
	for len(a.pending) > 0 {
		n, err := a.file.Write(a.pending[0])
		if err != nil {
			a.torn = n > 0
			return err
		}
		a.size += int64(n)
		a.bytes -= n
		a.pending = a.pending[1:]
	}
	a.pending = nil
	return nil
}

// cut truncates the file to a size.
func (a *appender) cut(size int64) error {
	if size == a.size {
		return nil
	}
	if err := a.file.Truncate(size); err != nil {
		return err
	}
	a.size = size
	return a.file.Sync()
}

// close writes the pending records, and closes the file when it is on the disk.
func (a *appender) close() error {
	err := a.flush()
	if err == nil {
		err = a.file.Sync()
	}
	if lost := len(a.pending); lost > 0 {
		err = fmt.Errorf("%s: %d records are lost: %w", a.path, lost, err)
		if a.torn {
			_ = a.file.Truncate(a.size) // else a reader finds a torn record, as after a kill
		}
	}
	if e := a.file.Close(); err == nil {
		err = e
	}
	return err
}
