package collective_test

import (
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph"
	_ "memopt/internal/test/rapidflags"
	"memopt/train/collective"
)

// each runs a function for every rank of a group of n at the same time, and returns their errors.
func each(n int, do func(g collective.Group) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r, g := range collective.Local(n) {
		wg.Go(func() { errs[r] = do(g) })
	}
	wg.Wait()
	return errs
}

func none(t *testing.T, errs []error) {
	t.Helper()
	for r, err := range errs {
		require.NoError(t, err, "rank %d", r)
	}
}

func floats(v ...float32) []byte {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func run(g collective.Group, op collective.Op, d graph.DType, buf []byte) error {
	ticket, err := g.Start(op, d, buf)
	if err != nil {
		return err
	}
	return g.Wait(ticket)
}

// TestLocalOrder: sums are made from rank 0 upwards; with these numbers no other order has the same
// bits.
func TestLocalOrder(t *testing.T) {
	parts := []float32{1, 1e8, -1e8, 3}
	require.Equal(t, float32(3), ((parts[0]+parts[1])+parts[2])+parts[3])
	none(t, each(4, func(g collective.Group) error {
		buf := floats(parts[g.Rank()])
		err := run(g, collective.AllReduce, graph.Float32, buf)
		assert.Equal(t, floats(3), buf)
		return err
	}))
}

// TestLocalSums compares with sums of small whole numbers, which have one value in any order.
func TestLocalSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, piece := rapid.IntRange(1, 5).Draw(t, "ranks"), rapid.IntRange(0, 70).Draw(t, "elements of a piece")
		double := rapid.Bool().Draw(t, "double")
		op := rapid.SampledFrom([]collective.Op{collective.AllReduce, collective.ReduceScatter,
			collective.AllGather}).Draw(t, "op")
		value := func(r, i int) float64 { return float64((r*7+i*3)%11 - 5) }
		put := func(b []byte, v float64) []byte {
			if double {
				return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			}
			return append(b, floats(float32(v))...)
		}
		d := graph.Float32
		if double {
			d = graph.Float64
		}
		errs := each(n, func(g collective.Group) error {
			var buf, want []byte
			from, to := 0, n*piece
			if op == collective.ReduceScatter {
				from, to = g.Rank()*piece, (g.Rank()+1)*piece
			}
			for i := range n * piece {
				buf = put(buf, value(g.Rank(), i))
			}
			for i := from; i < to; i++ {
				sum := 0.0
				for r := range n {
					sum += value(r, i)
				}
				if op == collective.AllGather {
					sum = value(i/piece, i)
				}
				want = put(want, sum)
			}
			if err := run(g, op, d, buf); err != nil {
				return err
			}
			assert.Equal(t, want, append([]byte(nil), buf[from*d.Bits()/8:to*d.Bits()/8]...))
			return nil
		})
		for _, err := range errs {
			assert.NoError(t, err)
		}
	})
}

// TestLocalMessages: what small messages carry, and who gets them.
func TestLocalMessages(t *testing.T) {
	none(t, each(3, func(g collective.Group) error {
		mine, all := []byte{byte(g.Rank()), 9}, make([]byte, 6)
		if err := g.Exchange(mine, all); err != nil {
			return err
		}
		assert.Equal(t, []byte{0, 9, 1, 9, 2, 9}, all)
		var got []byte
		if g.Rank() == 1 {
			got = make([]byte, 6)
		}
		if err := g.Gather(1, mine, got); err != nil {
			return err
		}
		if g.Rank() == 1 {
			assert.Equal(t, all, got)
		}
		if err := g.Broadcast(2, mine); err != nil {
			return err
		}
		assert.Equal(t, []byte{2, 9}, mine)
		return g.Close()
	}))
}

// TestLocalQueue: what one rank has begun long before the others is done in its order.
func TestLocalQueue(t *testing.T) {
	none(t, each(2, func(g collective.Group) error {
		var last collective.Ticket
		bufs := make([][]byte, 40)
		for i := range bufs {
			bufs[i] = floats(float32(i + g.Rank()))
			ticket, err := g.Start(collective.AllReduce, graph.Float32, bufs[i])
			if err != nil {
				return err
			}
			assert.Equal(t, last+1, ticket)
			last = ticket
		}
		err := g.Wait(last)
		for i, b := range bufs {
			assert.Equal(t, floats(float32(2*i+1)), b)
		}
		return err
	}))
}

// TestLocalMismatch: ranks that call different things get an error that names both.
func TestLocalMismatch(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(g collective.Group) error
		want string
	}{
		{"length", func(g collective.Group) error {
			return run(g, collective.AllReduce, graph.Float32, make([]byte, 4+4*g.Rank()))
		}, "rank 0 calls all-reduce of 4 bytes of type float, rank 1 all-reduce of 8 bytes of type float"},
		{"type", func(g collective.Group) error {
			return run(g, collective.AllReduce, []graph.DType{graph.Float32, graph.Float64}[g.Rank()],
				make([]byte, 8))
		}, "rank 0 calls all-reduce of 8 bytes of type float, rank 1 all-reduce of 8 bytes of type double"},
		{"operation", func(g collective.Group) error {
			return run(g, collective.Op(g.Rank()), graph.Float32, make([]byte, 8))
		}, "rank 0 calls all-reduce of 8 bytes of type float, rank 1 reduce-scatter of"},
		{"root", func(g collective.Group) error { return g.Broadcast(g.Rank(), make([]byte, 3)) },
			"rank 0 calls broadcast of 3 bytes with root 0, rank 1 broadcast of 3 bytes with root 1"},
		{"end", func(g collective.Group) error {
			if g.Rank() == 1 {
				return g.Close()
			}
			return g.Exchange(nil, nil)
		}, "rank 0 calls exchange of 0 bytes, rank 1 close; all ranks must do the same"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, err := range each(2, c.call) {
				var mismatch *collective.MismatchError
				require.ErrorAs(t, err, &mismatch)
				require.ErrorContains(t, err, "disagree about operation 1: "+c.want)
			}
		})
	}
}

// TestLocalErrors: an error ends the group for every rank, whatever it waits for.
func TestLocalErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(g collective.Group) error
		want string
	}{
		{"abort", func(g collective.Group) error { g.Abort(7); return nil }, "aborted by rank 1 with exit code 7"},
		{"type", func(g collective.Group) error {
			return run(g, collective.AllReduce, graph.Int64, make([]byte, 8))
		}, "only elements of type float and double can be summed"},
		{"half an element", func(g collective.Group) error {
			return run(g, collective.AllReduce, graph.Float32, make([]byte, 6))
		}, "no whole number of elements"},
		{"pieces", func(g collective.Group) error {
			return run(g, collective.AllGather, graph.Float32, make([]byte, 12))
		}, "no equal pieces for 2 ranks"},
		{"no operation", func(g collective.Group) error {
			return run(g, 9, graph.Float32, nil)
		}, "Op(9) is no operation"},
		{"no root", func(g collective.Group) error { return g.Broadcast(2, nil) }, "no rank 2"},
		{"room", func(g collective.Group) error { return g.Exchange(make([]byte, 4), make([]byte, 7)) },
			"need 8 bytes, not 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := each(2, func(g collective.Group) error {
				if g.Rank() == 1 {
					_ = c.call(g)
				}
				err := g.Exchange(make([]byte, 1), make([]byte, 2))
				assert.Equal(t, err, g.Exchange(nil, nil), "the error stays")
				assert.NoError(t, g.Close(), "nobody is waited for")
				return err
			})
			for _, err := range errs {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// TestLocalClosed: nothing is begun by a rank that has closed.
func TestLocalClosed(t *testing.T) {
	none(t, each(2, func(g collective.Group) error {
		if err := g.Close(); err != nil {
			return err
		}
		assert.ErrorIs(t, g.Exchange(nil, nil), collective.ErrClosed)
		return g.Close()
	}))
}

// TestLocalAllocates nothing once buffers have been seen.
func TestLocalAllocates(t *testing.T) {
	g := collective.Local(1)[0]
	buf := make([]byte, 4000)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for op := range collective.AllGather + 1 {
			if err := run(g, op, graph.Float32, buf); err != nil {
				panic(err)
			}
		}
	}))
}

// TestNames: messages name operations as MPI does.
func TestNames(t *testing.T) {
	var names []string
	for op := range collective.AllGather + 2 {
		names = append(names, op.String())
	}
	require.Equal(t, "all-reduce reduce-scatter all-gather Op(3)", strings.Join(names, " "))
}
