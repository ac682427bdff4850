package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"memopt/graph"
	"memopt/hint"
	"memopt/internal/memlimit"
)

// document is a sample that ends where a document of a file does, or after as many tokens as a sample may have.
type document struct {
	first int64 // token of the file
	file  int32
	size  int32
}

// endOf reads Options.Blocks: whether samples are documents, and the token that ends them; -1 where it is not given.
func endOf(blocks string) (end int64, documents bool, err error) {
	name, text, given := strings.Cut(blocks, ":")
	if name != blocksDocuments {
		return 0, false, nil
	}
	if !given {
		return -1, true, nil
	}
	if end, err = strconv.ParseInt(text, 10, 64); err != nil || end < 0 {
		return 0, true, fmt.Errorf("blocks %q: wanted the token that ends a document, as in documents:50256", blocks)
	}
	return end, true, nil
}

// lineFeed ends the documents of a text.
const lineFeed = '\n'

// addDocuments finds the documents of a file. Those that are longer than a sample are several.
func (s *tokenSource) addDocuments(number int, f tokenFile) error {
	end := s.end
	if end < 0 {
		if f.dtype != graph.Uint8 {
			return fmt.Errorf("%s: which token ends a document is not known for tokens of type %v: name it, as in "+
				"%v", f.path, f.dtype, hint.Blocks.With("documents:50256"))
		}
		end = lineFeed
	}
	extra := s.span - s.seq
	least := 2 - extra // tokens of which at least one is predicted
	before := len(s.docs)
	for from := int64(0); from < f.count; {
		to := f.next(from, end)
		if from == 0 && to == f.count && !f.has(to-1, end) {
			return fmt.Errorf("%s: has no token %d, which is to end its documents: name the token that does, as in "+
				"%v", f.path, end, hint.Blocks.With("documents:50256"))
		}
		for at := from; at+extra < to; at += s.seq {
			if size := min(s.seq, to-extra-at); size >= least {
				s.docs = append(s.docs, document{first: at, file: int32(number), size: int32(size)})
			}
		}
		from = to
		if len(s.docs)&(1<<16-1) == 0 {
			if err := memlimit.Check(int64(len(s.docs))*40, "the places of %d documents", len(s.docs)); err != nil {
				return err
			}
		}
	}
	f.used(len(f.data))
	if len(s.docs) == before {
		return fmt.Errorf("%s: has no document of two tokens or more", f.path)
	}
	s.samples = int64(len(s.docs))
	return f.m.Check()
}

// next is the place behind the next token of a value, or the end of the file.
func (f *tokenFile) next(from, value int64) int64 {
	if f.dtype == graph.Uint8 {
		if i := bytes.IndexByte(f.data[from:], byte(value)); i >= 0 && value < 256 {
			return from + int64(i) + 1
		}
		return f.count
	}
	for at := from; at < f.count; at++ {
		if f.has(at, value) {
			return at + 1
		}
	}
	return f.count
}

// has tells whether a token has a value.
func (f *tokenFile) has(at, value int64) bool {
	size := int64(f.dtype.Bits() / 8)
	data := f.data[at*size:]
	switch size {
	case 1:
		return int64(data[0]) == value
	case 2:
		return int64(binary.LittleEndian.Uint16(data)) == value
	case 4:
		return int64(binary.LittleEndian.Uint32(data)) == value
	}
	return int64(binary.LittleEndian.Uint64(data)) == value
}

// checkPadding wants labels with a value that does not count, which padding has.
func (s *tokenSource) checkPadding() error {
	labels := 0
	for i, in := range s.inputs {
		if s.roles[i] != roleLabels {
			continue
		}
		if labels++; !in.HasIgnore {
			return fmt.Errorf("input %q: the loss ignores no label, so that the padding of documents would count: "+
				"take a loss with an ignored label, such as -100, or blocks of one length (%v)", in.Name, hint.Blocks)
		}
	}
	if labels == 0 {
		return fmt.Errorf("the model has no input for labels, so that the padding of documents would count: take "+
			"blocks of one length (%v)", hint.Blocks)
	}
	return nil
}

// documentSource is a tokenSource of documents.
type documentSource struct{ *tokenSource }

// Sizes are those of Ragged.
func (s documentSource) Sizes() []int32 {
	sizes := make([]int32, len(s.docs))
	for i, d := range s.docs {
		sizes[i] = d.size
	}
	return sizes
}

// Tokens is that of Source: documents have no number of tokens in common.
func (s documentSource) Tokens() int64 { return 0 }
