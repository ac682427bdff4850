package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/hint"
	"memopt/internal/mapfile"
)

// Values of Options.Blocks.
const (
	blocksDisjoint  = "disjoint"
	blocksRandom    = "random"
	blocksDocuments = "documents"
)

// Open makes a source for the inputs of a step from files, folders, globs, or example:text.
// Several are concatenated. inputs are all that the data is to fill.
func Open(paths []string, inputs []Input, o Options) (_ Source, err error) {
	defer mapfile.Guard(&err)()
	typ, err := o.check(inputs)
	if err != nil {
		return nil, err
	}
	places, err := expand(paths)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(places, o)
	if err != nil {
		return nil, err
	}
	if o.Record != "" && format != formatRecords {
		return nil, fmt.Errorf("%s: is data of format %s, which has no records (%v)", places[0].path, format,
			hint.Record)
	}
	if o.Blocks != "" && o.Blocks != blocksDisjoint && format != formatTokens {
		return nil, fmt.Errorf("%s: is data of format %s, whose samples are its rows: %s are of tokens (%v)",
			places[0].path, format, o.Blocks, hint.Blocks)
	}
	switch format {
	case formatTokens:
		return openTokenFiles(places, typ, inputs, o)
	case formatNpy:
		return openArrays(places, inputs, o)
	case formatONNX:
		return openSets(places, inputs, o)
	}
	return openRecords(places, inputs, o)
}

// check checks the options that can be checked without the files.
func (o Options) check(inputs []Input) (graph.DType, error) {
	if len(inputs) == 0 {
		return 0, errors.New("the model has no inputs for data")
	}
	for name := range o.Names {
		if !slices.ContainsFunc(inputs, func(in Input) bool { return in.Name == name }) {
			return 0, fmt.Errorf("no input %q is to be filled; there are %s",
				name, listInputs(inputs))
		}
	}
	blocks, _, _ := strings.Cut(o.Blocks, ":")
	for _, c := range []struct {
		what, value string
		of          []string
	}{
		{"format", o.Format, append([]string{formatAuto}, Formats()...)},
		{"blocks", blocks, []string{blocksDisjoint, blocksRandom, blocksDocuments}},
		{"labels", o.Labels, []string{formatAuto, labelsNext, labelsSame}},
	} {
		if c.value != "" && !slices.Contains(c.of, c.value) {
			return 0, fmt.Errorf("%s %q: wanted one of %s",
				c.what, c.value, strings.Join(c.of, ", "))
		}
	}
	return tokenType(o.TokenType)
}

func openTokenFiles(places []place, typ graph.DType, inputs []Input, o Options) (Source, error) {
	var list []tokenFile
	for _, p := range places {
		f, err := openTokens(p.path, typ)
		if err != nil {
			for _, f := range list {
				f.m.Close()
			}
			return nil, err
		}
		list = append(list, f)
	}
	return newTokens(list, inputs, o)
}

// place is where data lies.
type place struct {
	array string // of NAME=path
	path  string
	dir   bool
}

// expand replaces globs by the files that they match, in the order of names.
func expand(paths []string) ([]place, error) {
	if len(paths) == 0 {
		return nil, errors.New("no data")
	}
	var out []place
	for _, p := range paths {
		list, err := expandOne(p)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

func expandOne(path string) ([]place, error) {
	if path == exampleText {
		return []place{{path: path}}, nil
	}
	if strings.HasPrefix(path, "example:") {
		return nil, fmt.Errorf("%s: no such example of data; there is %s", path, exampleText)
	}
	if info, err := os.Stat(path); err == nil {
		return []place{{path: path, dir: info.IsDir()}}, nil
	}
	array, rest, named := strings.Cut(path, "=")
	if named && strings.HasSuffix(rest, npySuffix) {
		path = rest
	} else {
		array = ""
	}
	matches := []string{path}
	if strings.ContainsAny(path, `*?[`) {
		var err error
		if matches, err = filepath.Glob(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(matches) == 0 {
			return nil, fmt.Errorf("%s: matches no file", path)
		}
	}
	var out []place
	for _, m := range matches {
		info, err := os.Stat(m)
		if wrapped := (*fs.PathError)(nil); errors.As(err, &wrapped) {
			return nil, fmt.Errorf("%s: %w", m, wrapped.Err)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, place{array, m, info.IsDir()})
	}
	return out, nil
}

const (
	npySuffix = ".npy"
	npzSuffix = ".npz"

	setPrefix    = "test_data_set_"
	inputPrefix  = "input_"
	tensorSuffix = ".pb"
)

// formatOf returns the common format of all places.
func formatOf(places []place, o Options) (string, error) {
	if o.Format != "" && o.Format != formatAuto {
		return o.Format, nil
	}
	first := ""
	for _, p := range places {
		f, err := p.format(o)
		if err != nil {
			return "", err
		}
		if first == "" {
			first = f
		} else if f != first {
			return "", fmt.Errorf("%s is data of format %s, and %s of format %s: "+
				"name data of one format", places[0].path, first, p.path, f)
		}
	}
	return first, nil
}

func (p place) format(o Options) (string, error) {
	ext := filepath.Ext(p.path)
	switch {
	case p.dir:
		return folderFormat(p.path)
	case ext == npySuffix || ext == npzSuffix:
		return formatNpy, nil
	case o.Record != "":
		return formatRecords, nil
	case ext == ".bin" || ext == ".txt" || p.path == exampleText:
		return formatTokens, nil
	}
	return "", fmt.Errorf("%s: its name does not tell its contents: .bin and .txt are tokens, "+
		".npy and .npz arrays; name its format (%v), one of %s",
		p.path, hint.Format, strings.Join(Formats(), ", "))
}

// folderFormat looks at the names in a folder.
func folderFormat(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasSuffix(name, npySuffix):
			return formatNpy, nil
		case strings.HasPrefix(name, setPrefix),
			strings.HasPrefix(name, inputPrefix) && strings.HasSuffix(name, tensorSuffix):
			return formatONNX, nil
		}
	}
	return "", fmt.Errorf("%s: has neither arrays (NAME.npy) nor ONNX's test data "+
		"(test_data_set_0, input_0.pb): name its files, as in %s", dir, filepath.Join(dir, "*.bin"))
}
