package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"memopt/executor"
	"memopt/internal/memlimit"
)

// Write writes a file. read fills dst with the contents of entry i; it is called once for each
// entry, in the order of the file, and dst is used again, so that no more memory is taken than the
// largest tensor has.
//
// Tensors lie in the order of the reference implementation: the types of the largest alignment
// first, and by name among those of one type. So the bytes depend on the tensors and the metadata
// alone, and not on the order of the entries.
func Write(w io.Writer, entries []Entry, metadata map[string]string,
	read func(i int, dst []byte) error) error {
	order, largest, err := arrange(entries)
	if err != nil {
		return err
	}
	if err := writeHeader(w, entries, order, metadata); err != nil {
		return err
	}
	if err := memlimit.Check(int64(largest), "a tensor to be written"); err != nil {
		return err
	}
	buffer := make([]byte, largest)
	for _, i := range order {
		size, _ := executor.Bytes(entries[i].DType, entries[i].Shape)
		if err := read(i, buffer[:size]); err != nil {
			return fmt.Errorf("tensor %q: %w", entries[i].Name, err)
		}
		if _, err := w.Write(buffer[:size]); err != nil {
			return err
		}
	}
	return nil
}

// arrange checks entries and returns the order of their contents and the size of the largest.
func arrange(entries []Entry) (order []int, largest int, err error) {
	order = make([]int, len(entries))
	for i, e := range entries {
		order[i] = i
		size, ok := executor.Bytes(e.DType, e.Shape)
		switch {
		case rank(e.DType) < 0:
			return nil, 0, fmt.Errorf("tensor %q has type %v, which safetensors has no name for; it has %s",
				e.Name, e.DType, dtypeNames())
		case !ok:
			return nil, 0, fmt.Errorf("tensor %q: shape %v has a negative dim or more than 2^62 bytes",
				e.Name, e.Shape)
		case e.Name == metadataKey:
			return nil, 0, fmt.Errorf("a tensor is called %q, which safetensors keeps for metadata", e.Name)
		case !utf8.ValidString(e.Name):
			return nil, 0, fmt.Errorf("the tensor's name %q is not UTF-8, which safetensors wants", e.Name)
		}
		largest = max(largest, size)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(-cmp.Compare(rank(entries[a].DType), rank(entries[b].DType)),
			cmp.Compare(entries[a].Name, entries[b].Name))
	})
	names := slices.Clone(order)
	slices.SortFunc(names, func(a, b int) int { return cmp.Compare(entries[a].Name, entries[b].Name) })
	for k := 1; k < len(names); k++ {
		if name := entries[names[k]].Name; name == entries[names[k-1]].Name {
			return nil, 0, fmt.Errorf("two tensors are called %q", name)
		}
	}
	return order, largest, nil
}

// writeHeader writes the header, which precedes the contents.
func writeHeader(w io.Writer, entries []Entry, order []int, metadata map[string]string) error {
	text := []byte("{")
	if len(metadata) > 0 {
		text = append(appendText(text, metadataKey), ":{"...)
		for k, key := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
				return fmt.Errorf("metadata %q: %q is not UTF-8, which safetensors wants", key, metadata[key])
			}
			text = append(appendText(appendComma(text, k), key), ':')
			text = appendText(text, metadata[key])
		}
		text = append(text, '}')
	}
	begin := 0
	for _, i := range order {
		e := entries[i]
		size, _ := executor.Bytes(e.DType, e.Shape)
		if begin+size < begin {
			return fmt.Errorf("tensor %q: all tensors together have more than 2^63 bytes", e.Name)
		}
		text = append(appendText(appendComma(text, len(text)-1), e.Name), `:{"dtype":"`...)
		text = append(append(text, dtypes[rank(e.DType)].name...), `","shape":[`...)
		for k, d := range e.Shape {
			text = fmt.Append(appendComma(text, k), d)
		}
		text = fmt.Appendf(text, `],"data_offsets":[%d,%d]}`, begin, begin+size)
		begin += size
	}
	text = append(text, '}')
	text = append(text, bytes.Repeat([]byte(" "), -len(text)&(alignment-1))...)
	if len(text) > maxHeader {
		return fmt.Errorf("the header has %d bytes; safetensors allows %d", len(text), maxHeader)
	}
	_, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...))
	return err
}

// appendComma appends a comma unless n, the number of things before, is 0.
func appendComma(text []byte, n int) []byte {
	if n == 0 {
		return text
	}
	return append(text, ',')
}

// appendText appends a JSON string.
func appendText(text []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string can always be encoded
	}
	return append(text, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
