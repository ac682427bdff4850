package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/inputfile"
	"memopt/internal/mapfile"
	"memopt/internal/memlimit"
)

// File is a file that has been opened. Its tensors lie in the file, which is mapped.
type File struct {
	path     string
	mapped   *mapfile.File
	entries  []Entry // in the order of their contents
	begins   []int   // by entry, where its contents begin in the mapping
	byName   map[string]int
	metadata map[string]string
}

// Open opens a file and checks all of its header, and that bools are 0 or 1. Contents are not read
// otherwise, and take no memory but that of the file in the system's cache. Errors name the file and
// the tensor.
func Open(path string) (f *File, err error) {
	file, _, err := inputfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	mapped, err := mapfile.Map(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f = &File{path: path, mapped: mapped}
	if err := f.check(); err != nil {
		mapped.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Lay returns tensors that lie at given bytes of a mapped file of another form, which it takes over.
func Lay(path string, mapped *mapfile.File, entries []Entry, begins []int) (*File, error) {
	f := &File{path: path, mapped: mapped, entries: entries, begins: begins, byName: map[string]int{}}
	for i, e := range entries {
		size, ok := executor.Bytes(e.DType, e.Shape)
		if _, twice := f.byName[e.Name]; !ok || begins[i] < 0 || begins[i] > len(mapped.Data)-size || twice {
			return nil, fmt.Errorf("%s: tensor %q: %v%v at byte %d: the file has %d, and each tensor once", path,
				e.Name, e.DType, e.Shape, begins[i], len(mapped.Data))
		}
		f.byName[e.Name] = i
	}
	return f, nil
}

// check reads the header.
func (f *File) check() (err error) {
	defer mapfile.Guard(&err)()
	data := f.mapped.Data
	if len(data) < lengthBytes {
		return fmt.Errorf("not a safetensors file: it has %d bytes, and the length of the header alone has %d",
			len(data), lengthBytes)
	}
	length := binary.LittleEndian.Uint64(data)
	switch rest := uint64(len(data) - lengthBytes); {
	case length > maxHeader:
		return fmt.Errorf("not a safetensors file: the header's length is said to be %d bytes; wanted at most %d",
			length, maxHeader)
	case length > rest:
		return fmt.Errorf("the header is said to have %d bytes, and the file has %d behind its length; "+
			"it is cut off, or no safetensors file", length, rest)
	}
	text := data[lengthBytes : lengthBytes+int(length)]
	const perByte = 16 // memory for each byte of the header: one that is shorter is one with long names
	if err := memlimit.Check(perByte*int64(length), "a header of %d bytes", length); err != nil {
		return err
	}
	list, metadata, err := parseHeader(text)
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	f.metadata = metadata
	return f.place(list, lengthBytes+int(length))
}

// place settles where the tensors lie: start is where the header ends.
func (f *File) place(list []declared, start int) error {
	slices.SortStableFunc(list, func(a, b declared) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	f.byName = make(map[string]int, len(list))
	end, last := int64(0), ""
	for i, d := range list {
		size, ok := executor.Bytes(d.DType, d.Shape)
		switch {
		case !ok:
			return fmt.Errorf("tensor %q: shape %v has more than 2^62 bytes", d.Name, d.Shape)
		case d.begin < end:
			return fmt.Errorf("tensors %q and %q overlap: the second begins at byte %d, the first ends at byte %d",
				last, d.Name, d.begin, end)
		case d.begin > end:
			return fmt.Errorf("tensor %q begins at byte %d; wanted %d, where the one before it ends",
				d.Name, d.begin, end)
		case d.end-d.begin != int64(size):
			return fmt.Errorf("tensor %q has %d bytes; %v%v has %d", d.Name, d.end-d.begin, d.DType, d.Shape, size)
		}
		if _, twice := f.byName[d.Name]; twice {
			return fmt.Errorf("two tensors are called %q", d.Name)
		}
		f.byName[d.Name] = i
		f.entries = append(f.entries, d.Entry)
		f.begins = append(f.begins, start+int(d.begin))
		end, last = d.end, d.Name
	}
	if have := int64(len(f.mapped.Data) - start); have != end {
		return fmt.Errorf("%d bytes follow the header; its tensors have %d: the file is cut off, or has been added to",
			have, end)
	}
	return f.checkBools()
}

// checkBools makes sure that bools are 0 or 1, which everything that reads them relies on.
func (f *File) checkBools() error {
	for i, e := range f.entries {
		if e.DType != graph.Bool {
			continue
		}
		for k, b := range f.contents(i) {
			if b > 1 {
				return fmt.Errorf("tensor %q: bool %d is %d; wanted 0 or 1", e.Name, k, b)
			}
		}
	}
	return nil
}

// contents returns the bytes of a tensor.
func (f *File) contents(i int) []byte {
	size, _ := executor.Bytes(f.entries[i].DType, f.entries[i].Shape)
	return f.mapped.Data[f.begins[i] : f.begins[i]+size : f.begins[i]+size]
}

// Path returns where the file was opened.
func (f *File) Path() string { return f.path }

// Entries returns the tensors in the order of their contents. It must not be changed.
func (f *File) Entries() []Entry { return f.entries }

// Metadata returns the header's metadata, or nil. It must not be changed.
func (f *File) Metadata() map[string]string { return f.metadata }

// Tensor returns a tensor by name, or false. Its contents lie in the mapped file: they are
// read-only, end with Close, and may begin at any byte, so that a kernel wants a copy.
func (f *File) Tensor(name string) (*executor.Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return nil, false
	}
	e := f.entries[i]
	return &executor.Tensor{DType: e.DType, Shape: e.Shape, Data: f.contents(i)}, true
}

// Bytes returns the whole file, read-only, until Close.
func (f *File) Bytes() []byte { return f.mapped.Data }

// Check returns an error if the file has changed since it was opened.
func (f *File) Check() error { return f.mapped.Check() }

// Close ends the mapping; tensors must not be used any more.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	return f.mapped.Close()
}
