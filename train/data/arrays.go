package data

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"memopt/executor/npz"
	"memopt/hint"
)

// openArrays opens .npy and .npz files, and folders of .npy files. A folder and an archive have
// arrays of all inputs; single files are parts of one set.
func openArrays(places []place, inputs []Input, o Options) (_ Source, err error) {
	s := newTable(inputs, o.Names, formatNpy)
	defer s.closeAfter(&err)
	var single []array
	for _, p := range places {
		switch {
		case p.dir:
			err = s.folder(p.path)
		case filepath.Ext(p.path) == npzSuffix:
			err = s.archive(p.path)
		default:
			var a []array
			a, err = s.single(p)
			single = append(single, a...)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(single) > 0 {
		if err := s.group(single[0].path, single, keysOf(single)); err != nil {
			return nil, err
		}
	}
	return s.finish()
}

// single opens one file, which must have arrays: the user has named it.
func (s *tableSource) single(p place) ([]array, error) {
	key := p.array
	if key == "" {
		key = npz.ValueName(strings.TrimSuffix(filepath.Base(p.path), npySuffix))
	}
	if !s.wants(key) {
		return nil, fmt.Errorf("%s: no input is called %q, of %s: name the file after its input, or say "+
			"INPUT=%s; tokens in a .npy file need %v", p.path, key, listInputs(s.inputs), p.path,
			hint.Format.With("tokens"))
	}
	return s.load(p.path, key)
}

// load opens a file of one array.
func (s *tableSource) load(path, key string) ([]array, error) {
	list, _, err := s.view(path)
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("%s: is an archive of arrays; wanted one array", path)
	}
	if err != nil {
		return nil, err
	}
	list[0].key, list[0].where = key, path
	return list, nil
}

// folder adds the NAME.npy of a folder.
func (s *tableSource) folder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var list []array
	var have []string
	for _, e := range entries {
		name, isArray := strings.CutSuffix(e.Name(), npySuffix)
		if !isArray {
			continue
		}
		key := npz.ValueName(name)
		if have = append(have, key); !s.wants(key) && !numbered(key) {
			continue
		}
		a, err := s.load(filepath.Join(dir, e.Name()), key)
		if err != nil {
			return err
		}
		list = append(list, a...)
	}
	return s.group(dir, list, have)
}

// archive adds the arrays of an .npz file.
func (s *tableSource) archive(path string) error {
	list, have, err := s.view(path)
	if err != nil {
		return err
	}
	return s.group(path, list, have)
}

// wants reports whether an input is called so.
func (s *tableSource) wants(key string) bool {
	return slices.ContainsFunc(s.inputs, func(in Input) bool { return key == s.keyOf(&in) })
}

// numbered reports whether numpy made up the name of an array, as savez does for arrays without
// one.
func numbered(key string) bool { return strings.HasPrefix(key, numberedPrefix) }

const numberedPrefix = "arr_"

// view maps a file and returns its arrays that may be of use, and the names of all.
func (s *tableSource) view(path string) (list []array, have []string, err error) {
	f, err := openFile(path)
	if err != nil {
		return nil, nil, err
	}
	s.files = append(s.files, f)
	found, err := npz.View(f.data, func(name string) bool {
		key := npz.ValueName(name)
		have = append(have, key)
		return name == "" || s.wants(key) || numbered(key)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, a := range found {
		key := npz.ValueName(a.Name)
		list = append(list, array{file: f, key: key, where: fmt.Sprintf("%s: array %q", path, key),
			dtype: a.DType, shape: a.Shape, data: a.Data})
	}
	return list, have, nil
}

func keysOf(list []array) []string {
	keys := make([]string, len(list))
	for i, a := range list {
		keys[i] = a.key
	}
	return keys
}
