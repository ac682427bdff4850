// Package mapfile maps files into memory and notices when they change.
//
// A mapping shows the current contents of the file. If another process makes the file shorter, a
// read beyond its new end raises SIGBUS; if it writes to the file, numbers change during the run.
// Two things turn that into an error:
//
//   - Guard, and debug.SetPanicOnFault on goroutines that do the work of a guarded one, make a
//     panic of the signal and an error of the panic. That holds for Go and for its assembly, and
//     for nothing else: a fault in a C library ends the process.
//   - Check compares the size and the time of modification with what they were when the file was
//     mapped. It is for before a C library reads the file, which leaves only the time of the call
//     itself, and for after the last read, so that no result is made from a file that was changed
//     meanwhile.
//
// Copying every file would avoid both, but cost the memory that mappings save; a lease (fcntl(2),
// F_SETLEASE) would block the process that writes.
package mapfile

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// File is a file in memory, read-only.
type File struct {
	Data []byte
	path string
	held bool     // mapped by the kernel, not on Go's heap
	ours bool     // this process writes to it
	file *os.File // to look at; nil: not watched
	was  state
}

// state is the properties that show that a file has changed.
type state struct {
	size  int64
	mtime time.Time
}

func stateOf(info fs.FileInfo) state { return state{info.Size(), info.ModTime()} }

// ChangedError says that a file has changed since it was read.
type ChangedError struct{ Path, How string }

// Error names the file, and a remedy.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s changed while it was read: %s; try again when no other process writes to it", e.Path, e.How)
}

// maxWatched bounds the files that are kept open to be checked, below a process's limit of open
// files. Further files are not compared, but faults are noticed.
const maxWatched = 256

// files are the mapped files.
var files struct {
	mu      sync.Mutex
	watched int
	sorted  atomic.Pointer[[]*File] // by address; a new slice with every change
}

// Map maps a regular file and takes over f: Map closes it, or File.Close does.
func Map(f *os.File) (*File, error) { return mapAs(f, mapData, false) }

// MapWritable maps a regular file, as Map does, to be written: bytes that are written to Data are the file's, and
// stay there if the process ends. The file must have room for them (fileio.Reserve). Check looks at its size alone.
func MapWritable(f *os.File) (*File, error) { return mapAs(f, mapWritable, true) }

// Sync returns when all that was written is on the disk.
func (m *File) Sync() error {
	if len(m.Data) == 0 {
		return nil
	}
	if err := syncMapping(m.Data); err != nil {
		return fmt.Errorf("writing %s to the disk: %w", m.path, err)
	}
	return nil
}

// mapAs maps a file by a way of the system's.
func mapAs(f *os.File, way func(f *os.File, size int64) ([]byte, bool, error), ours bool) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	m := &File{path: f.Name(), file: f, was: stateOf(info), ours: ours}
	if m.Data, m.held, err = way(f, info.Size()); err != nil {
		f.Close()
		return nil, err
	}
	files.mu.Lock()
	defer files.mu.Unlock()
	if files.watched >= maxWatched {
		f.Close()
		m.file = nil
	} else {
		files.watched++
	}
	if m.held {
		list := append(slices.Clone(mapped()), m)
		slices.SortFunc(list, func(a, b *File) int { return cmp.Compare(a.start(), b.start()) })
		files.sorted.Store(&list)
	}
	return m, nil
}

func mapped() []*File {
	if p := files.sorted.Load(); p != nil {
		return *p
	}
	return nil
}

// Close ends the mapping. Data must not be used any more.
func (m *File) Close() error {
	if m == nil {
		return nil
	}
	files.mu.Lock()
	defer files.mu.Unlock()
	if m.file != nil {
		files.watched--
		m.file.Close()
		m.file = nil
	}
	data := m.Data
	m.Data = nil
	if !m.held || data == nil {
		return nil
	}
	list := slices.DeleteFunc(slices.Clone(mapped()), func(f *File) bool { return f == m })
	files.sorted.Store(&list)
	return unmap(data)
}

// Check returns a *ChangedError if the file has changed since it was mapped.
func (m *File) Check() error {
	if m == nil || m.file == nil {
		return nil
	}
	size, mtime, err := look(m.file)
	if err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	return m.compare(state{size, mtime})
}

func (m *File) compare(is state) error {
	switch {
	case is.size != m.was.size:
		return &ChangedError{m.path, fmt.Sprintf("it has %d bytes, but had %d", is.size, m.was.size)}
	case !m.ours && !is.mtime.Equal(m.was.mtime):
		return &ChangedError{m.path, "it was written to"}
	}
	return nil
}

// Check checks all mapped files.
func Check() error {
	for _, m := range mapped() {
		if err := m.Check(); err != nil {
			return err
		}
	}
	return nil
}

func (m *File) start() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m.Data))) }

// Holding returns the file whose mapping has memory's first byte; nil if it is in no mapping.
func Holding(data []byte) *File {
	if len(data) == 0 {
		return nil
	}
	return at(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
}

func at(addr uintptr) *File {
	list := mapped()
	i, found := slices.BinarySearchFunc(list, addr, func(m *File, addr uintptr) int {
		return cmp.Compare(m.start(), addr)
	})
	if !found {
		i--
	}
	if i < 0 || addr-list[i].start() >= uintptr(list[i].extent()) {
		return nil
	}
	return list[i]
}

// extent is the length of the mapping: whole pages.
func (m *File) extent() int {
	page := os.Getpagesize()
	return (len(m.Data) + page - 1) / page * page
}

// Fault returns the error of a panic caused by reading a mapped file, nil for any other panic.
func Fault(recovered any) error {
	fault, ok := recovered.(interface {
		runtime.Error
		Addr() uintptr // as debug.SetPanicOnFault promises
	})
	if !ok {
		return nil
	}
	m := at(fault.Addr())
	if m == nil {
		return nil
	}
	if err := m.Check(); err != nil {
		return err
	}
	return &ChangedError{m.path, fmt.Sprintf("byte %d can no longer be read", fault.Addr()-m.start())}
}

// Guard turns failing reads of mapped files into an error of the calling function:
//
//	defer mapfile.Guard(&err)()
func Guard(err *error) (end func()) {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		r := recover()
		if r == nil {
			return
		}
		if *err = Fault(r); *err == nil {
			panic(r)
		}
	}
}

// FileState is the state of a file that is read without a mapping.
type FileState struct {
	path string
	was  state
}

// StateOf notes the state of an open file.
func StateOf(f *os.File) (FileState, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return FileState{}, 0, err
	}
	return FileState{f.Name(), stateOf(info)}, info.Size(), nil
}

// Check is that of File, for the same file.
func (s FileState) Check(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return (&File{path: s.path, was: s.was}).compare(stateOf(info))
}

// Drop takes the pages of the file out of this process's memory, as the system counts it. Later
// reads come from the system's cache of the file, or from the disk. Readers need not stop.
func (m *File) Drop() {
	if m != nil && m.held && len(m.Data) > 0 {
		drop(m.Data)
	}
}
