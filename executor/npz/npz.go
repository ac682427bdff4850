package npz

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"memopt/executor"
	"memopt/internal/cleanup"
)

// Array is a named tensor of an archive.
type Array struct {
	Name string
	*executor.Tensor
}

// Read returns the arrays of a .npz file in their order. The array of a .npy file has the name "".
func Read(path string) ([]Array, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
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

// maxRatio is by how much deflate can shrink data; a file that claims more is a lie.
const maxRatio = 1100

func readArchive(r io.ReaderAt, size int64) ([]Array, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("neither a .npz nor a .npy file: %w", err)
	}
	if len(z.File) > maxArrays {
		return nil, fmt.Errorf("%d files, wanted at most %d", len(z.File), maxArrays)
	}
	// Entries of a bomb lie on top of each other. Honest ones share the file's length.
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
	path string
	tmp  *os.File
	temp cleanup.Item
	buf  *bufio.Writer
	zip  *zip.Writer
	seen map[string]bool
	err  error // the first one; nothing is written after it
}

// Create starts a .npz file. It is written under another name next to path and takes its name
// in Close, so that path always holds a whole file.
func Create(path string) (*Writer, error) {
	tmp, temp, err := cleanup.File(func() (*os.File, error) { return createTemp(path) })
	if err != nil {
		return nil, err
	}
	buf := bufio.NewWriterSize(tmp, 1<<20)
	return &Writer{path: path, tmp: tmp, temp: temp, buf: buf, zip: zip.NewWriter(buf), seen: map[string]bool{}}, nil
}

// Add writes an array, uncompressed as numpy.savez does. Names must differ.
func (w *Writer) Add(name string, t *executor.Tensor) error {
	if w.err != nil {
		return w.err
	}
	err := w.add(name, t)
	if err != nil {
		w.err = fmt.Errorf("%s: array %q: %w", w.path, name, err)
	}
	return w.err
}

func (w *Writer) add(name string, t *executor.Tensor) error {
	if w.seen[name] {
		return fmt.Errorf("it is there already")
	}
	w.seen[name] = true
	f, err := w.zip.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
	if err != nil {
		return err
	}
	return WriteArray(f, t)
}

// Close ends the file and gives it its name, unless there has been an error: then nothing is left of it.
func (w *Writer) Close() error {
	if w.tmp == nil {
		return w.err
	}
	err := w.err
	if err == nil {
		err = w.end()
	}
	closing := w.tmp.Close()
	if err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(w.tmp.Name(), w.path)
	}
	w.temp.Undo() // gone already where the rename succeeded
	w.tmp, w.err = nil, err
	return err
}

func (w *Writer) end() error {
	if err := w.zip.Close(); err != nil {
		return err
	}
	if err := w.buf.Flush(); err != nil {
		return err
	}
	return w.tmp.Sync()
}

// createTemp creates a file next to path with the permissions that files usually get, unlike
// those of os.CreateTemp, which are only for the owner.
func createTemp(path string) (f *os.File, err error) {
	for range 100 {
		name := fmt.Sprintf(".%s.%08x", filepath.Base(path), rand.Uint32())
		f, err = os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, err
}
