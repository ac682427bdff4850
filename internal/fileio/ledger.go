package fileio

import (
	"fmt"
	"os"
	"path/filepath"
)

// Ledger knows the files that one run reads and writes, whatever they are called: hard and symbolic
// links, "./x" beside "x", bind mounts and case-insensitive file systems make no difference. Only
// regular files count: a write to a device or a pipe destroys no data. The zero value is empty. It
// is used by one goroutine.
type Ledger struct {
	inputs  map[identity]string
	outputs map[identity]claim // of files that exist
	names   map[place]claim    // of all outputs
	streams map[identity]string
}

// claim is an output that was announced: its description and its path.
type claim struct{ what, path string }

// place is a name in a folder.
type place struct {
	folder identity
	name   string
}

// Stream notes where standard output or error goes, which the shell has opened before the program
// began.
func (l *Ledger) Stream(what string, f *os.File) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	if id, ok := identify(info, ""); ok {
		if first := l.streams[id]; first != "" {
			what = first + " and " + what
		}
		set(&l.streams, id, what)
	}
}

// StreamError says that a stream goes to a file that the run reads, or that another output is.
type StreamError struct {
	file os.FileInfo
	text string
}

// Concerns reports whether a stream goes to the file, which writing to the stream would spoil.
func (e *StreamError) Concerns(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && os.SameFile(info, e.file)
}

// Error names the stream and a remedy.
func (e *StreamError) Error() string { return e.text }

// Input notes a file that is read, by its flag or description. An error
// says that an output, or a stream, would overwrite it. Files that do not exist, and files that are
// not regular, are not noted.
func (l *Ledger) Input(source, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil // reading it will report that
	}
	return l.input(source, path, info)
}

// InputFile is Input for a file that is open, such as standard input.
func (l *Ledger) InputFile(what string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	return l.input(what, "", info)
}

func (l *Ledger) input(what, path string, info os.FileInfo) error {
	id, ok := identify(info, path)
	if !ok || !info.Mode().IsRegular() {
		return nil
	}
	name := what
	if path != "" && path != what {
		name = what + " " + path
	}
	if stream, ok := l.streams[id]; ok {
		emptied := ""
		if info.Size() == 0 {
			emptied = ", and the shell has emptied it already"
		}
		return &StreamError{info,
			fmt.Sprintf("%s goes to the file that is read as %s%s; send it to another one", stream, name, emptied)}
	}
	if c, ok := l.outputs[id]; ok {
		return overwrites(c.what, c.path, name)
	}
	set(&l.inputs, id, name)
	return nil
}

// overwrites is the refusal of an output that is an input.
func overwrites(what, path, input string) error {
	return fmt.Errorf("%s: is the file that is read as %s, and an input is never overwritten; choose another name",
		output(what, path), input)
}

func output(what, path string) string {
	if what == "" {
		return path
	}
	return what + " " + path
}

// Output announces a file that is to be written, by the flag that names it. It is refused if it was noted as an
// input, if a stream goes to it, or if it was announced under another name or for something else. An output may be
// announced again right before it is written, which detects that names that did not exist before stand for one file.
func (l *Ledger) Output(what, path string) error {
	if fd, ok := descriptor(path); ok {
		return l.outputDescriptor(what, path, fd)
	}
	c := claim{what, path}
	if info, err := os.Stat(path); err == nil {
		id, known := identify(info, path)
		if !known || !info.Mode().IsRegular() {
			return nil
		}
		if input, ok := l.inputs[id]; ok {
			return overwrites(what, path, input)
		}
		if stream, ok := l.streams[id]; ok {
			return &StreamError{info,
				fmt.Sprintf("%s: %s goes to this file, too; choose another name for one of them",
					output(what, path), stream)}
		}
		if other, ok := l.outputs[id]; ok && other != c {
			return twice(c, other)
		}
		set(&l.outputs, id, c)
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil // writing it will report that
	}
	folder, known := identify(info, filepath.Dir(path))
	if !known {
		return nil
	}
	at := place{folder, filepath.Base(path)}
	if other, ok := l.names[at]; ok && other != c {
		return twice(c, other)
	}
	set(&l.names, at, c)
	return nil
}

func twice(a, b claim) error {
	return fmt.Errorf("%s and %s are one file; choose another name for one of them",
		output(b.what, b.path), output(a.what, a.path))
}

// outputDescriptor is Output for a descriptor: a write to it goes where the descriptor stands,
// behind the output of a stream, but not into an input.
func (l *Ledger) outputDescriptor(what, path string, fd int) error {
	f, err := duplicate(fd, path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if id, ok := identify(info, path); ok && l.inputs[id] != "" {
		return overwrites(what, path, l.inputs[id])
	}
	return nil
}

// Written notes that an output has been written: it is now a different file from the one that
// existed.
func (l *Ledger) Written(what, path string) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	if id, ok := identify(info, path); ok {
		set(&l.outputs, id, claim{what, path})
	}
}

func set[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}
