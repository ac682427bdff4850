package npz

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"memopt/executor"
	"memopt/internal/fileio"
	"memopt/internal/inputfile"
)

// Array is a named tensor of an archive.
type Array struct {
	Name string
	*executor.Tensor
}

// Read returns the arrays of a .npz file in their order. The array of a .npy file has the name "".
// The error wraps executor.ErrOutOfMemory where there is no memory for them.
func Read(path string) ([]Array, error) {
	f, info, err := inputfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	arrays, err := readFile(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return arrays, nil
}

func readFile(r io.ReaderAt, size int64) ([]Array, error) {
	var start [len(magic)]byte
	if _, err := r.ReadAt(start[:], 0); err == nil && string(start[:]) == magic {
		t, err := readArray(bufio.NewReader(io.NewSectionReader(r, 0, size)), size)
		if err != nil {
			return nil, err
		}
		return []Array{{"", t}}, nil
	}
	return readArchive(r, size, readEntry)
}

// View returns the arrays of a .npz or .npy file whose contents are data, those whose names are
// wanted (all if want is nil). The elements of an array that lie in data as this module has them
// are not copied: its tensor shows them, at any alignment, without a look at checksums and at
// whether bools are 0 or 1. Compressed arrays, big-endian ones and those in Fortran's order are
// copied, as Read does.
func View(data []byte, want func(name string) bool) ([]Array, error) {
	if bytes.HasPrefix(data, []byte(magic)) {
		if want != nil && !want("") {
			return nil, nil
		}
		t, err := viewArray(data)
		if err != nil {
			return nil, err
		}
		return []Array{{"", t}}, nil
	}
	return readArchive(bytes.NewReader(data), int64(len(data)), func(f *zip.File) (*executor.Tensor, error) {
		if want != nil && !want(arrayName(f)) {
			return nil, nil
		}
		return viewEntry(f, data)
	})
}

// viewEntry shows an array that is stored, and reads one that is compressed.
func viewEntry(f *zip.File, data []byte) (*executor.Tensor, error) {
	at, err := f.DataOffset()
	if err != nil {
		return nil, err
	}
	if n := f.UncompressedSize64; f.Method == zip.Store {
		if n != f.CompressedSize64 || at < 0 || n > uint64(len(data)) || uint64(at) > uint64(len(data))-n {
			return nil, fmt.Errorf("the file ends before its %d bytes", n)
		}
		return viewArray(data[at:][:n])
	}
	return readEntry(f)
}

func viewArray(data []byte) (*executor.Tensor, error) {
	h, length, err := readHeader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if h.swapped || h.fortran && len(h.shape) > 1 {
		return readArray(bytes.NewReader(data), int64(len(data)))
	}
	n, err := h.bytes()
	if err == nil {
		err = h.complete(n, int64(len(data))-length)
	}
	if err != nil {
		return nil, err
	}
	return &executor.Tensor{DType: h.dtype, Shape: h.shape, Data: data[length:]}, nil
}

// maxArrays bounds the files of an archive.
const maxArrays = 1 << 20

// maxRatio is the largest ratio of deflate's compression; a file that claims more is invalid.
const maxRatio = 1100

// arrayName returns the name of the array that an entry holds.
func arrayName(f *zip.File) string { return strings.TrimSuffix(f.Name, ".npy") }

// readArchive returns the arrays of an archive that read accepts.
func readArchive(r io.ReaderAt, size int64, read func(*zip.File) (*executor.Tensor, error)) ([]Array, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("neither a .npz nor a .npy file: %w", err)
	}
	if len(z.File) > maxArrays {
		return nil, fmt.Errorf("%d files, wanted at most %d", len(z.File), maxArrays)
	}
	// The entries of a zip bomb overlap each other. Those of a proper archive share the file's
	// length.
	var packed uint64
	seen := map[string]bool{}
	var arrays []Array
	for _, f := range z.File {
		name := arrayName(f)
		if seen[name] {
			return nil, fmt.Errorf("two arrays have the name %.100q", name)
		}
		seen[name] = true
		if packed += f.CompressedSize64; f.CompressedSize64 > uint64(size) || packed > uint64(size) {
			return nil, fmt.Errorf("array %.100q: the arrays have more bytes than the file", name)
		}
		t, err := read(f)
		if err != nil {
			return nil, fmt.Errorf("array %.100q: %w", name, err)
		}
		if t != nil {
			arrays = append(arrays, Array{name, t})
		}
	}
	return arrays, nil
}

func readEntry(f *zip.File) (*executor.Tensor, error) {
	n := f.UncompressedSize64
	if n > f.CompressedSize64*maxRatio || n > 1<<62 {
		return nil, fmt.Errorf("%d bytes cannot unpack to %d", f.CompressedSize64, n)
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readArray(bufio.NewReader(r), int64(n))
}

// Writer writes a .npz file array by array.
type Writer struct {
	file   *fileio.File
	buf    *bufio.Writer
	zip    *zip.Writer
	seen   map[string]bool
	err    error // the first one; it ends all writing
	closed bool
}

// Create starts a .npz file. It gets its name in Close, so that path always holds a complete file.
func Create(path string) (*Writer, error) {
	f, err := fileio.Create(path)
	if err != nil {
		return nil, err
	}
	buf := bufio.NewWriterSize(f, 1<<20)
	return &Writer{file: f, buf: buf, zip: zip.NewWriter(buf), seen: map[string]bool{}}, nil
}

// Add writes an array, uncompressed as numpy.savez does. Names must differ.
func (w *Writer) Add(name string, t *executor.Tensor) error {
	if w.err != nil {
		return w.err
	}
	err := w.add(name, t)
	if err != nil {
		w.err = fmt.Errorf("array %q: %w", name, err)
	}
	return w.err
}

func (w *Writer) add(name string, t *executor.Tensor) error {
	if w.seen[name] {
		return fmt.Errorf("it already exists")
	}
	w.seen[name] = true
	f, err := w.zip.CreateHeader(&zip.FileHeader{Name: entryName(name), Method: zip.Store})
	if err != nil {
		return err
	}
	return WriteArray(f, t)
}

// Close ends the file and gives it its name; after an error it is removed instead.
func (w *Writer) Close() error {
	if w.closed {
		return w.err
	}
	w.closed = true
	defer w.file.Discard()
	if w.err == nil {
		w.err = w.zip.Close()
	}
	if w.err == nil {
		w.err = w.buf.Flush()
	}
	if w.err == nil {
		w.err = w.file.Commit()
	}
	return w.err
}

// entryName returns the name of an array's entry. A program that unpacks the archive, as unzip
// does, makes files of these names: one that leads out of the folder is written with its slashes
// escaped, as [fileio.Escape] does, and Name finds it again. Others, with slashes or without, are
// as numpy writes them.
func entryName(name string) string {
	bytes := "\x00"
	if !fs.ValidPath(name) || strings.Contains(name, `\`) {
		bytes = "/\\\x00"
	}
	return fileio.Escape(name, bytes) + ".npy"
}

// ValueName returns the name of the value whose array has a name in an archive that a Writer has
// written.
func ValueName(array string) string { return fileio.Unescape(array) }
