package data

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/graph"
)

// gpt has the inputs of a language model.
func gpt(seq int, vocabulary int64) []Input {
	return []Input{
		{Name: "input_ids", DType: graph.Int64, Shape: []int{seq}, Batched: true, Classes: vocabulary},
		{Name: "labels", DType: graph.Int64, Shape: []int{seq}, Batched: true, Classes: vocabulary,
			Ignore: -100, HasIgnore: true},
	}
}

// write16 writes tokens as nanoGPT's prepare.py does: uint16, nothing before or behind.
func write16(t require.TestingT, path string, tokens []int64) {
	var raw []byte
	for _, v := range tokens {
		raw = binary.LittleEndian.AppendUint16(raw, uint16(v))
	}
	require.NoError(t, os.WriteFile(path, raw, 0o666))
}

// open opens data and closes it after the test.
func open(t *testing.T, paths []string, inputs []Input, o Options) Source {
	t.Helper()
	s, err := Open(paths, inputs, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// batchOf makes a batch of samples.
func batchOf(t require.TestingT, s Source, samples ...int64) []*executor.Tensor {
	b, err := newBatch(s.Inputs(), len(samples))
	require.NoError(t, err)
	for row, i := range samples {
		require.NoError(t, s.Fill(i, row, b.Tensors))
	}
	return b.Tensors
}

func int64s(t *executor.Tensor) []int64 { return executor.Of[int64](t) }

// TestTokenBlocks: blocks follow each other, each is predicted from the tokens before it, and none
// crosses the end of a file; against slices of the numbers that were written.
func TestTokenBlocks(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		seq := rapid.IntRange(1, 9).Draw(r, "seq")
		labels := rapid.SampledFrom([]string{"", formatAuto, labelsNext, labelsSame}).Draw(r, "labels")
		in := gpt(seq, 65536)
		in[1].Shifts = rapid.Bool().Draw(r, "shifts")
		next := 1
		if labels == labelsSame || labels != labelsNext && in[1].Shifts {
			next = 0
		}
		var paths []string
		var want [][2][]int64
		for f := range rapid.IntRange(1, 4).Draw(r, "files") {
			tokens := rapid.SliceOfN(rapid.Int64Range(1, 65535), seq+next, 60).Draw(r, "tokens")
			paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.bin", f)))
			write16(r, paths[f], tokens)
			for at := 0; at+seq+next <= len(tokens); at += seq {
				want = append(want, [2][]int64{tokens[at : at+seq], tokens[at+next : at+next+seq]})
			}
		}
		s, err := Open(paths, in, Options{Labels: labels})
		require.NoError(r, err)
		defer s.Close()
		require.EqualValues(r, len(want), s.Samples())
		require.EqualValues(r, seq, s.Tokens())
		require.NoError(r, s.Check(context.Background()))
		for i, w := range want {
			for _, epoch := range []int64{0, 3} {
				b := batchOf(r, s, epoch*s.Samples()+int64(i))
				require.Equal(r, w[0], int64s(b[0]), "sample %d", i)
				require.Equal(r, w[1], int64s(b[1]), "sample %d", i)
			}
		}
	})
}

// TestRandomBlocks: every place of a block in every file comes up equally often, nothing else does,
// and the same number means the same block.
func TestRandomBlocks(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	lengths := []int{12, 6, 30}
	starts := map[int64]int{} // first tokens of blocks
	const seq = 5
	for f, n := range lengths {
		tokens := make([]int64, n)
		for i := range tokens {
			tokens[i] = int64(1000*(f+1) + i)
			if i+seq < n {
				starts[tokens[i]] = len(starts)
			}
		}
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.bin", f)))
		write16(t, paths[f], tokens)
	}
	require.Len(t, starts, 7+1+25)
	s := open(t, paths, gpt(seq, 0), Options{Blocks: blocksRandom, Seed: 9})
	require.EqualValues(t, 2+1+5, s.Samples(), "an epoch is as long as that of disjoint blocks")
	again := open(t, paths, gpt(seq, 0), Options{Blocks: blocksRandom, Seed: 9})
	other := open(t, paths, gpt(seq, 0), Options{Blocks: blocksRandom, Seed: 10})
	counts := make([]int, len(starts))
	const draws = 33000
	differ := 0
	for i := range int64(draws) {
		b := batchOf(t, s, i)
		ids := slices.Clone(int64s(b[0]))
		for j := range ids {
			require.Equal(t, ids[0]+int64(j), ids[j])
			require.Equal(t, ids[j]+1, int64s(b[1])[j])
		}
		place, ok := starts[ids[0]]
		require.True(t, ok, "a block starts with %d", ids[0])
		counts[place]++
		require.Equal(t, ids, int64s(batchOf(t, again, i)[0]))
		if !slices.Equal(ids, int64s(batchOf(t, other, i)[0])) {
			differ++
		}
	}
	require.Less(t, chiSquare(counts, draws), chiBound(int64(len(starts)-1)))
	require.Greater(t, differ, draws/2)
}

// TestTokenTypes reads the same tokens from files of every type, and with llm.c's headers.
func TestTokenTypes(t *testing.T) {
	dir := t.TempDir()
	tokens := []int64{3, 250, 7, 0, 9, 1, 2}
	encode := func(size int) (raw []byte) {
		for _, v := range tokens {
			raw = append(raw, binary.LittleEndian.AppendUint64(nil, uint64(v))[:size]...)
		}
		return raw
	}
	header := func(magic, version uint32) []byte {
		h := binary.LittleEndian.AppendUint32(nil, magic)
		h = binary.LittleEndian.AppendUint32(h, version)
		h = binary.LittleEndian.AppendUint32(h, uint32(len(tokens)))
		return append(h, make([]byte, 1024-len(h))...)
	}
	for _, c := range []struct {
		name, typ string
		data      []byte
	}{
		{"a.bin", "", encode(2)},
		{"b.bin", "uint16", encode(2)},
		{"c.txt", "", encode(1)},
		{"d.bin", "uint8", encode(1)},
		{"e.bin", "uint32", encode(4)},
		{"f.bin", "int32", encode(4)},
		{"g.bin", "int64", encode(8)},
		{"h.bin", "", append(header(20240520, 1), encode(2)...)},
		{"i.bin", "uint16", append(header(20240520, 1), encode(2)...)},
		{"j.bin", "", append(header(20240801, 7), encode(4)...)},
		{"k.bin", "uint32", append(header(20240801, 7), encode(4)...)},
	} {
		path := filepath.Join(dir, c.name)
		require.NoError(t, os.WriteFile(path, c.data, 0o666))
		for _, d := range []graph.DType{graph.Int64, graph.Int32, graph.Uint16} {
			in := gpt(6, 256)
			in[0].DType = d
			s := open(t, []string{path}, in, Options{TokenType: c.typ})
			require.EqualValues(t, 1, s.Samples(), c.name)
			b := batchOf(t, s, 0)
			ids := make([]int64, 6)
			converter(d, graph.Int64)(executor.Memory(ids), b[0].Data)
			require.Equal(t, tokens[:6], ids, c.name)
			require.Equal(t, tokens[1:], int64s(b[1]), c.name)
		}
	}
	_, err := Open([]string{filepath.Join(dir, "h.bin")}, gpt(6, 0), Options{TokenType: "uint8"})
	require.ErrorContains(t, err, "h.bin: its header says that the tokens are uint16; wanted uint8, as TokenType")
	// A header whose count is another one is no header, nor one for another type.
	wrong := append(header(20240520, 1), encode(2)[:12]...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.bin"), wrong, 0o666))
	s := open(t, []string{filepath.Join(dir, "x.bin")}, gpt(6, 0), Options{TokenType: "uint16"})
	require.EqualValues(t, (len(wrong)/2-1)/6, s.Samples())
}

// TestOtherTokenInputs: positions, masks and segments, batched or not.
func TestOtherTokenInputs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.bin")
	write16(t, path, []int64{5, 6, 7, 8, 9, 10, 11, 12})
	inputs := append(gpt(3, 16),
		Input{Name: "position_ids", DType: graph.Int32, Shape: []int{1, 3}},
		Input{Name: "attention_mask", DType: graph.Float32, Shape: []int{3}, Batched: true},
		Input{Name: "token_type_ids", DType: graph.Int64, Shape: []int{Unknown}, Batched: true},
		Input{Name: "flags", DType: graph.Bool, Shape: []int{3}, Batched: true},
		Input{Name: "pos2", DType: graph.Int64, Shape: []int{3}, Batched: true, Classes: 3},
		Input{Name: "half_mask", DType: graph.Float16, Shape: []int{3}, Batched: true})
	s := open(t, []string{path}, inputs, Options{Names: map[string]string{"flags": "ones", "pos2": "positions"}})
	require.Equal(t, []int{3}, s.Inputs()[4].Shape)
	require.Equal(t, Unknown, inputs[4].Shape[0], "the caller's inputs stay as they are")
	b, err := newBatch(s.Inputs(), 2)
	require.NoError(t, err)
	for _, x := range b.Tensors {
		for i := range x.Data {
			x.Data[i] = 0xee
		}
	}
	require.NoError(t, s.Fill(0, 0, b.Tensors))
	require.NoError(t, s.Fill(1, 1, b.Tensors))
	require.Equal(t, []int64{5, 6, 7, 8, 9, 10}, int64s(b.Tensors[0]))
	require.Equal(t, []int64{6, 7, 8, 9, 10, 11}, int64s(b.Tensors[1]))
	require.Equal(t, []int32{0, 1, 2}, executor.Of[int32](b.Tensors[2]))
	require.Equal(t, []float32{1, 1, 1, 1, 1, 1}, executor.Of[float32](b.Tensors[3]))
	require.Equal(t, make([]int64, 6), int64s(b.Tensors[4]))
	require.Equal(t, []byte{1, 1, 1, 1, 1, 1}, b.Tensors[5].Data)
	require.Equal(t, []int64{0, 1, 2, 0, 1, 2}, int64s(b.Tensors[6]))
	require.Equal(t, []uint16{0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00}, executor.Of[uint16](b.Tensors[7]))
	// A model that has one input and makes its labels itself reads no token more than it is given.
	one := open(t, []string{path}, gpt(4, 0)[:1], Options{})
	require.EqualValues(t, 2, one.Samples())
}

// TestRoles: what inputs hold goes by their names.
func TestRoles(t *testing.T) {
	for name, want := range map[string]role{
		"input_ids": roleTokens, "idx": roleTokens, "X": roleTokens, "src_tokens": roleTokens,
		"labels": roleLabels, "targets": roleLabels, "y": roleLabels, "target_ids": roleLabels,
		"position_ids": rolePositions, "decoder_position_ids": rolePositions, "attention_mask": roleOnes,
		"token_type_ids": roleZeros, "w": noRole,
	} {
		require.Equal(t, want, usualRole(name), name)
	}
}

// TestTokenRange: the first token outside the vocabulary is named, wherever it is.
func TestTokenRange(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		vocabulary := rapid.Int64Range(2, 70000).Draw(r, "vocabulary")
		tokens := rapid.SliceOfN(rapid.Int64Range(0, min(vocabulary, 65536)-1), 10, 300).Draw(r, "tokens")
		path := filepath.Join(dir, "a.bin")
		bad := -1
		if vocabulary < 65536 {
			for range rapid.IntRange(0, 3).Draw(r, "faults") {
				at := rapid.IntRange(0, len(tokens)-1).Draw(r, "at")
				tokens[at] = rapid.Int64Range(vocabulary, 65535).Draw(r, "token")
			}
			bad = slices.IndexFunc(tokens, func(v int64) bool { return v >= vocabulary })
		}
		write16(r, path, tokens)
		s, err := Open([]string{path}, gpt(4, vocabulary), Options{TokenType: "uint16"})
		require.NoError(r, err)
		defer s.Close()
		err = s.Check(context.Background())
		if bad < 0 {
			require.NoError(r, err)
			return
		}
		require.ErrorContains(r, err, fmt.Sprintf("%s: token %d (byte %d, uint16) is %d; input \"input_ids\" takes "+
			"tokens from 0 to %d", path, bad, 2*bad, tokens[bad], vocabulary-1))
	})
}

// TestTokenRangeOfLabels: labels of a smaller range are checked as well, and what lies behind a
// header counts from there.
func TestTokenRangeOfLabels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.bin")
	write16(t, path, []int64{1, 2, 3, 90, 5, 6})
	in := gpt(2, 100)
	in[1].Classes = 50
	err := open(t, []string{path}, in, Options{}).Check(context.Background())
	require.ErrorContains(t, err, `token 3 (byte 6, uint16) is 90; input "labels" takes tokens from 0 to 49`)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, open(t, []string{path}, in, Options{}).Check(ctx), context.Canceled)
}

// TestTokenErrors: what does not fit is said with the file, the input, and what was wanted.
func TestTokenErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.bin")
	write16(t, path, []int64{1, 2, 3, 4, 5, 6, 7, 8})
	short := filepath.Join(dir, "short.bin")
	write16(t, short, []int64{1, 2})
	odd := filepath.Join(dir, "odd.bin")
	require.NoError(t, os.WriteFile(odd, []byte{1, 2, 3}, 0o666))
	wide := filepath.Join(dir, "wide.bin")
	var raw []byte
	for i := range uint32(40) {
		raw = binary.LittleEndian.AppendUint32(raw, i)
	}
	require.NoError(t, os.WriteFile(wide, raw, 0o666))
	with := func(change func(in []Input)) []Input {
		in := append(gpt(4, 100), Input{Name: "pos", DType: graph.Int64, Shape: []int{4}, Batched: true})
		change(in)
		return in
	}
	same := func([]Input) {}
	for _, c := range []struct {
		want   string
		paths  []string
		inputs []Input
		o      Options
	}{
		{short + ": has 2 tokens of type uint16; a sample takes 5", []string{path, short}, with(same), Options{}},
		{odd + ": has 3 bytes, which is no whole number of tokens of type uint16", []string{odd}, with(same),
			Options{}},
		{wide + ": every second number of 16 bits is 0", []string{wide}, with(same), Options{}},
		{`input "input_ids" (float[4]), which is to hold tokens: wanted integers`, []string{path},
			with(func(in []Input) { in[0].DType = graph.Float32 }), Options{}},
		{`which is to hold tokens: its first dim must be the batch's`, []string{path},
			with(func(in []Input) { in[0].Batched = false }), Options{}},
		{`wanted one row of tokens per sample, of a length that is known: bind its symbol`, []string{path},
			with(func(in []Input) { in[0].Shape = []int{Unknown} }), Options{}},
		{`input "labels" (int64[3]), which is to hold labels: wanted 4 tokens per sample`, []string{path},
			with(func(in []Input) { in[1].Shape = []int{3} }), Options{}},
		{`input "labels" (int64[]), which is to hold labels: wanted 4 tokens per sample`, []string{path},
			with(func(in []Input) { in[1].Shape = nil }), Options{}},
		{`the model knows 3 positions, a sample has 4 tokens`, []string{path},
			with(func(in []Input) { in[2].Classes = 3 }), Options{}},
		{`input "pos" (int64[4 4]), which is to hold positions: wanted 4 tokens`, []string{path},
			with(func(in []Input) { in[2].Shape = []int{4, 4} }), Options{}},
		{`has elements of type uint16; input "input_ids" takes uint8, and not every uint16 is one`, []string{path},
			with(func(in []Input) { in[0].DType, in[0].Classes = graph.Uint8, 257 }), Options{}},
		{`input "q" (int64): its name does not tell its contents; say which of tokens, labels`, []string{path},
			with(func(in []Input) { in[1].Name = "q" }), Options{}},
		{`no input takes tokens, of "labels" (int64)`, []string{path}, gpt(4, 0)[1:], Options{}},
		{`input "labels": cannot be "label"; it can hold tokens, labels, positions, ones, zeros`, []string{path},
			with(same), Options{Names: map[string]string{"labels": "label"}}},
		{`no input "label" is to be filled; there are "input_ids"`, []string{path}, with(same),
			Options{Names: map[string]string{"label": "labels"}}},
		{`token type "float": wanted one of uint16, uint8`, []string{path}, with(same), Options{TokenType: "float"}},
		{`blocks "any": wanted one of disjoint, random`, []string{path}, with(same), Options{Blocks: "any"}},
		{`labels "shifted": wanted one of auto, next, same`, []string{path}, with(same), Options{Labels: "shifted"}},
		{`format "csv": wanted one of auto, tokens`, []string{path}, with(same), Options{Format: "csv"}},
	} {
		s, err := Open(c.paths, c.inputs, c.o)
		require.ErrorContains(t, err, c.want)
		require.Nil(t, s)
	}
	in := gpt(4, 255)
	in[0].DType = graph.Uint8
	open(t, []string{path}, in, Options{}) // every token that Check lets pass is one
}

// TestChangedTokens: a file that changes is an error, not a crash, and not a token.
func TestChangedTokens(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"shorter": func(path string) error { return os.Truncate(path, 3) },
		"written": func(path string) error { return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.bin")
			write16(t, path, make([]int64, 1<<16))
			in := gpt(64, 100)
			s := open(t, []string{path}, in, Options{TokenType: "uint16"})
			b, err := newBatch(in, 1)
			require.NoError(t, err)
			last := s.Samples() - 1
			require.NoError(t, s.Fill(last, 0, b.Tensors))
			require.NoError(t, change(path))
			require.ErrorContains(t, s.Fill(last, 0, b.Tensors), path+" changed while it was read")
			require.ErrorContains(t, s.Check(context.Background()), path+" changed while it was read")
			_, err = s.Identity()
			require.ErrorContains(t, err, path+" changed while it was read")
		})
	}
}

// TestExampleText: the built-in text is there without a file, always the same, in bytes that a
// vocabulary of 256 has, and long enough.
func TestExampleText(t *testing.T) {
	s := open(t, []string{exampleText}, gpt(64, 256), Options{})
	require.NoError(t, s.Check(context.Background()))
	require.GreaterOrEqual(t, s.Samples(), int64(4000))
	text := make([]byte, 64)
	for i, v := range int64s(batchOf(t, s, 0)[0]) {
		text[i] = byte(v)
	}
	require.Equal(t, "the smith sells the ", string(text[:20]))
	id, err := s.Identity()
	require.NoError(t, err)
	require.Equal(t, "ead4910172f6c3b01c9ed4825d76cc092efd3a8085c752bc96b980b99c7afb96", id)
	require.Equal(t, exampleOnce(), writeText(exampleBytes))
}

// TestTokensAllocateNothing: neither a sample of tokens nor one of other inputs does.
func TestTokensAllocateNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.bin")
	write16(t, path, make([]int64, 1000))
	in := append(gpt(16, 100), Input{Name: "pos", DType: graph.Int32, Shape: []int{16}, Batched: true})
	for _, blocks := range []string{blocksDisjoint, blocksRandom} {
		s := open(t, []string{path}, in, Options{Blocks: blocks, TokenType: "uint16"})
		b, err := newBatch(in, 1)
		require.NoError(t, err)
		i := int64(0)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if err := s.Fill(i, 0, b.Tensors); err != nil {
				panic(err)
			}
			i++
		}))
	}
}
