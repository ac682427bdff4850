package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// Convolutions are computed by cuDNN if it is available. The algorithm is chosen once for each
// case, when the first session that has it is opened, because the workspace must be known in order
// to lie in the arena. A Device keeps its choices, so that a recomputed convolution gives the same
// bits as the original, and a plan counts the memory of the run.
//
// The searches and the clamp are those of ONNX Runtime's CUDA execution provider (its
// documentation, section "Performance tuning" and the options cudnn_conv_algo_search and
// cudnn_conv_use_max_workspace), except that only deterministic algorithms are taken, and that the
// clamp applies to all three searches.

// clampedWorkspace is the most that an algorithm may want where cudnn_conv_use_max_workspace is 0.
const clampedWorkspace = 32 << 20

// ParseConvSearch reads the name of a search as ONNX Runtime has it, in either case.
func ParseConvSearch(name string) (driver.ConvSearch, error) {
	switch strings.ToUpper(name) {
	case "EXHAUSTIVE":
		return driver.SearchExhaustive, nil
	case "HEURISTIC":
		return driver.SearchHeuristic, nil
	case "DEFAULT":
		return driver.SearchDefault, nil
	}
	return 0, fmt.Errorf("%q: wanted exhaustive, heuristic or default", name)
}

// convKey has all that a choice depends on.
type convKey struct {
	driver.ConvCase
	convSearch
}

// convSearch is how to choose: the device's options at the time the kernel was made, since its
// session plans with them.
type convSearch struct {
	how   driver.ConvSearch
	clamp bool
}

// convChoice says how a convolution is computed.
type convChoice struct {
	algo driver.ConvAlgo
	own  string // why memopt's own kernels compute it; "" if cuDNN does
	err  error  // of the search
	// clamped is the workspace under the clamp, -1 if own kernels would then compute the
	// convolution.
	clamped int
}

// chooseConv returns the choice for a case; it searches the first time.
func (d *Device) chooseConv(key convKey) convChoice {
	d.mu.Lock()
	defer d.mu.Unlock()
	choice, ok := d.convs[key]
	if !ok {
		choice = d.searchConv(key)
		d.convs[key] = choice
	}
	return choice
}

// searchConv chooses among the library's algorithms.
func (d *Device) searchConv(key convKey) convChoice {
	limit := math.MaxInt
	if key.clamp {
		limit = clampedWorkspace
	}
	list, err := d.offeredConvs(key, limit)
	missing, refused := (*driver.Missing)(nil), (*driver.Refused)(nil)
	switch {
	case errors.As(err, &missing), errors.As(err, &refused):
		return convChoice{own: err.Error()}
	case err != nil:
		return convChoice{err: withoutCuDNN(err)}
	}
	a, ok := bestConv(list, limit)
	if !ok {
		return convChoice{own: "cuDNN has no deterministic algorithm for it whose workspace is not too large"}
	}
	choice := convChoice{algo: a, clamped: -1}
	if small, ok := bestConv(list, clampedWorkspace); ok {
		choice.clamped = small.Workspace
	}
	return choice
}

// withoutCuDNN adds the remedy to the error of a library that fails.
func withoutCuDNN(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; MEMOPT_CUDNN=none leaves convolutions to memopt's own kernels", err)
}

// bestConv returns the first deterministic algorithm of a list within a limit.
func bestConv(list []driver.ConvAlgo, limit int) (driver.ConvAlgo, bool) {
	i := slices.IndexFunc(list, func(a driver.ConvAlgo) bool { return a.Deterministic && a.Workspace <= limit })
	if i < 0 {
		return driver.ConvAlgo{}, false
	}
	return list[i], true
}

// offeredConvs lists algorithms for a case, the one to prefer first. Those that the library's
// heuristics suggest are used if the default one is not offered or is too large, and if there is no
// memory to time any.
func (d *Device) offeredConvs(key convKey, limit int) ([]driver.ConvAlgo, error) {
	conv := &driver.Conv{ConvCase: key.ConvCase}
	guessed, err := d.driver.ConvAlgos(d.stream, conv, driver.SearchHeuristic)
	if err != nil {
		return nil, err
	}
	switch key.how {
	case driver.SearchDefault:
		list, err := d.driver.ConvAlgos(d.stream, conv, driver.SearchDefault)
		if refused := (*driver.Refused)(nil); errors.As(err, &refused) {
			return guessed, nil
		}
		return append(list, guessed...), err
	case driver.SearchExhaustive:
		timed, err := d.timeConvs(conv, guessed, limit)
		if err != nil || timed == nil {
			return guessed, err
		}
		slices.SortStableFunc(timed, func(a, b driver.ConvAlgo) int { return cmp.Compare(a.Millis, b.Millis) })
		return timed, nil
	}
	return guessed, nil
}

// timeConvs runs all algorithms that fit, in memory outside the arena that is freed at once. It
// returns nil if there is not enough.
func (d *Device) timeConvs(c *driver.Conv, guessed []driver.ConvAlgo, limit int) (list []driver.ConvAlgo, err error) {
	x, w, y := c.Lens()
	size := c.Elem.Size()
	x, w, y = x*size, w*size, y*size
	operands := executor.RoundUp(x) + executor.RoundUp(w) + executor.RoundUp(y)
	free, _, err := d.driver.MemInfo()
	if err != nil {
		return nil, err
	}
	room := 0
	for _, a := range guessed {
		if a.Deterministic && a.Workspace <= limit && int64(operands)+int64(a.Workspace) <= free {
			room = max(room, a.Workspace)
		}
	}
	memory, err := d.driver.Alloc(operands + room)
	if errors.Is(err, executor.ErrOutOfMemory) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := d.driver.Free(memory); err == nil {
			err = e
		}
	}()
	if err := d.driver.Fill(d.stream, memory, 0); err != nil {
		return nil, err
	}
	c.X, c.W, c.Y = memory[:x], memory[executor.RoundUp(x):][:w], memory[operands-executor.RoundUp(y):][:y]
	c.Workspace = memory[operands:]
	if list, err = d.driver.ConvAlgos(d.stream, c, driver.SearchExhaustive); err != nil {
		return nil, err
	}
	return list, d.driver.Sync(d.stream)
}
