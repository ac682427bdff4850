package data

import (
	"os"
	"path/filepath"
	"strings"

	"memopt/executor/npz"
)

// ArrayNames returns the inputs that files of arrays have data for, under the inputs' names or those of
// Options. nil means data of other formats, or arrays without names. Errors are left to Open.
func ArrayNames(paths []string, o Options) (names []string) {
	places, err := expand(paths)
	if err != nil {
		return nil
	}
	if format, err := formatOf(places, o); err != nil || format != formatNpy {
		return nil
	}
	for _, p := range places {
		for _, key := range p.arrayNames() {
			if numbered(key) {
				return nil
			}
			input := key
			for name, of := range o.Names {
				if of == key {
					input = name
				}
			}
			names = append(names, input)
		}
	}
	return names
}

// arrayNames are the names of the arrays of a file or folder.
func (p place) arrayNames() (names []string) {
	switch {
	case p.array != "":
		return []string{p.array}
	case p.dir:
		entries, err := os.ReadDir(p.path)
		if err != nil {
			return nil
		}
		for _, e := range entries {
			if name, isArray := strings.CutSuffix(e.Name(), npySuffix); isArray {
				names = append(names, npz.ValueName(name))
			}
		}
	case filepath.Ext(p.path) == npySuffix:
		return []string{npz.ValueName(strings.TrimSuffix(filepath.Base(p.path), npySuffix))}
	default:
		f, err := openFile(p.path)
		if err != nil {
			return nil
		}
		defer f.m.Close()
		_, err = npz.View(f.data, func(name string) bool {
			names = append(names, npz.ValueName(name))
			return false
		})
		if err != nil {
			return nil
		}
	}
	return names
}
