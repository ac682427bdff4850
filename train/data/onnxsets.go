package data

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"memopt/executor/dataset"
)

// openSets opens folders in ONNX's test layout: test_data_set_0 and so on with input_0.pb and so
// on, or one such set. Their tensors are read as a whole; a sample is a row of each.
func openSets(places []place, inputs []Input, o Options) (_ Source, err error) {
	s := newTable(inputs, o.Names, formatONNX)
	defer s.closeAfter(&err)
	for _, p := range places {
		sets, err := setsOf(p)
		if err != nil {
			return nil, err
		}
		for _, dir := range sets {
			if err := s.set(dir); err != nil {
				return nil, err
			}
		}
	}
	return s.finish()
}

// setsOf lists the sets of a folder in the order of their numbers, or the folder itself.
func setsOf(p place) ([]string, error) {
	if !p.dir {
		return nil, fmt.Errorf("%s: is no folder; wanted one in ONNX's test layout (test_data_set_0)", p.path)
	}
	entries, err := os.ReadDir(p.path)
	if err != nil {
		return nil, err
	}
	var sets []string
	for _, e := range entries {
		if _, ok := suffixNumber(e.Name(), setPrefix); ok {
			sets = append(sets, filepath.Join(p.path, e.Name()))
		}
	}
	if len(sets) == 0 {
		return []string{p.path}, nil
	}
	slices.SortFunc(sets, func(a, b string) int {
		x, _ := suffixNumber(filepath.Base(a), setPrefix)
		y, _ := suffixNumber(filepath.Base(b), setPrefix)
		return cmp.Compare(x, y)
	})
	return sets, nil
}

// suffixNumber returns the number behind a prefix.
func suffixNumber(name, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}

// set adds the tensors of a set: by their names, or by those of their files. A file without a
// tensor's name is the input of its number.
func (s *tableSource) set(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var list []array
	var have []string
	for _, e := range entries {
		base, isTensor := strings.CutSuffix(e.Name(), tensorSuffix)
		number, isInput := suffixNumber(base, inputPrefix)
		if !isTensor || !isInput {
			continue
		}
		path := filepath.Join(dir, e.Name())
		t, err := dataset.ReadTensor(path)
		if err != nil {
			return err
		}
		key := t.Name
		if key == "" && number < len(s.inputs) {
			key = s.keyOf(&s.inputs[number])
		}
		if !s.wants(key) && s.wants(base) {
			key = base
		}
		have = append(have, key)
		if !s.wants(key) {
			continue
		}
		f := &file{path: path, data: t.Tensor.Data}
		s.files = append(s.files, f)
		list = append(list, array{file: f, key: key, where: path, dtype: t.Tensor.DType,
			shape: t.Tensor.Shape, data: f.data})
	}
	return s.group(dir, list, have)
}
