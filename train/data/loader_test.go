package data

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/caught"
)

// numbers is a source whose samples are their numbers.
type numbers struct {
	n      int64
	fail   int64 // of this sample, if it is positive
	panics bool
	wait   chan struct{}
	inputs []Input
}

var errSample = errors.New("a sample that fails")

func newNumbers(n int64) *numbers {
	return &numbers{n: n, inputs: []Input{{Name: "x", DType: graph.Int64, Shape: []int{2}, Batched: true},
		{Name: "c", DType: graph.Int64, Shape: []int{1}}}}
}

func (s *numbers) Inputs() []Input             { return s.inputs }
func (s *numbers) Samples() int64              { return s.n }
func (s *numbers) Tokens() int64               { return 0 }
func (s *numbers) Check(context.Context) error { return nil }
func (s *numbers) Identity() (string, error)   { return "", nil }
func (s *numbers) Close() error                { return nil }
func (s *numbers) Fill(i int64, row int, batch []*executor.Tensor) error {
	if s.wait != nil {
		<-s.wait
	}
	if s.fail > 0 && i == s.fail {
		return errSample
	}
	if s.panics {
		batch = batch[:0]
	}
	x := int64s(batch[0])
	x[2*row], x[2*row+1] = i, -i
	if row == 0 {
		int64s(batch[1])[0] = 77
	}
	return nil
}

// seen is a batch, copied.
type seen struct {
	epoch, index int64
	samples      []int64
}

func take(t require.TestingT, l *Loader) seen {
	b, err := l.Next(context.Background())
	require.NoError(t, err)
	defer l.Done(b)
	require.Equal(t, []int{b.Rows, 2}, b.Tensors[0].Shape)
	require.Len(t, b.Tensors[0].Data, 16*b.Rows)
	require.Equal(t, []int{1}, b.Tensors[1].Shape)
	require.EqualValues(t, 77, int64s(b.Tensors[1])[0])
	s := seen{epoch: b.Epoch, index: b.Index}
	for i, v := range int64s(b.Tensors[0]) {
		if i%2 == 0 {
			s.samples = append(s.samples, v)
		} else {
			require.Equal(t, -s.samples[len(s.samples)-1], v)
		}
	}
	return s
}

// TestLoaderPanics: a panic of the code that fills batches is an error of Next, with its place.
func TestLoaderPanics(t *testing.T) {
	s := newNumbers(5)
	s.panics = true
	l := NewLoader(s, s.inputs, Order{Samples: 5, Batch: 2}, Share{}, 0, 0, 2)
	defer l.Close()
	var panicked *caught.Error
	for range 2 {
		_, err := l.Next(context.Background())
		require.ErrorAs(t, err, &panicked)
		require.ErrorContains(t, err, "index out of range")
		require.Contains(t, string(panicked.Stack), "Fill")
	}
	_, err := scan(context.Background(), 5, 1, func(from, to int64) int64 { panic("look") })
	require.ErrorAs(t, err, &panicked)
}

// TestLastEpoch: epochs whose samples cannot be counted in 63 bits are refused; those before are read.
func TestLastEpoch(t *testing.T) {
	for _, samples := range []int64{1, 5, math.MaxInt64 / 3} {
		s := newNumbers(samples)
		last := MaxEpoch(samples)
		require.Less(t, last, math.MaxInt64/samples)
		for epoch, good := range map[int64]bool{last: true, last + 1: false, math.MaxInt64: false} {
			l := NewLoader(s, s.inputs, Order{Samples: samples, Batch: 1, Shuffle: true}, Share{}, epoch, 0, 2)
			b, err := l.Next(context.Background())
			if good {
				require.NoError(t, err)
				require.GreaterOrEqual(t, int64s(b.Tensors[0])[0], last*samples)
			} else {
				require.ErrorContains(t, err, "the last one is number")
			}
			l.Close()
		}
	}
}

// TestLoader: batches are what the order says, epoch after epoch, from wherever one begins.
func TestLoader(t *testing.T) {
	before := runtime.NumGoroutine()
	rapid.Check(t, func(r *rapid.T) {
		src := newNumbers(rapid.Int64Range(1, 20).Draw(r, "samples"))
		o := Order{Samples: src.n, Batch: rapid.IntRange(1, 8).Draw(r, "batch"), Seed: rapid.Uint64().Draw(r, "seed"),
			Shuffle: rapid.Bool().Draw(r, "shuffle"), Last: rapid.SampledFrom([]Last{Keep, Drop, Pad}).Draw(r, "last")}
		if o.Check() != nil {
			return
		}
		var want []seen
		for epoch := range int64(3) {
			var list []int64
			for k := range src.n {
				list = append(list, epoch*src.n+o.Sample(epoch, k))
			}
			full := slices.Clone(list)
			for o.Last == Pad && len(list)%o.Batch != 0 {
				list = append(list, full[(len(list)-len(full))%len(full)])
			}
			for at := 0; at < len(list); at += o.Batch {
				if part := list[at:min(at+o.Batch, len(list))]; o.Last != Drop || len(part) == o.Batch {
					want = append(want, seen{epoch, int64(at / o.Batch), part})
				}
			}
		}
		ahead := rapid.IntRange(0, 4).Draw(r, "ahead")
		l := NewLoader(src, src.inputs, o, Share{}, 0, 0, ahead)
		for _, w := range want {
			require.Equal(r, w, take(r, l))
		}
		l.Close()
		l.Close()
		from := rapid.IntRange(0, len(want)-1).Draw(r, "from")
		l = NewLoader(src, src.inputs, o, Share{}, want[from].epoch, want[from].index, ahead)
		for _, w := range want[from:] {
			require.Equal(r, w, take(r, l))
		}
		l.Close()
		l = NewLoader(src, src.inputs, o, Share{}, 1, o.Batches(), ahead) // behind an epoch's last batch
		require.Equal(r, want[2*o.Batches()], take(r, l))
		l.Close()
	})
	// A goroutine whose end was waited for is counted until it has left its last function.
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before, "no goroutine stays")
}

// TestLoaderMemory: as many batches are ahead as wanted and no more, those that are lent stay as
// they are, and nothing is allocated once all are made.
func TestLoaderMemory(t *testing.T) {
	src := newNumbers(1000)
	l := NewLoader(src, src.inputs, Order{Samples: 1000, Batch: 4}, Share{}, 0, 0, 3)
	defer l.Close()
	var lent []*Batch
	for range 4 {
		b, err := l.Next(context.Background())
		require.NoError(t, err)
		lent = append(lent, b)
	}
	_, err := l.Next(context.Background())
	require.EqualError(t, err, "all 4 batches are in use: call Done")
	for i, b := range lent {
		require.EqualValues(t, 4*i, int64s(b.Tensors[0])[0])
		l.Done(b)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		b, err := l.Next(context.Background())
		if err != nil {
			panic(err)
		}
		l.Done(b)
	}))
}

// TestLoaderEnds: errors come in their place and stay, a context ends the wait, and Close ends a
// loader in whatever it is doing.
func TestLoaderEnds(t *testing.T) {
	src := newNumbers(10)
	src.fail = 5
	o := Order{Samples: 10, Batch: 2}
	l := NewLoader(src, src.inputs, o, Share{}, 0, 0, 3)
	take(t, l)
	take(t, l)
	for range 2 {
		_, err := l.Next(context.Background())
		require.ErrorIs(t, err, errSample)
	}
	l.Close()

	slow := newNumbers(10)
	slow.wait = make(chan struct{})
	l = NewLoader(slow, slow.inputs, o, Share{}, 0, 0, 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := l.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(slow.wait)
	require.EqualValues(t, 0, take(t, l).index)
	_, err = l.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	l.Close()

	for _, c := range []struct {
		want         string
		o            Order
		epoch, index int64
	}{
		{"no samples", Order{Batch: 1}, 0, 0},
		{"3 samples make no batch of 4, and the last batch is dropped", Order{Samples: 3, Batch: 4, Last: Drop}, 0, 0},
		{"batch 6 of epoch 0: an epoch has 5 batches", o, 0, 6},
		{"batch -1 of epoch 0", o, 0, -1},
		{"batch 0 of epoch -1", o, -1, 0},
		{`input "x": int64[4611686018427387904,2] is not a type of data`, Order{Samples: 10, Batch: 1 << 62}, 0, 0},
		{"out of memory", Order{Samples: 10, Batch: 1 << 50}, 0, 0},
	} {
		l := NewLoader(newNumbers(10), src.inputs, c.o, Share{}, c.epoch, c.index, 1)
		_, err := l.Next(context.Background())
		require.ErrorContains(t, err, c.want)
		l.Close()
	}
	l = NewLoader(newNumbers(10), src.inputs, o, Share{}, 0, 0, 1)
	l.Close()
	for range 3 {
		if _, err = l.Next(context.Background()); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, errClosed)
}

// TestLoaderOfFiles: with files the batches are those of Fill, and a file that changes is an error.
func TestLoaderOfFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.bin")
	tokens := make([]int64, 5000)
	for i := range tokens {
		tokens[i] = int64(i * i % 997)
	}
	write16(t, path, tokens)
	for _, blocks := range []string{blocksDisjoint, blocksRandom} {
		s := open(t, []string{path}, gpt(16, 1000), Options{Blocks: blocks})
		o := Order{Samples: s.Samples(), Batch: 3, Shuffle: true, Seed: 5}
		l := NewLoader(s, s.Inputs(), o, Share{}, 1, 7, 2)
		for index := int64(7); index < 20; index++ {
			b, err := l.Next(context.Background())
			require.NoError(t, err)
			var want []int64
			for row := range int64(3) {
				i := o.Samples + o.Sample(1, index*3+row)
				want = append(want, int64s(batchOf(t, s, i)[0])...)
			}
			require.Equal(t, want, int64s(b.Tensors[0]))
			l.Done(b)
		}
		l.Close()
	}
}
