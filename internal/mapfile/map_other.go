//go:build !unix

package mapfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"memopt/internal/memlimit"
)

// mapData reads the file: this system has no mappings that x/sys/unix knows.
func mapData(f *os.File, size int64) ([]byte, bool, error) {
	if err := memlimit.Check(size, "%s", f.Name()); err != nil {
		return nil, false, err
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	return data, false, nil
}

// mapWritable has no way here.
func mapWritable(f *os.File, _ int64) ([]byte, bool, error) {
	return nil, false, fmt.Errorf("%s cannot be mapped: %w", f.Name(), errors.ErrUnsupported)
}

func syncMapping([]byte) error { return errors.ErrUnsupported }

func unmap([]byte) error { return nil }

func look(f *os.File) (int64, time.Time, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, time.Time{}, err
	}
	return info.Size(), info.ModTime(), nil
}

func drop([]byte) {}
