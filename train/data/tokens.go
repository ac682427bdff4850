package data

import (
	"context"
	"fmt"
	"math/bits"
	"runtime/debug"
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/hint"
)

// tokenFile is a file that is one long row of tokens.
type tokenFile struct {
	*file
	dtype graph.DType
	data  []byte // the tokens
	count int64
}

// tokenSource cuts files of tokens into blocks. No block reaches from one file into the next.
type tokenSource struct {
	files
	tokens  []tokenFile
	inputs  []Input
	roles   []role
	seq     int64   // tokens of a sample
	span    int64   // tokens that a sample is made of: one more where labels are the next tokens
	first   []int64 // by input: the token of the block that its row begins with
	ends    []int64
	samples int64
	random  bool // where ends counts starts, not blocks
	seed    uint64
	docs    []document  // the samples where these are documents
	end     int64       // the token that ends documents; -1: that of a text
	fill    [][]convert // by file and input
	made    [][]byte    // by input: the row of an input that does not depend on the tokens
	scheme  string      // for Identity
}

// Labels of Options.
const (
	labelsNext = "next"
	labelsSame = "same"
)

// newTokens returns the source of files of tokens, and closes them if there is an error.
func newTokens(list []tokenFile, inputs []Input, o Options) (_ Source, err error) {
	end, documents, err := endOf(o.Blocks)
	if err != nil {
		return nil, err
	}
	s := &tokenSource{tokens: list, inputs: slices.Clone(inputs),
		random: o.Blocks == blocksRandom, seed: o.Seed, end: end}
	for _, f := range list {
		s.files = append(s.files, f.file)
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.roles, err = rolesOf(inputs, o.Names); err != nil {
		return nil, err
	}
	if err := s.setShapes(documents); err != nil {
		return nil, err
	}
	if documents {
		if err := s.checkPadding(); err != nil {
			return nil, err
		}
	}
	s.setFirst(o.Labels)
	for i, f := range list {
		if err := s.addFile(i, f, documents); err != nil {
			return nil, err
		}
	}
	s.makeRows(documents)
	s.scheme = fmt.Sprintf("%s seq=%d first=%d random=%v", formatTokens, s.seq, s.first, s.random)
	for _, f := range list {
		s.scheme += " " + f.dtype.String()
	}
	if s.random {
		s.scheme += fmt.Sprintf(" seed=%d", s.seed)
	}
	if documents {
		s.scheme += fmt.Sprintf(" documents end=%d", s.end)
		return documentSource{s}, nil
	}
	return s, nil
}

// addFile counts the samples of a file.
func (s *tokenSource) addFile(number int, f tokenFile, documents bool) error {
	if err := s.addConversions(f); err != nil {
		return err
	}
	if documents {
		return s.addDocuments(number, f)
	}
	return s.add(f)
}

// setFirst says which tokens are the labels.
func (s *tokenSource) setFirst(labels string) {
	s.first, s.span = make([]int64, len(s.inputs)), s.seq
	for i, r := range s.roles {
		if next := labels == labelsNext || labels != labelsSame && !s.inputs[i].Shifts; r == roleLabels && next {
			s.first[i], s.span = 1, s.seq+1
		}
	}
}

// setShapes finds the length of a sample, and checks that all inputs agree with it.
func (s *tokenSource) setShapes(documents bool) error {
	for i, in := range s.inputs {
		if s.roles[i] == roleTokens && len(in.Shape) == 1 && in.Batched && in.Shape[0] > 0 {
			s.seq = int64(in.Shape[0])
		}
	}
	for i := range s.inputs {
		in := &s.inputs[i]
		if err := s.checkInput(in, s.roles[i]); err != nil {
			return err
		}
		in.Ragged = documents
	}
	return nil
}

func (s *tokenSource) checkInput(in *Input, r role) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("input %q (%v%s), which is to hold %s: %w", in.Name, in.DType, dims(in.Shape),
			roleNames[r], fmt.Errorf(format, args...))
	}
	perSample := r == roleTokens || r == roleLabels
	switch {
	case perSample && !in.Batched:
		return fail("its first dim must be the batch's")
	case s.seq == 0:
		return fail("wanted one row of tokens per sample, of a length that is known: "+
			"bind its symbol, as in %v", hint.Dims.With("seq=256"))
	case perSample && !in.DType.IsInteger(), r == rolePositions && !in.DType.IsInteger():
		return fail("wanted integers")
	}
	last := len(in.Shape) - 1
	for axis, d := range in.Shape {
		want := 1
		if axis == last {
			want = int(s.seq)
		}
		if d == Unknown {
			in.Shape = slices.Clone(in.Shape)
			in.Shape[axis] = want
		} else if d != want {
			return fail("wanted %d tokens per sample", s.seq)
		}
	}
	switch {
	case last < 0 || perSample && last > 0:
		return fail("wanted %d tokens per sample", s.seq)
	case r == rolePositions && in.Classes > 0 && s.seq > in.Classes:
		return fail("the model knows %d positions, a sample has %d tokens", in.Classes, s.seq)
	case converter(graph.Int64, in.DType) == nil && in.DType != graph.Bool:
		return fail("elements of this type cannot be made")
	}
	return nil
}

// add counts the blocks of a file.
func (s *tokenSource) add(f tokenFile) error {
	if f.count < s.span {
		return fmt.Errorf("%s: has %d tokens of type %v; a sample takes %d",
			f.path, f.count, f.dtype, s.span)
	}
	blocks := (f.count-s.span)/s.seq + 1
	if s.samples += blocks; s.random {
		blocks = f.count - s.span + 1
	}
	if n := len(s.ends); n > 0 {
		blocks += s.ends[n-1]
	}
	s.ends = append(s.ends, blocks)
	return nil
}

// addConversions finds the conversions of a file's tokens to the types of the inputs.
func (s *tokenSource) addConversions(f tokenFile) error {
	row := make([]convert, len(s.inputs))
	for i := range s.inputs {
		if r := s.roles[i]; r == roleTokens || r == roleLabels {
			c, err := conversion(f.dtype, &s.inputs[i])
			if err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
			row[i] = c
		}
	}
	s.fill = append(s.fill, row)
	return nil
}

// Inputs, Samples and Tokens are those of Source.
func (s *tokenSource) Inputs() []Input { return s.inputs }
func (s *tokenSource) Samples() int64  { return s.samples }
func (s *tokenSource) Tokens() int64   { return s.seq }

// place returns the file of a sample, its first token there, and how many tokens it has; none of Empty.
func (s *tokenSource) place(i int64) (file int, first, n int64) {
	if s.docs != nil {
		if i == Empty {
			return 0, 0, 0
		}
		d := s.docs[i%s.samples]
		return int(d.file), d.first, int64(d.size)
	}
	at, step := i%s.samples, s.seq
	if s.random {
		// The upper half of the product of a random number and n is nearly uniform in [0, n).
		hi, _ := bits.Mul64(mix(mix(s.seed)+uint64(i)*golden), uint64(s.ends[len(s.ends)-1]))
		at, step = int64(hi), 1
	}
	f, _ := slices.BinarySearch(s.ends, at+1)
	if f > 0 {
		at -= s.ends[f-1]
	}
	return f, at * step, s.seq
}

// Fill copies a block or a document, as Source has it.
func (s *tokenSource) Fill(i int64, row int, batch []*executor.Tensor) (err error) {
	defer func(old bool) {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			err = fault(r)
		}
	}(debug.SetPanicOnFault(true))
	file, first, n := s.place(i)
	f := &s.tokens[file]
	size := int64(f.dtype.Bits() / 8)
	for j, r := range s.roles {
		t := batch[j]
		dst := t.Data
		if s.inputs[j].Batched {
			n := len(t.Data) / t.Shape[0]
			dst = t.Data[row*n:][:n]
		} else if row > 0 {
			continue
		}
		own := int(n) * t.DType.Bits() / 8 // bytes of the sample, without padding
		switch {
		case r == roleTokens || r == roleLabels:
			s.fill[file][j](dst[:own], f.data[(first+s.first[j])*size:][:n*size])
			copy(dst[own:], s.made[j])
		case r == roleOnes && s.inputs[j].Batched && n > 0: // all ones for Empty: a softmax has to have an addend
			copy(dst[:own], s.made[j])
			clear(dst[own:])
		default:
			copy(dst, s.made[j])
		}
	}
	f.used(int((n + s.span - s.seq) * size))
	return f.m.Check()
}

// makeRows makes the rows that are the same for every sample, and of documents the padding.
func (s *tokenSource) makeRows(documents bool) {
	s.made = make([][]byte, len(s.inputs))
	for i, r := range s.roles {
		numbers := make([]int64, s.seq)
		for k := range numbers {
			switch r {
			case rolePositions:
				numbers[k] = int64(k)
			case roleOnes:
				numbers[k] = 1
			case roleLabels:
				numbers[k] = s.inputs[i].Ignore
			case roleTokens:
				numbers[k] = max(s.end, 0)
			}
		}
		if !documents && (r == roleTokens || r == roleLabels) {
			continue
		}
		to := s.inputs[i].DType
		c := converter(graph.Int64, to)
		if to == graph.Bool {
			c = cast[int64, uint8]
		}
		s.made[i] = make([]byte, int(s.seq)*to.Bits()/8)
		c(s.made[i], executor.Memory(numbers))
	}
}

// Check reads all tokens, as Source has it.
func (s *tokenSource) Check(ctx context.Context) error {
	for i := range s.inputs {
		in := &s.inputs[i]
		if r := s.roles[i]; r != roleTokens && r != roleLabels || s.stricter(i) {
			continue
		}
		for _, f := range s.tokens {
			if err := f.check(ctx, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// stricter reports whether an earlier input takes the same tokens in the same range, so that they
// need not be read twice.
func (s *tokenSource) stricter(i int) bool {
	b := boundOf(&s.inputs[i])
	for j := range i {
		if r := s.roles[j]; (r == roleTokens || r == roleLabels) && boundOf(&s.inputs[j]) == b {
			return true
		}
	}
	return false
}

// scanBytes is the size of a scan's read.
const scanBytes = 4 << 20

// check reads the tokens of a file for an input.
func (f *tokenFile) check(ctx context.Context, in *Input) error {
	b := boundOf(in)
	if b.holds(f.dtype) {
		return ctx.Err()
	}
	size := int64(f.dtype.Bits() / 8)
	at, err := scan(ctx, f.count, scanBytes/size, func(from, to int64) int64 {
		at, _ := b.outside(f.dtype, f.data[from*size:to*size])
		f.used(int((to - from) * size))
		if at < 0 {
			return -1
		}
		return from + int64(at)
	})
	if err == nil {
		err = f.m.Check()
	}
	if err != nil || at < 0 {
		return err
	}
	_, v := b.outside(f.dtype, f.data[at*size:(at+1)*size])
	return fmt.Errorf("%s: token %d (byte %d, %v) is %d; input %q takes tokens from 0 to %d: "+
		"the tokens are another vocabulary's, or of another type (%v)",
		f.path, at, int64(len(f.file.data)-len(f.data))+at*size, f.dtype, v, in.Name, in.Classes-1,
		hint.TokenType)
}
