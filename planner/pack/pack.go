// Package pack gives buffers their places in one arena: offline dynamic storage allocation. Every
// buffer is live for a half-open range of time and needs a number of bytes; two buffers that are live
// at once must not share a byte. The question is either whether all buffers fit into a given capacity
// or how small the arena can be. For example, buffers of 4, 4 and 8 bytes that live in steps 0-2, 1-3
// and 2-4 need 12 bytes.
//
// The problem is NP-hard. Greedy orders, which take near-linear time, give a first answer. If they end
// above the bound, packing below a skyline (see skyline) mostly reaches it. If that is not good enough,
// an exact search (see exact) is run by many rules in short turns; it finds a packing within a given
// height or proves that there is none. Problems that are too large for it are improved by shaking the
// greedy orders. Strategies change by counted work, never by the clock, so the same input, seed and
// node limit give the same answer; a deadline only decides where the search ends.
package pack

import (
	"errors"
	"fmt"
	"math"
)

// Buffer is a piece of memory that is live from time Lower up to, but without, Upper, except during
// its gaps. It has one place all the time; in a gap other buffers may lie there.
type Buffer struct {
	Lower, Upper, Size int64

	// Gaps are in order of time, have no step in common, lie between Lower and Upper, and leave some of
	// that time. nil means that the buffer has no gaps.
	Gaps []Gap
}

// Gap is a time [Lower, Upper) without need for the contents of a buffer.
type Gap struct{ Lower, Upper int64 }

// Options are the options of Solve. The zero value asks for the smallest arena that can be found
// before the context ends.
type Options struct {
	Capacity int64 // bytes the arena may have; 0 asks for the smallest arena
	Seed     int64 // of the randomised orders; any value, 0 included
	Nodes    int64 // counted work that ends the search; 0 leaves that to the context

	// Progress, if not nil, is called when the best arena shrinks and now and then in between,
	// always from the goroutine that called Solve.
	Progress func(Progress)
}

// Progress says how far a search has come.
type Progress struct {
	Height     int64 // of the best packing so far
	LowerBound int64
	Nodes      int64
	Method     string // the stage at work
}

// Result is a packing and its proven bounds.
type Result struct {
	Offsets    []int64 // by buffer
	Height     int64   // the largest offset plus size
	LowerBound int64   // no packing is lower
	Optimal    bool    // Height is proved to be the smallest possible
	Nodes      int64   // counted work: decisions of the exact search, buffers placed by shaking
	Method     string  // the stage that found the packing
}

// The errors of Solve with a capacity, apart from those of bad input. They come with the best
// packing found, which is valid but higher than the capacity.
var (
	ErrInfeasible = errors.New("pack: the buffers cannot fit into the capacity")
	ErrTimeLimit  = errors.New("pack: the search ended before the buffers fitted into the capacity")
)

// validate names the first invalid buffer.
func validate(buffers []Buffer) error {
	if len(buffers) > math.MaxInt32/4 {
		return fmt.Errorf("pack: %d buffers are too many: at most %d", len(buffers), math.MaxInt32/4)
	}
	sum := int64(0)
	for i, b := range buffers {
		switch {
		case b.Lower >= b.Upper:
			return fmt.Errorf("pack: buffer %d is live from %d to %d: the end must come after the start",
				i, b.Lower, b.Upper)
		case b.Size < 0:
			return fmt.Errorf("pack: buffer %d has the size %d: it must not be negative", i, b.Size)
		case b.Size > math.MaxInt64-sum:
			return fmt.Errorf("pack: the sizes of buffers 0 to %d add up to more than 2⁶³-1", i)
		}
		if err := b.checkGaps(); err != nil {
			return fmt.Errorf("pack: buffer %d: %w", i, err)
		}
		sum += b.Size
	}
	return nil
}

// checkGaps names the first gap that is empty, outside of the buffer's time or meets the one before.
func (b *Buffer) checkGaps() error {
	from := b.Lower
	for _, g := range b.Gaps {
		switch {
		case g.Lower >= g.Upper:
			return fmt.Errorf("the gap from %d to %d must end after it starts", g.Lower, g.Upper)
		case g.Lower < b.Lower || g.Upper > b.Upper:
			return fmt.Errorf("the gap from %d to %d is outside the buffer's lifetime from %d to %d",
				g.Lower, g.Upper, b.Lower, b.Upper)
		case g.Lower < from:
			return fmt.Errorf("the gap from %d to %d begins before %d, where the gap before it ends",
				g.Lower, g.Upper, from)
		}
		from = g.Upper
	}
	live := false
	b.pieces(func(_, _ int64) { live = true })
	if !live {
		return fmt.Errorf("the gaps leave the buffer no time to live")
	}
	return nil
}

// pieces calls visit with each piece of the buffer's lifetime, in order.
func (b *Buffer) pieces(visit func(lower, upper int64)) {
	from := b.Lower
	for _, g := range b.Gaps {
		if from < g.Lower {
			visit(from, g.Lower)
		}
		from = g.Upper
	}
	if from < b.Upper {
		visit(from, b.Upper)
	}
}
