package fileio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"memopt/internal/cleanup"
)

// Pair is a file that refers by name to a second one in its folder, which holds its data.
type Pair struct {
	Main, Data string                               // their paths
	WriteMain  func(w io.Writer, data string) error // data is the name to refer to
	WriteData  func(w io.Writer) error
}

// Write writes both. When an older pair is replaced, files of the old and the new pair are never
// mixed: whenever the process is killed, Main and the data that it refers to are both old or both
// new.
//
// No file system renames two files at once. So the new data lies under a name of its own first, and
// a Main that refers to that takes the place of the old one; only then does the data take the place
// of the old data, and a Main that refers to it there the place of the first. A process that is
// killed in between leaves the name of its own, "<main>.<16 digits>.data", behind.
func (p *Pair) Write() error {
	if info, err := os.Stat(p.Main); err == nil && info.IsDir() {
		return failed(p.Main, errIsFolder)
	}
	switch info, err := os.Lstat(p.Data); {
	case errors.Is(err, os.ErrNotExist):
		return p.create()
	case err != nil:
		return failed(p.Data, err)
	case info.IsDir():
		return failed(p.Data, errIsFolder)
	case info.Mode()&os.ModeType&^os.ModeSymlink != 0:
		return failed(p.Data, errors.New("it is not a regular file, which external data needs"))
	}
	return p.replace()
}

// main writes a Main that refers to a name.
func (p *Pair) main(data string) (*File, error) {
	return begin(p.Main, func(w io.Writer) error { return p.WriteMain(w, filepath.Base(data)) })
}

// create writes a pair without older data. The data comes first, so that no Main ever refers to
// missing data.
func (p *Pair) create() error {
	data, err := begin(p.Data, p.WriteData)
	defer data.Discard()
	if err != nil {
		return err
	}
	main, err := p.main(p.Data)
	defer main.Discard()
	if err != nil {
		return err
	}
	return cleanup.Whole(func() error {
		if err := data.place(); err != nil {
			return err
		}
		err := main.place()
		if err != nil {
			trace("remove", p.Data)
			os.Remove(p.Data)
		}
		return err
	})
}

// replace writes a pair whose data takes the place of older data. Steps that may fail for lack of
// space come before the first rename.
func (p *Pair) replace() error {
	interim := p.interim()
	data, err := begin(p.Data, p.WriteData)
	defer data.Discard()
	if err != nil {
		return err
	}
	first, err := p.main(interim)
	defer first.Discard()
	if err != nil {
		return err
	}
	last, err := p.main(p.Data)
	defer last.Discard()
	if err != nil {
		return err
	}
	live := false // whether Main refers to interim
	second, err := cleanup.Make(func() (func(), error) {
		return func() {
			if !live {
				trace("remove", interim)
				os.Remove(interim)
			}
		}, nil
	})
	if err != nil {
		return err
	}
	defer second.Undo()
	if err := p.second(data, interim); err != nil {
		return err
	}
	syncFolder(filepath.Dir(p.Main))
	return cleanup.Whole(func() error {
		if err := first.place(); err != nil {
			return err
		}
		live = true
		for _, f := range []*File{data, last} {
			if err := f.place(); err != nil {
				return fmt.Errorf("%w; %s is written and refers to %s", err, p.Main, filepath.Base(interim))
			}
		}
		live = false
		return nil
	})
}

// interim is where the data lies while the pair is replaced.
func (p *Pair) interim() string {
	dir, base := filepath.Split(p.Main)
	const most = 200 // with the suffixes, the name is short enough for every file system
	if len(base) > most {
		base = strings.ToValidUTF8(base[:most], "")
	}
	return dir + unique(base+".", ".data")
}

// second gives the data a second name or, if the file system has no hard links, makes a second
// copy.
func (p *Pair) second(data *File, path string) error {
	trace("link", path)
	if os.Link(data.temp, path) == nil {
		return nil
	}
	trace("create", path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if err != nil {
		return failed(p.Data, err)
	}
	copied := &File{f: f, path: p.Data, temp: path, old: data.old}
	copied.fail(p.WriteData(copied))
	if err := copied.Seal(); err != nil {
		os.Remove(path)
		return err
	}
	return nil
}
