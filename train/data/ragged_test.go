package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/graph"
)

// raggedInputs are those of a language model with up to most tokens in a row.
func raggedInputs(most int) []Input {
	return []Input{
		{Name: "input_ids", DType: graph.Int64, Shape: []int{most}, Batched: true, Classes: 300},
		{Name: "labels", DType: graph.Int32, Shape: []int{most}, Batched: true, Classes: 300, Ignore: -7,
			HasIgnore: true},
		{Name: "attention_mask", DType: graph.Float32, Shape: []int{1, most}, Batched: true},
		{Name: "position_ids", DType: graph.Int64, Shape: []int{most}},
	}
}

// piece is a document, or a part of one, by hand: its tokens, and those to predict.
type piece struct{ tokens, labels []int }

// piecesOf cuts tokens into documents by hand.
func piecesOf(tokens []int, end, most int, same bool) (list []piece) {
	for len(tokens) > 0 {
		n := slices.Index(tokens, end) + 1
		if n == 0 {
			n = len(tokens)
		}
		doc := tokens[:n]
		tokens = tokens[n:]
		if same {
			for part := range slices.Chunk(doc, most) {
				if len(part) > 1 {
					list = append(list, piece{part, part})
				}
			}
			continue
		}
		for at := 0; at+1 < len(doc); at += most {
			to := min(at+most, len(doc)-1)
			list = append(list, piece{doc[at:to], doc[at+1 : to+1]})
		}
	}
	return list
}

// TestDocuments: samples are the documents of the files by hand, and batches of them are filled up with padding that
// neither counts nor is looked at.
func TestDocuments(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		most, same := rapid.IntRange(1, 9).Draw(r, "most"), rapid.Bool().Draw(r, "same")
		wide := rapid.Bool().Draw(r, "uint16")
		var want []piece
		var paths []string
		dir, err := os.MkdirTemp("", "documents")
		require.NoError(r, err)
		defer os.RemoveAll(dir)
		end := '\n'
		if wide {
			end = 256
		}
		for k := range rapid.IntRange(1, 3).Draw(r, "files") {
			tokens := rapid.SliceOfN(rapid.IntRange(8, 12), 2, 60).Draw(r, "tokens")
			tokens = append(tokens, 11, 12)
			var data []byte
			for i, x := range tokens {
				if tokens[i] = x; wide && x == '\n' {
					tokens[i] = 256
				}
			}
			tokens[len(tokens)/2] = int(end)
			for _, x := range tokens {
				if wide {
					data = binary.LittleEndian.AppendUint16(data, uint16(x))
				} else {
					data = append(data, byte(x))
				}
			}
			path := filepath.Join(dir, fmt.Sprintf("%d.bin", k))
			require.NoError(r, os.WriteFile(path, data, 0o600))
			paths = append(paths, path)
			want = append(want, piecesOf(tokens, int(end), most, same)...)
		}
		o := Options{Blocks: fmt.Sprintf("documents:%d", end), TokenType: "uint8", Labels: "next"}
		if wide {
			o.TokenType = "uint16"
		}
		if same {
			o.Labels = "same"
		}
		s, err := Open(paths, raggedInputs(most), o)
		if len(want) == 0 || err != nil {
			require.ErrorContains(r, err, "has no document of two tokens or more")
			return
		}
		defer s.Close()
		require.Equal(r, int64(len(want)), s.Samples())
		require.Zero(r, s.Tokens())
		sizes := s.(Ragged).Sizes()
		for i, p := range want {
			require.Equal(r, int32(len(p.tokens)), sizes[i])
		}
		checkRows(r, s, want, most, int(end))
	})
}

// checkRows fills two rows of a batch of some size, one of a document and an empty one.
func checkRows(r *rapid.T, s Source, want []piece, most, end int) {
	for i, p := range want {
		size := len(p.tokens) + rapid.IntRange(0, most-len(p.tokens)).Draw(r, "more")
		batch := []*executor.Tensor{
			executor.NewTensor(graph.Int64, []int{2, size}, make([]int64, 2*size)...),
			executor.NewTensor(graph.Int32, []int{2, size}, make([]int32, 2*size)...),
			executor.NewTensor(graph.Float32, []int{2, 1, size}, make([]float32, 2*size)...),
			executor.NewTensor(graph.Int64, []int{size}, make([]int64, size)...),
		}
		for _, x := range batch {
			for k := range x.Data {
				x.Data[k] = 0x55
			}
		}
		require.NoError(r, s.Fill(int64(i+3*len(want)), 0, batch), "another epoch has the same samples")
		require.NoError(r, s.Fill(Empty, 1, batch))
		ids, labels := executor.Of[int64](batch[0]), executor.Of[int32](batch[1])
		mask, positions := executor.Of[float32](batch[2]), executor.Of[int64](batch[3])
		for k := range size {
			require.Equal(r, int64(k), positions[k])
			if k < len(p.tokens) {
				require.Equal(r, []int{p.tokens[k], p.labels[k], 1}, []int{int(ids[k]), int(labels[k]), int(mask[k])})
			} else {
				require.Equal(r, []int{end, -7, 0}, []int{int(ids[k]), int(labels[k]), int(mask[k])})
			}
			require.Equal(r, []int{end, -7, 1}, []int{int(ids[size+k]), int(labels[size+k]), int(mask[size+k])})
		}
	}
}

// TestDocumentsRefuse: data whose documents cannot be found, and models whose loss would count padding, are errors.
func TestDocumentsRefuse(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	text, wide := file("a.txt", []byte("one\ntwo\n")), file("b.bin", bytes.Repeat([]byte{1, 2}, 50))
	blank := file("c.txt", []byte("\n\n\n"))
	plain := raggedInputs(4)
	plain[1].HasIgnore = false
	for _, c := range []struct {
		path, blocks, want string
		inputs             []Input
	}{
		{text, "documents:x", "wanted the token that ends a document", raggedInputs(4)},
		{text, "documents:-1", "wanted the token that ends a document", raggedInputs(4)},
		{text, "document", "wanted one of disjoint, random, documents", raggedInputs(4)},
		{text, "documents:300", "has no token 300, which is to end its documents", raggedInputs(4)},
		{text, "documents:266", "has no token 266", raggedInputs(4)}, // 10 in its low byte
		{wide, "documents", "which token ends a document is not known for tokens of type uint16", raggedInputs(4)},
		{wide, "documents:5", "has no token 5", raggedInputs(4)},
		{blank, "documents", "has no document of two tokens or more", raggedInputs(4)},
		{text, "documents", `input "labels": the loss ignores no label`, plain},
		{text, "documents", "the model has no input for labels", raggedInputs(4)[:1]},
	} {
		_, err := Open([]string{c.path}, c.inputs, Options{Blocks: c.blocks})
		require.ErrorContains(t, err, c.want, "%s %s", c.path, c.blocks)
	}
	ids := map[string]bool{}
	for _, blocks := range []string{"documents", "documents:101", "documents:10", "disjoint"} {
		s, err := Open([]string{text}, raggedInputs(3), Options{Blocks: blocks})
		require.NoError(t, err)
		id, err := s.Identity()
		require.NoError(t, err)
		ids[id] = true
		require.NoError(t, s.Close())
	}
	require.Len(t, ids, 4, "other samples are other data")
}

// lengths is a Ragged source of samples of some sizes, whose only input has the sample's number in each place.
type lengths struct {
	sizes []int32
	most  int
}

func (s lengths) Inputs() []Input {
	return []Input{{Name: "x", DType: graph.Int64, Shape: []int{s.most}, Batched: true, Ragged: true}}
}
func (s lengths) Samples() int64              { return int64(len(s.sizes)) }
func (s lengths) Tokens() int64               { return 0 }
func (s lengths) Check(context.Context) error { return nil }
func (s lengths) Identity() (string, error)   { return "", nil }
func (s lengths) Close() error                { return nil }
func (s lengths) Sizes() []int32              { return s.sizes }

func (s lengths) Fill(i int64, row int, batch []*executor.Tensor) error {
	n := batch[0].Shape[1]
	for k := range n {
		executor.Of[int64](batch[0])[row*n+k] = i
	}
	return nil
}

// TestRaggedOrder: an epoch has each sample once in batches that hold their largest sample in the smallest rung;
// Counts counts them; a loader that begins anywhere goes on as one that did not stop; and shuffled batches take less
// padding than such of samples in any order.
func TestRaggedOrder(t *testing.T) {
	less, sorted := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		s := lengths{most: rapid.IntRange(1, 200).Draw(r, "most")}
		for range rapid.IntRange(1, 600).Draw(r, "samples") {
			s.sizes = append(s.sizes, int32(1+rapid.IntRange(0, s.most-1).Draw(r, "size")))
		}
		o := Order{Samples: s.Samples(), Batch: rapid.IntRange(1, 5).Draw(r, "batch"),
			Seed: rapid.Uint64().Draw(r, "seed"), Shuffle: rapid.Bool().Draw(r, "shuffle"),
			Last: rapid.SampledFrom([]Last{Keep, Drop, Pad}).Draw(r, "last")}
		least, n := rapid.Int64Range(1, int64(s.most)).Draw(r, "least"), rapid.Int64Range(1, 40).Draw(r, "rungs")
		o.Vary(s, least, n)
		require.LessOrEqual(r, int64(len(o.Rungs)), n)
		require.True(r, slices.IsSorted(o.Rungs))
		require.GreaterOrEqual(r, o.Rungs[0], least)
		require.Equal(r, max(least, int64(slices.Max(s.sizes))), o.Rungs[len(o.Rungs)-1])
		if o.Batches() == 0 {
			return
		}
		load := func(epoch, index int64) *Loader { return NewLoader(s, s.Inputs(), o, Share{}, epoch, index, 2) }
		l := load(0, 0)
		defer l.Close()
		seen, counts, filled := map[int64]int{}, map[int64]int64{}, int64(0)
		at := rapid.Int64Range(0, o.Batches()-1).Draw(r, "begin")
		for b := range o.Batches() {
			x, err := l.Next(r.Context())
			require.NoError(r, err)
			most := int64(0)
			require.Equal(r, []int{o.Batch, int(x.Size)}, x.Tensors[0].Shape)
			for row := range x.Rows {
				sample := executor.Of[int64](x.Tensors[0])[row*int(x.Size)]
				if sample == Empty {
					require.Equal(r, Keep, o.Last)
					require.Equal(r, o.Batches()-1, b)
					require.GreaterOrEqual(r, row, o.Rows(b))
					continue
				}
				seen[sample]++
				most = max(most, int64(s.sizes[sample]))
			}
			require.Equal(r, o.Rungs[slices.IndexFunc(o.Rungs, func(n int64) bool { return n >= most })], x.Size)
			counts[x.Size]++
			filled += x.Size
			if b == at {
				other := load(0, at)
				y, err := other.Next(r.Context())
				require.NoError(r, err)
				require.Equal(r, x.Tensors[0], y.Tensors[0])
				other.Close()
			}
			l.Done(x)
		}
		require.Equal(r, counts, o.Counts(0))
		for sample, times := range seen {
			require.True(r, times == 1 || o.Last == Pad && times <= 1+o.Batch, "%d", sample)
		}
		if o.Last != Drop {
			require.Len(r, seen, len(s.sizes))
		}
		if o.Shuffle && o.Batch > 1 && o.Last == Keep {
			plain := o
			plain.Shuffle = false
			all := int64(0)
			for size, n := range plain.Counts(0) {
				all += size * n
			}
			if sorted++; filled <= all {
				less++
			}
		}
	})
	require.Greater(t, less, sorted*8/10)
}

// TestRung: a size above all rungs has the last one.
func TestRung(t *testing.T) {
	o := Order{Rungs: Rungs(3, 10, 3)}
	require.Equal(t, []int64{4, 7, 10}, o.Rungs)
	for size, want := range map[int64]int64{1: 4, 4: 4, 5: 7, 10: 10, 11: 10, 100: 10} {
		require.Equal(t, want, o.Rung(size))
	}
}

// TestRaggedShuffled: batches of like sizes do not come by size, and not in the same sequence in each epoch and group.
func TestRaggedShuffled(t *testing.T) {
	s := lengths{most: 500}
	for i := range 2 * groupBatches * 4 {
		s.sizes = append(s.sizes, int32(1+i%500))
	}
	o := Order{Samples: s.Samples(), Batch: 4, Seed: 5, Shuffle: true}
	o.Vary(s, 1, 500)
	ranks := func(epoch, number int64) (list []int) {
		var sizes []int64
		g := group{}
		for b := range int64(groupBatches) {
			sizes = append(sizes, o.sizeOf(g.batch(&o, epoch, number*groupBatches+b)))
		}
		for _, size := range sizes {
			rank := 0
			for _, other := range sizes {
				if other > size {
					rank++
				}
			}
			list = append(list, rank)
		}
		return list
	}
	first := ranks(0, 0)
	require.False(t, slices.IsSorted(first))
	require.NotEqual(t, first, ranks(0, 1))
	require.Equal(t, first, ranks(0, 0), "the same every time")
}

// TestRaggedEpochs: another epoch, or seed, has its batches in another order.
func TestRaggedEpochs(t *testing.T) {
	s := lengths{most: 64}
	for i := range 1000 {
		s.sizes = append(s.sizes, int32(1+i*i%64))
	}
	sequence := func(seed uint64, epoch int64) (list []int64) {
		o, g := Order{Samples: 1000, Batch: 4, Seed: seed, Shuffle: true}, group{}
		o.Vary(s, 1, 16)
		for b := range o.Batches() {
			list = append(list, g.batch(&o, epoch, b)...)
		}
		return list
	}
	first := sequence(3, 0)
	require.Equal(t, first, sequence(3, 0))
	require.NotEqual(t, first, sequence(4, 0))
	require.NotEqual(t, first, sequence(3, 1))
	require.Equal(t, []int64{4, 8, 12, 16}, Rungs(2, 16, 4))
	require.Equal(t, []int64{7}, Rungs(7, 7, 4))
	require.Equal(t, []int64{1, 2, 3}, Rungs(1, 3, 32))
}
