package mutate

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
)

// entry is a file of an archive.
type entry struct {
	name string
	data []byte
}

// NPZ makes a mutant of one of numpy's archives.
func NPZ(data, genome []byte) ([]byte, []string) {
	entries, err := unzip(data)
	var did []string
	var noise []*rand.Rand
	for _, rng := range genes(genome) {
		if err != nil || len(entries) == 0 || one(rng, 6) {
			noise = append(noise, rng)
			continue
		}
		var what string
		entries, what = mutateEntries(rng, entries)
		did = append(did, what)
	}
	if err == nil {
		data = rezip(entries)
	}
	for _, rng := range noise {
		var what string
		data, what = flipBytes(rng, data)
		did = append(did, what)
	}
	return data, did
}

func mutateEntries(rng *rand.Rand, list []entry) ([]entry, string) {
	i := rng.IntN(len(list))
	e := &list[i]
	switch rng.IntN(8) {
	case 0:
		return slices.Delete(list, i, i+1), fmt.Sprintf("entry %d left out", i)
	case 1:
		return append(list, entry{e.name, slices.Clone(e.data)}), fmt.Sprintf("entry %d doubled", i)
	case 2:
		e.name = word(rng, e.name)
		if one(rng, 2) {
			e.name += ".npy"
		}
		return list, fmt.Sprintf("entry %d is called %.60q", i, e.name)
	case 3:
		e.data = e.data[:rng.IntN(len(e.data)+1)]
		return list, fmt.Sprintf("entry %d has %d bytes", i, len(e.data))
	case 4:
		e.data = append(slices.Clone(e.data), make([]byte, 1+rng.IntN(64))...)
		return list, fmt.Sprintf("entry %d has %d bytes", i, len(e.data))
	}
	var what string
	e.data, what = npyHeader(rng, e.data)
	return list, fmt.Sprintf("entry %d: %s", i, what)
}

// npyPrefix is the length of the part of a .npy file before its header, in version 1.
const npyPrefix = 10

// npyHeader changes the header of a .npy file, which is a Python dictionary, and mostly corrects
// its length.
func npyHeader(rng *rand.Rand, data []byte) ([]byte, string) {
	if len(data) < npyPrefix || len(data) < npyPrefix+int(binary.LittleEndian.Uint16(data[8:])) {
		return flipBytes(rng, data)
	}
	end := npyPrefix + int(binary.LittleEndian.Uint16(data[8:]))
	header := string(data[npyPrefix:end])
	switch rng.IntN(4) {
	case 0:
		old := pick(rng,
			[]string{"<f4", "<i8", "<f8", "|b1", "False", "fortran_order", "descr", "shape", "(", ")", "}"})
		header = strings.Replace(header, old,
			pick(rng, []string{"<f8", ">f4", "<i4", "|u1", "|O", "<U7", "<f2", "<c8", "|S0", "<M8[ns]", "True",
				"x", ""}), 1)
	case 1:
		at := strings.IndexByte(header, '(')
		close := strings.IndexByte(header, ')')
		if at >= 0 && at < close {
			header = header[:at] +
				pick(rng,
					[]string{"()", "(0,)", "(-1,)", "(9223372036854775807,)", "(4294967296, 4294967296)", "(3,)",
						"(1, 1, 1, 1, 1, 1, 1, 1, 1)", "(1e3,)", "(,)", "(((("}) + header[close+1:]
		}
	case 2:
		header = header[:rng.IntN(len(header)+1)]
	case 3:
		text, _ := flipBytes(rng, []byte(header))
		header = string(text)
	}
	out := append(slices.Clone(data[:npyPrefix]), header...)
	binary.LittleEndian.PutUint16(out[8:], uint16(len(header)))
	if one(rng, 8) {
		out[6+rng.IntN(4)] = byte(rng.Uint32()) // the version, or the length
	}
	return append(out, data[end:]...), fmt.Sprintf("its header is %.80q", header)
}

func unzip(data []byte) ([]entry, error) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	var list []entry
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(io.LimitReader(in, largest))
		in.Close()
		if err != nil {
			return nil, err
		}
		list = append(list, entry{f.Name, content})
	}
	return list, nil
}

func rezip(list []entry) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range list {
		if f, err := w.CreateHeader(&zip.FileHeader{Name: e.name}); err == nil {
			f.Write(e.data) // into memory
		}
	}
	w.Close()
	return out.Bytes()
}
