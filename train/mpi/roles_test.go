//go:build linux && amd64 && !nodl

package mpi_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"memopt/graph"
	_ "memopt/internal/test/rapidflags"
	"memopt/train/collective"
	"memopt/train/mpi"
)

// roleVariable has the role that the test binary plays in a process that a launcher has started.
const roleVariable = "MEMOPT_MPI_ROLE"

// roles are what the ranks of a test do; each gets what Options say by the environment.
var roles = map[string]func(g collective.Group) error{
	"draws":   draws,
	"close":   func(collective.Group) error { return nil },
	"bench":   bench,
	"abort":   abort,
	"vanish":  vanish,
	"stopped": stopped,
	"late":    late,
	"differ":  differ,
	"signals": signals,
	"allocs":  allocs,
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(3)
	}
}

// play opens the group and does a role.
func play(role string) error {
	launch, err := mpi.Find(os.Getenv)
	if err != nil {
		return err
	}
	timeout, err := time.ParseDuration(os.Getenv("MEMOPT_MPI_TIMEOUT"))
	if err != nil {
		return err
	}
	exact := os.Getenv("MEMOPT_MPI_EXACT")
	g, err := mpi.Open(context.Background(), mpi.Options{
		Launch: launch, Library: os.Getenv("MEMOPT_MPI_LIBRARY"), Timeout: timeout,
		Exact: exact == "true" || exact == "rank 1" && launch.Rank == 1,
	})
	if err != nil {
		return err
	}
	if err := roles[role](g); err != nil {
		return err
	}
	return g.Close()
}

// draw is one call of all ranks.
type draw struct {
	what     int // a collective.Op, or one of the others behind them
	double   bool
	elements int // of a piece for operations with pieces, of a message
	root     int
	seed     uint64
}

// drawsOf draws a sequence of calls.
func drawsOf(ranks int) *rapid.Generator[[]draw] {
	one := rapid.Custom(func(t *rapid.T) draw {
		size := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 5000), rapid.IntRange(60_000, 200_000))
		if rapid.IntRange(0, 12).Draw(t, "large") == 0 {
			size = rapid.IntRange(1_000_000, 1_200_000)
		}
		return draw{
			what: rapid.IntRange(0, 5).Draw(t, "what"), double: rapid.Bool().Draw(t, "double"),
			elements: size.Draw(t, "elements"), root: rapid.IntRange(0, ranks-1).Draw(t, "root"),
			seed: rapid.Uint64().Draw(t, "seed"),
		}
	})
	return rapid.SliceOfN(one, 1, 12)
}

// call is a draw as one rank calls it: in a buffer, which then has the result.
func (d draw) call(g collective.Group, buf []byte) (collective.Ticket, error) {
	dtype := graph.Float32
	if d.double {
		dtype = graph.Float64
	}
	n := len(buf) / g.Size()
	mine := slices.Clone(buf[:n])
	switch d.what {
	case 3:
		return 0, g.Exchange(mine, buf)
	case 4:
		if g.Rank() != d.root {
			return 0, g.Gather(d.root, mine, nil)
		}
		return 0, g.Gather(d.root, mine, buf)
	case 5:
		return 0, g.Broadcast(d.root, buf)
	}
	return g.Start(collective.Op(d.what), dtype, buf)
}

// buffer is what a rank has at first.
func (d draw) buffer(rank, ranks int) []byte {
	n := d.elements * ranks
	if d.what == int(collective.AllReduce) {
		n = d.elements // need not have pieces
	}
	rng := rand.New(rand.NewPCG(d.seed, uint64(rank)))
	if d.double {
		return bytesOf[float64](n, func() float64 { return rng.NormFloat64() })
	}
	return bytesOf[float32](n, func() float32 { return float32(rng.NormFloat64()) })
}

// defined is the part of a result that the rank may look at.
func (d draw) defined(buf []byte, rank, ranks int) []byte {
	if d.what != int(collective.ReduceScatter) {
		return buf
	}
	n := len(buf) / ranks
	return buf[rank*n : (rank+1)*n]
}

// play does a sequence; operations of Start are waited for when another call comes, or at the end.
func playDraws(g collective.Group, list []draw) ([][]byte, error) {
	bufs := make([][]byte, len(list))
	var last collective.Ticket
	for i, d := range list {
		bufs[i] = d.buffer(g.Rank(), g.Size())
		if d.what > 2 && last > 0 {
			if err := g.Wait(last); err != nil {
				return nil, err
			}
		}
		t, err := d.call(g, bufs[i])
		if err != nil {
			return nil, err
		}
		last = max(last, t)
	}
	return bufs, g.Wait(last)
}

// draws compares sequences of calls with those of a group in this process.
func draws(g collective.Group) error {
	exact := os.Getenv("MEMOPT_MPI_EXACT") == "true"
	count, err := strconv.Atoi(os.Getenv("MEMOPT_MPI_DRAWS"))
	if err != nil {
		return err
	}
	gen := drawsOf(g.Size())
	for i := range count {
		list := gen.Example(i)
		got, err := playDraws(g, list)
		if err != nil {
			return fmt.Errorf("draw %d, %+v: %w", i, list, err)
		}
		want := make([][]byte, len(list))
		var wg sync.WaitGroup
		for r, l := range collective.Local(g.Size()) {
			wg.Go(func() {
				bufs, err := playDraws(l, list)
				if err != nil {
					panic(err)
				}
				if r == g.Rank() {
					want = bufs
				}
			})
		}
		wg.Wait()
		for k, d := range list {
			a, b := d.defined(got[k], g.Rank(), g.Size()), d.defined(want[k], g.Rank(), g.Size())
			if err := d.compare(a, b, exact); err != nil {
				return fmt.Errorf("draw %d, call %d, %+v: %w", i, k, d, err)
			}
		}
	}
	return nil
}

// compare holds results to those of the reference: to the bits, but sums of MPI within rounding.
func (d draw) compare(got, want []byte, exact bool) error {
	if exact || d.what > 1 {
		for i := range want {
			if got[i] != want[i] {
				return fmt.Errorf("byte %d of %d is %d, wanted %d", i, len(want), got[i], want[i])
			}
		}
		return nil
	}
	if d.double {
		return within(numbers[float64](got), numbers[float64](want), 1e-14)
	}
	return within(numbers[float32](got), numbers[float32](want), 5e-6)
}

// within holds sums of a few numbers of about 1 to an absolute error.
func within[T float32 | float64](got, want []T, most float64) error {
	for i, w := range want {
		if diff := math.Abs(float64(got[i]) - float64(w)); !(diff <= most) {
			return fmt.Errorf("element %d of %d is %g, wanted %g", i, len(want), got[i], w)
		}
	}
	return nil
}
