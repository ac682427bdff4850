package data

import (
	"path/filepath"
	"sync/atomic"

	"memopt/internal/inputfile"
	"memopt/internal/mapfile"
)

// file is a file in memory.
type file struct {
	path   string        // as the user has it
	m      *mapfile.File // nil for data without a file
	data   []byte
	filled atomic.Int64 // bytes of it that may have become resident since its pages were dropped
}

// openFile maps a file.
func openFile(path string) (*file, error) {
	f, _, err := inputfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	m, err := mapfile.Map(f)
	if err != nil {
		return nil, err
	}
	return &file{path: path, m: m, data: m.Data}, nil
}

// name is the file's without its folder.
func (f *file) name() string { return filepath.Base(f.path) }

const (
	// residentBytes is how much of a file stays in this process's memory. All of it would, in the end:
	// the system counts pages of a mapping as the process's, even if they are only a view of its cache.
	residentBytes = 64 << 20
	// aroundBytes is how much may become resident around a byte that is read: 64 KiB as Linux is set
	// up, up to a huge page where the cache of the file has such.
	aroundBytes = 2 << 20
)

// used counts n bytes in a row that were read, and gives pages back where they have become many.
func (f *file) used(n int) {
	if len(f.data) <= residentBytes || f.filled.Add(int64(n)+aroundBytes) < residentBytes {
		return
	}
	f.filled.Store(0)
	f.m.Drop()
}

// fault makes an error of a panic that is the fault of a mapped file; others go on.
func fault(recovered any) error {
	err := mapfile.Fault(recovered)
	if err == nil {
		panic(recovered)
	}
	return err
}

// files are the files of a source.
type files []*file

// Close ends the mappings.
func (fs files) Close() error {
	var first error
	for _, f := range fs {
		if err := f.m.Close(); first == nil {
			first = err
		}
		f.data = nil
	}
	return first
}
