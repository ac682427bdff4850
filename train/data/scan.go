package data

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/caught"
	"memopt/internal/mapfile"
)

// bound is a range that elements must lie in.
type bound struct {
	classes   int64 // in [0, classes)
	ignore    int64 // or equal to this
	hasIgnore bool
}

func boundOf(in *Input) bound { return bound{in.Classes, in.Ignore, in.HasIgnore} }

// holds reports whether every value of a type lies in the range.
func (b bound) holds(d graph.DType) bool {
	all := !signed(d) && d.Bits() < 64 && b.classes >= 1<<d.Bits()
	return all || b.classes == 0 || !d.IsInteger()
}

// outside returns the place and the value of the first integer of a type that is not in the range,
// or -1.
func (b bound) outside(d graph.DType, data []byte) (int, int64) {
	switch d {
	case graph.Uint8, graph.Bool:
		return outside[uint8](b, data)
	case graph.Int8:
		return outside[int8](b, data)
	case graph.Uint16:
		return outside[uint16](b, data)
	case graph.Int16:
		return outside[int16](b, data)
	case graph.Uint32:
		return outside[uint32](b, data)
	case graph.Int32:
		return outside[int32](b, data)
	case graph.Int64:
		return outside[int64](b, data)
	case graph.Uint64:
		return outside[uint64](b, data)
	}
	return -1, 0
}

func outside[T interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}](b bound, data []byte) (int, int64) {
	limit := uint64(b.classes) // negative numbers are larger as unsigned ones
	for i, v := range executor.Cast[T](data) {
		if uint64(int64(v)) >= limit && !(b.hasIgnore && int64(v) == b.ignore) {
			return i, int64(v)
		}
	}
	return -1, 0
}

// scan calls look on pieces of [0, n), of some size, on all processors, and returns the least place
// that look returned; -1 where it always returned -1. look returns the first place of its piece.
func scan(ctx context.Context, n, piece int64, look func(from, to int64) int64) (int64, error) {
	s := scanner{n: n, piece: max(piece, 1), look: look}
	s.found.Store(math.MaxInt64)
	workers := min(int64(runtime.GOMAXPROCS(0)), (n+s.piece-1)/s.piece)
	errs := make([]error, workers)
	var all sync.WaitGroup
	for w := range errs {
		all.Go(func() { errs[w] = s.work(ctx) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return -1, err
		}
	}
	if at := s.found.Load(); at < math.MaxInt64 {
		return at, nil
	}
	return -1, nil
}

type scanner struct {
	n, piece    int64
	next, found atomic.Int64 // the next piece; the least place so far
	look        func(from, to int64) int64
}

// work takes pieces until all are taken, or those before the place that was found.
func (s *scanner) work(ctx context.Context) (err error) {
	defer func(old bool) {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			if err = mapfile.Fault(r); err == nil {
				err = caught.Of(r)
			}
		}
	}(debug.SetPanicOnFault(true))
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := (s.next.Add(1) - 1) * s.piece
		if from >= min(s.n, s.found.Load()) {
			return nil
		}
		at := s.look(from, min(from+s.piece, s.n))
		for old := s.found.Load(); at >= 0 && at < old; old = s.found.Load() {
			s.found.CompareAndSwap(old, at)
		}
	}
}
