// Package cleanup is the one place that knows the things that a program must not leave behind when
// a signal ends it: temporary files and folders, and processes. Deferred calls do not run then.
//
// Such a thing is made through Make, so that it never exists without being known here, and Undo or
// Keep is called when it is no longer needed or is to stay. The code that ends the program calls
// All; after that Make makes no more.
package cleanup

import (
	"os"
	"slices"
	"sync"
)

// entry is something to be undone.
type entry struct{ undo func() }

var (
	mu   sync.Mutex
	list []*entry // the oldest first
)

// Item is a thing that would be left behind. The zero value stands for no thing.
type Item struct{ entry *entry }

// Make makes something, and remembers how to undo it until the item says otherwise. undo may be
// called where the thing has been undone already, never twice at once.
func Make(do func() (undo func(), err error)) (Item, error) {
	mu.Lock()
	defer mu.Unlock()
	undo, err := do()
	if err != nil {
		return Item{}, err
	}
	e := &entry{undo}
	list = append(list, e)
	return Item{e}, nil
}

// File is Make for a file that open creates: undone, it is removed by its name.
func File(open func() (*os.File, error)) (f *os.File, item Item, err error) {
	item, err = Make(func() (func(), error) {
		if f, err = open(); err != nil {
			return nil, err
		}
		name := f.Name()
		return func() { os.Remove(name) }, nil
	})
	return f, item, err
}

// Folder is os.MkdirTemp: undone, the folder is removed with all that is in it.
func Folder(dir, pattern string) (name string, item Item, err error) {
	item, err = Make(func() (func(), error) {
		if name, err = os.MkdirTemp(dir, pattern); err != nil {
			return nil, err
		}
		return func() { removeAll(name) }, nil
	})
	return name, item, err
}

// removeAll removes a folder; a process that is being killed may still make a file in it.
func removeAll(name string) {
	const attempts = 3
	for range attempts {
		if os.RemoveAll(name) == nil {
			return
		}
	}
}

// Undo undoes the thing now. A second call has no effect.
func (i Item) Undo() {
	mu.Lock()
	defer mu.Unlock()
	if i.forget() {
		i.entry.undo()
	}
}

// Keep makes the thing permanent: it has become the wanted result. After a call of Undo it has no
// effect.
func (i Item) Keep() {
	mu.Lock()
	defer mu.Unlock()
	i.forget()
}

// forget takes the item from the list and reports whether it was there.
func (i Item) forget() bool {
	at := slices.Index(list, i.entry)
	if i.entry == nil || at < 0 {
		return false
	}
	list = slices.Delete(list, at, at+1)
	return true
}

// Whole does something that the end of the program must not interrupt, such as renaming two files
// that belong together: it is done completely or not begun. It must not make, keep or undo items.
func Whole(do func() error) error {
	mu.Lock()
	defer mu.Unlock()
	return do()
}

// All undoes everything, the newest first, for good: whoever makes something afterwards waits for
// the end of the program, which must follow.
func All() {
	mu.Lock()
	for _, e := range slices.Backward(list) {
		e.undo()
	}
	list = nil
}
