package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"memopt/executor/npz"
	"memopt/graph"
	"memopt/hint"
)

// tokenTypes are the values of Options.TokenType.
var tokenTypes = []graph.DType{graph.Uint16, graph.Uint8, graph.Uint32, graph.Int32, graph.Int64}

// tokenType parses Options.TokenType; "" is Undefined.
func tokenType(name string) (graph.DType, error) {
	if name == "" || name == formatAuto {
		return graph.Undefined, nil
	}
	d, _ := graph.ParseDType(name)
	if !slices.Contains(tokenTypes, d) {
		return d, fmt.Errorf("token type %q: wanted one of %s", name, tokenTypeNames())
	}
	return d, nil
}

// openTokens maps a file of tokens of a type; of the type that its name and contents say if that is
// Undefined.
func openTokens(path string, d graph.DType) (tokenFile, error) {
	if path == exampleText {
		return exampleTokens(), nil
	}
	f, err := openFile(path)
	if err != nil {
		return tokenFile{}, err
	}
	t, err := readTokens(f, d)
	if err != nil {
		f.m.Close()
		return tokenFile{}, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func readTokens(f *file, d graph.DType) (t tokenFile, err error) {
	if strings.HasSuffix(f.path, npySuffix) {
		return readTokenArray(f, d)
	}
	t = tokenFile{file: f, dtype: d, data: f.data}
	if header, typ, ok := tokenHeader(f.data); ok {
		if d != graph.Undefined && d != typ {
			return t, fmt.Errorf("its header says that the tokens are %v; wanted %v, as %v says", typ, d,
				hint.TokenType)
		}
		t.data, t.dtype = f.data[header:], typ
	} else if d == graph.Undefined {
		if t.dtype = graph.Uint16; strings.HasSuffix(f.path, ".txt") {
			t.dtype = graph.Uint8
		} else if widerThanSaid(f.data) {
			return t, fmt.Errorf("every second number of 16 bits is 0, so that its tokens look like "+
				"uint32: say which they are (%v)", hint.TokenType)
		}
	}
	size := t.dtype.Bits() / 8
	if len(t.data)%size != 0 {
		return t, fmt.Errorf("has %d bytes, which is no whole number of tokens of type %v",
			len(t.data), t.dtype)
	}
	t.count = int64(len(t.data) / size)
	return t, nil
}

// readTokenArray reads a .npy file of one row.
func readTokenArray(f *file, d graph.DType) (t tokenFile, err error) {
	list, err := npz.View(f.data, nil)
	switch {
	case err != nil:
		return t, err
	case len(list) != 1 || list[0].Rank() != 1 || !slices.Contains(tokenTypes, list[0].DType):
		return t, errors.New("wanted one array with one dim, of " + tokenTypeNames())
	case d != graph.Undefined && d != list[0].DType:
		return t, fmt.Errorf("is an array of %v; wanted %v, as %v says", list[0].DType, d, hint.TokenType)
	}
	a := list[0]
	return tokenFile{file: f, dtype: a.DType, data: a.Data, count: int64(a.Len())}, nil
}

func tokenTypeNames() string {
	names := make([]string, len(tokenTypes))
	for i, d := range tokenTypes {
		names[i] = d.String()
	}
	return strings.Join(names, ", ")
}

// tokenHeader recognizes the header of llm.c's files: 256 numbers of 32 bits, which begin with a
// magic number, a version and the number of tokens.
func tokenHeader(data []byte) (header int, d graph.DType, ok bool) {
	const length = 256 * 4
	if len(data) < length {
		return 0, d, false
	}
	magic, version := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
	count := uint64(binary.LittleEndian.Uint32(data[8:]))
	switch {
	case magic == 20240520 && version == 1:
		d = graph.Uint16
	case magic == 20240801 && version == 7:
		d = graph.Uint32
	default:
		return 0, d, false
	}
	return length, d, count*uint64(d.Bits()/8) == uint64(len(data)-length)
}

// widerThanSaid reports whether data that is taken for numbers of 16 bits has a 0 in every second
// place, as small numbers of 32 bits do.
func widerThanSaid(data []byte) bool {
	const least, most = 64, 1 << 16
	if len(data) < least || len(data)%4 != 0 {
		return false
	}
	low := false
	for i := 0; i+4 <= min(len(data), most); i += 4 {
		if data[i+2] != 0 || data[i+3] != 0 {
			return false
		}
		low = low || data[i] != 0 || data[i+1] != 0
	}
	return low
}
