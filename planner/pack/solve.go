package pack

import "context"

// Solve packs the buffers. With a capacity it returns as soon as they fit; without one it
// looks for the smallest arena until that is proved, the work in the options is done or the context ends.
// The result is valid whenever it is not nil, also beside an error.
func Solve(ctx context.Context, buffers []Buffer, opts Options) (*Result, error) {
	if err := validate(buffers); err != nil {
		return nil, err
	}
	r := Greedy(buffers)
	if opts.Capacity > 0 && r.LowerBound > opts.Capacity {
		return r, ErrInfeasible
	}
	return r, ctx.Err()
}
