package npz

import (
	"archive/zip"
	"bufio"
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
	return readArchive(r, size)
}

// maxArrays bounds the files of an archive.
const maxArrays = 1 << 20

// maxRatio is the largest ratio by which deflate can shrink data; a file that claims more is
// invalid.
const maxRatio = 1100

func readArchive(r io.ReaderAt, size int64) ([]Array, error) {
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
		name := strings.TrimSuffix(f.Name, ".npy")
		if seen[name] {
			return nil, fmt.Errorf("two arrays have the name %.100q", name)
		}
		seen[name] = true
		if packed += f.CompressedSize64; f.CompressedSize64 > uint64(size) || packed > uint64(size) {
			return nil, fmt.Errorf("array %.100q: the arrays have more bytes than the file", name)
		}
		t, err := readEntry(f)
		if err != nil {
			return nil, fmt.Errorf("array %.100q: %w", name, err)
		}
		arrays = append(arrays, Array{name, t})
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
	err    error // the first one; nothing is written after it
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
