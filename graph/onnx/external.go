package onnx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"memopt/graph"
	"memopt/internal/mapfile"
)

// streamName stands for a model that was read from a stream and has no folder.
const streamName = "-"

// externals maps the files of external data of one model, each once and only
// when it is asked for.
type externals struct {
	path   string // of the model
	dir    string // folder of the model, "" if it is in no folder
	mu     sync.Mutex
	closed bool
	maps   map[string]*mapfile.File // by location
	named  []string                 // locations that the model refers to, each once
	known  map[string]bool          // the same as a set
}

// refer notes that the model refers to a file.
func (x *externals) refer(location string) {
	if x.known[location] {
		return
	}
	if x.known == nil {
		x.known = map[string]bool{}
	}
	x.known[location] = true
	x.named = append(x.named, location)
}

// checkLinks refuses files that are links out of the model's folders before their contents are used.
// Missing files are not an error for a model that is only inspected.
func (x *externals) checkLinks() error {
	if x.dir == "" {
		return nil
	}
	for _, location := range x.named {
		root, name, err := x.folderOf(location)
		if err != nil {
			return fmt.Errorf("external data: %w", err)
		}
		_, err = root.Stat(name)
		root.Close()
		if leadsOut(err) {
			return linkError(location, err)
		}
	}
	return nil
}

// folderOf returns the folder of the model that has a file of external data, and the file's name in it:
// the folder of the model's name, or else, if the name is a link, that of its target. The latter is the
// layout of download caches: model.onnx and model.onnx_data are links into one folder of files that are
// called by their hashes. An error of the file itself comes with the first folder. The caller closes it.
func (x *externals) folderOf(location string) (root *os.Root, name string, err error) {
	if root, err = os.OpenRoot(x.dir); err != nil {
		return nil, "", err
	}
	_, err = root.Stat(location)
	if err == nil || !leadsOut(err) && !errors.Is(err, fs.ErrNotExist) {
		return root, location, nil
	}
	model, err := filepath.EvalSymlinks(x.path)
	if err != nil {
		return root, location, nil
	}
	home, name := filepath.Dir(model), location
	if target, err := filepath.EvalSymlinks(filepath.Join(x.dir, location)); err == nil {
		if name, err = filepath.Rel(home, target); err != nil || !filepath.IsLocal(name) {
			return root, location, nil
		}
	}
	other, err := os.OpenRoot(home)
	if err != nil {
		return root, location, nil
	}
	if _, err := other.Stat(name); err != nil {
		other.Close()
		return root, location, nil
	}
	root.Close()
	return other, name, nil
}

// pathOf returns where a file of external data is, or would be.
func (x *externals) pathOf(location string) string {
	root, name, err := x.folderOf(location)
	if err != nil {
		return filepath.Join(x.dir, location)
	}
	defer root.Close()
	return filepath.Join(root.Name(), name)
}

// leadsOut reports whether an error is the refusal of os.Root to follow a link out of its folder, which
// has no error number.
func leadsOut(err error) bool {
	var number syscall.Errno
	return err != nil && !errors.As(err, &number)
}

// linkError describes the refusal of os.Root to follow a link.
func linkError(location string, err error) error {
	return fmt.Errorf("external data %q is a link that leads out of the model's folder: %w", location, err)
}

func newExternals(path string) *externals {
	x := &externals{path: path}
	if path != "" && path != streamName {
		x.dir = filepath.Dir(path)
	}
	return x
}

// checkLocation refuses names of files that lie outside the model's folder.
func checkLocation(location string) error {
	switch {
	case location == "":
		return fmt.Errorf("external_data has no location")
	case strings.ContainsRune(location, 0):
		return fmt.Errorf("external data %q: the name has a zero byte", location)
	case filepath.IsAbs(location) || strings.HasPrefix(location, "/") || strings.HasPrefix(location, `\`):
		return fmt.Errorf("external data %q: the path is absolute, wanted one relative to the model's folder", location)
	}
	for _, part := range strings.FieldsFunc(location, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == ".." {
			return fmt.Errorf(`external data %q: the path has a ".." in it, wanted one inside the model's folder`,
				location)
		}
	}
	if !filepath.IsLocal(location) {
		return fmt.Errorf("external data %q: the path leaves the model's folder", location)
	}
	return nil
}

// file returns the contents of a file of external data.
func (x *externals) file(location string) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, fmt.Errorf("external data %q: the model %s is closed", location, x.path)
	}
	if m, ok := x.maps[location]; ok {
		return m.Data, nil
	}
	m, err := x.open(location)
	if err != nil {
		return nil, err
	}
	if x.maps == nil {
		x.maps = map[string]*mapfile.File{}
	}
	x.maps[location] = m
	return m.Data, nil
}

// openFile opens a file through an os.Root, which follows no link out of the folder (folderOf).
func (x *externals) openFile(location string) (*os.File, error) {
	if x.dir == "" {
		return nil, formatErr(x.path,
			"external data %q cannot be found: the model was read from a stream and has no folder; give its path "+
				"instead", location)
	}
	root, name, err := x.folderOf(location)
	if err != nil {
		return nil, fmt.Errorf("external data %q of %s: %w", location, x.path, err)
	}
	defer root.Close()
	if info, err := root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, formatErr(x.path, "external data %q is not a regular file", location)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, x.openError(location, err)
	}
	return f, nil
}

// open maps a file.
func (x *externals) open(location string) (*mapfile.File, error) {
	f, err := x.openFile(location)
	if err != nil {
		return nil, err
	}
	m, err := mapfile.Map(f)
	if err != nil {
		return nil, fmt.Errorf("external data %q of %s: %w", location, x.path, err)
	}
	return m, nil
}

// openError tells the system's errors from the refusal of os.Root to follow a link.
func (x *externals) openError(location string, err error) error {
	if !leadsOut(err) {
		return fmt.Errorf("external data %q of %s: %w", location, x.path, err)
	}
	return &FormatError{Path: x.path, Err: linkError(location, err)}
}

// close releases all mappings.
func (x *externals) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	var errs []error
	for _, location := range slices.Sorted(maps.Keys(x.maps)) {
		errs = append(errs, x.maps[location].Close())
	}
	x.maps = nil
	return errors.Join(errs...)
}

// outside is the Source of a tensor in external data.
type outside struct {
	files *externals
	ext   *graph.External
	size  int64 // of the tensor, for files that do not state the length
}

// Bytes maps the file and returns the tensor's part of it.
func (o *outside) Bytes() ([]byte, error) {
	data, err := o.files.file(o.ext.Location)
	if err != nil {
		return nil, err
	}
	length, err := o.length(int64(len(data)))
	if err != nil {
		return nil, err
	}
	return data[o.ext.Offset : o.ext.Offset+length], nil
}

// length returns how many bytes the tensor takes of a file of the given size, and makes sure that
// they are there.
func (o *outside) length(size int64) (int64, error) {
	length := o.ext.Length
	if length < 0 {
		length = o.size
	}
	if o.ext.Offset > size || length > size-o.ext.Offset {
		return 0, formatErr(o.files.path, "external data %q: offset %d and length %d reach beyond its %d bytes",
			o.ext.Location, o.ext.Offset, length, size)
	}
	return length, nil
}

// copier copies tensors from files of external data without mapping them: a mapping would make
// every byte resident that is copied. It keeps the last file open, since tensors that follow each
// other mostly lie in one.
type copier struct {
	files    *externals
	location string
	file     *os.File
	was      mapfile.FileState
	size     int64
}

// copy writes a tensor's bytes, want of them. On Linux the kernel does it where w is a file.
func (c *copier) copy(w io.Writer, o *outside, want int64) error {
	if c.file == nil || c.files != o.files || c.location != o.ext.Location {
		if err := c.open(o); err != nil {
			return err
		}
	}
	length, err := o.length(c.size)
	if err != nil {
		return err
	}
	if length != want {
		return wrongSize(length, want)
	}
	if _, err := c.file.Seek(o.ext.Offset, io.SeekStart); err != nil {
		return err
	}
	_, err = io.CopyN(w, c.file, length)
	if changed := c.was.Check(c.file); changed != nil {
		return changed
	}
	return err
}

func (c *copier) open(o *outside) error {
	c.close()
	f, err := o.files.openFile(o.ext.Location)
	if err != nil {
		return err
	}
	c.was, c.size, err = mapfile.StateOf(f)
	if err != nil {
		f.Close()
		return err
	}
	c.files, c.location, c.file = o.files, o.ext.Location, f
	return nil
}

func (c *copier) close() {
	if c.file != nil {
		c.file.Close()
		c.file = nil
	}
}

func wrongSize(got, want int64) error { return fmt.Errorf("has %d bytes, wanted %d", got, want) }
