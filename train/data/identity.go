package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"memopt/internal/mapfile"
)

// Identity reads files up to wholeBytes in full. In larger ones it reads both ends and samples of
// pageBytes at equal distances.
const (
	wholeBytes   = 32 << 20
	endBytes     = 1 << 20
	samplePages  = 1024
	pageBytes    = 4 << 10
	identityTerm = "memopt.data/v1"
)

// identity returns the sha256, in hexadecimal digits, of the way that the data is cut into samples,
// and of each file's name without its folder, its size, and its contents: all of them up to 32 MiB.
// In a larger file it reads the first and the last MiB and 1024 pages of 4 KiB between them at
// equal distances, because reading all would take minutes per 100 GB. An edit elsewhere that keeps
// the size is not noticed. Times do not count, so that a copy is the same data.
func identity(scheme string, fs files) (id string, err error) {
	defer mapfile.Guard(&err)()
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n%d files\n", identityTerm, scheme, len(fs))
	for _, f := range fs {
		fmt.Fprintf(h, "%q %d\n", f.name(), len(f.data))
		hashContents(h, f)
		if err := f.m.Check(); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashContents(h hash.Hash, f *file) {
	part := func(data []byte) {
		io.WriteString(h, "\n")
		h.Write(data)
		f.used(len(data))
	}
	n := len(f.data)
	if n <= wholeBytes {
		part(f.data)
		return
	}
	part(f.data[:endBytes])
	for i := range samplePages {
		at := endBytes + (n-2*endBytes-pageBytes)/samplePages*i
		part(f.data[at : at+pageBytes])
	}
	part(f.data[n-endBytes:])
}

// Identity is that of Source.
func (s *tokenSource) Identity() (string, error) { return identity(s.scheme, s.files) }
