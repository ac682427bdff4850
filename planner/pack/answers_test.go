package pack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"memopt/internal/test/answers"
)

// drawn are buffers from a seed. Of every second seed most live as in a training step, from a moment of
// the forward half to its mirror in the backward half; of the others they live anywhere, which is harder.
func drawn(n int, gaps bool, seed uint64) []Buffer {
	rng := rand.New(rand.NewPCG(seed, 17))
	end := int64(2 * n)
	buffers := make([]Buffer, n)
	for i := range buffers {
		lower := rng.Int64N(end / 2)
		b := Buffer{Lower: lower, Upper: end - lower - rng.Int64N(min(3, end-2*lower)), Size: 64 * (1 + rng.Int64N(40))}
		switch {
		case seed%2 == 0:
			b.Upper = lower + 1 + rng.Int64N(end/2)
			b.Size = 1 + rng.Int64N(1000)
		case rng.IntN(3) == 0:
			b.Upper = lower + 1 + rng.Int64N(6)
		}
		if length := b.Upper - lower; gaps && length > 8 && rng.IntN(3) == 0 {
			b.Gaps = []Gap{{lower + length/4, lower + length/2}}
		}
		buffers[i] = b
	}
	return buffers
}

// TestAnswers holds the packings that are found, and the work for them, to testdata/answers.txt.
func TestAnswers(t *testing.T) {
	var have strings.Builder
	line := func(name string, r *Result, err error) {
		fmt.Fprintf(&have, "%s: height %d, at least %d, optimal %t, work %d by %s, %s, %v\n", name, r.Height,
			r.LowerBound, r.Optimal, r.Nodes, r.Method, answers.Sum(r.Offsets), err)
	}
	for seed, n := range []int{12, 13, 16, 17, 24, 22, 28, 30, 32, 60, 36, 150, 40, 200, 100} {
		for _, gaps := range []bool{false, true} {
			name := fmt.Sprintf("%d buffers, seed %d, gaps %t", n, seed, gaps)
			buffers := drawn(n, gaps, uint64(seed))
			greedy := Greedy(context.Background(), buffers)
			line(name+", greedy", greedy, nil)
			for _, o := range []Options{{Nodes: 3000}, {Nodes: 300, Seed: 7},
				{Nodes: 2000, Capacity: greedy.LowerBound}, {Nodes: 2000, Capacity: greedy.LowerBound - 64}} {
				r, err := Solve(context.Background(), buffers, o)
				line(name+", "+o.text(greedy), r, err)
			}
		}
	}
	for _, n := range []int{30, 150} {
		r, err := Solve(context.Background(), tight(n), Options{Nodes: 20_000})
		line(fmt.Sprintf("%d tight buffers", n), r, err)
	}
	answers.Hold(t, "testdata/answers.txt", have.String())
}

// text says in which way the options ask.
func (o Options) text(greedy *Result) string {
	text := fmt.Sprintf("work %d, seed %d", o.Nodes, o.Seed)
	switch o.Capacity {
	case greedy.LowerBound:
		text += ", the bound as capacity"
	case greedy.LowerBound - 64:
		text += ", less than the bound"
	}
	return text
}
