// Package library says which files the C libraries that are opened at run time come from, and
// whether another user could have put them there. A library's code runs as soon as it is opened,
// with all rights of its user.
package library

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Opened is a library that this process, or one that it has started, has opened.
type Opened struct {
	Name string // "OpenBLAS"
	Path string // of the file that the dynamic linker took, its links resolved
	// Doubt is a reason to distrust the file, such as "any user can write to /opt/lib"; "" if there
	// is no such reason.
	Doubt string
}

// Refused is a library that was tried and not taken.
type Refused struct {
	Name string // "OpenBLAS"
	Path string // as it was asked for
	Why  string
}

var (
	mu      sync.Mutex
	opened  []Opened
	refused []Refused
)

// List lists the opened libraries, in order, each file once for each name.
func List() []Opened {
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(opened)
}

// Refusals lists the libraries that were tried and not taken, in order.
func Refusals() []Refused {
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(refused)
}

// Refuse notes that a library was not taken.
func Refuse(name, path string, why error) {
	mu.Lock()
	defer mu.Unlock()
	if r := (Refused{name, path, why.Error()}); !slices.Contains(refused, r) {
		refused = append(refused, r)
	}
}

// Record adds a library to the list.
func Record(o Opened) {
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(opened, o) {
		opened = append(opened, o)
	}
}

// Note adds the library of a function to the list; asked is the name that it was opened by.
func Note(name, asked string, function uintptr) Opened {
	o := Opened{Name: name, Path: File(function)}
	if o.Path == "" {
		o.Path = asked
	}
	o.Doubt = cmp.Or(Doubt(o.Path), Doubt(asked))
	Record(o)
	return o
}

// Searched returns those of the files that a search has found which may be opened: with absolute
// paths, since anyone may have put a file in the working folder, and only writable by their owner
// and the system. Files that the user names by a variable need not pass.
func Searched(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		return !filepath.IsAbs(path) || Writable(path) != ""
	})
}

// Doubt returns a reason to distrust a file: any user can write it or replace it, or it belongs to
// a user who is neither this one nor root. A bare name is not checked: the dynamic linker looks for
// it.
func Doubt(path string) string {
	if why := Writable(path); why != "" {
		return why
	}
	for _, p := range []string{path, filepath.Dir(path)} {
		if why := foreign(p); filepath.Base(path) != path && why != "" {
			return why
		}
	}
	return ""
}

// Writable says that any user can write a file, or replace it in one of the folders above it; "" if
// not. In a folder with the sticky bit, as /tmp has, only owners replace files.
func Writable(path string) string {
	if filepath.Base(path) == path {
		return ""
	}
	// Whoever can replace a link can do as much as whoever can write its target.
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return cmp.Or(writableAt(real), writableAt(path))
}

func writableAt(path string) string {
	for first := true; ; first = false {
		info, err := os.Stat(path)
		if err != nil {
			return ""
		}
		const anybody = 0o002
		if info.Mode()&anybody != 0 && (first || info.Mode()&os.ModeSticky == 0) {
			return "any user can write to " + path
		}
		above := filepath.Dir(path)
		if above == path {
			return ""
		}
		path = above
	}
}
