package cuda

import (
	"math/bits"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/executor/operand"
	"memopt/graph"
)

// As in kernels/scatter.cu.
const (
	sortDigits  = 16
	sortThreads = 256
	sortTile    = sortThreads * 8
)

// reductions are the values of combine_args.op by the attribute; 0 replaces.
var reductions = map[string]int32{"none": 0, "add": 1, "mul": 2, "max": 3, "min": 4}

// scatterer combines rows of inner elements with rows of the destination at its indexer's offsets,
// in every part of the destination. Updates of a row are combined in their order: see
// kernels/scatter.cu.
type scatterer struct {
	index                          indexer
	op                             int32
	keys, count, sum, move, finish *launch

	outer, inner, stride int // parts, elements of a row and of a part
}

// newScatterer makes a scatterer of elements of a type, with the indices in an input.
func newScatterer(d *Device, p *executor.Prep, slot int, t graph.DType, op int32) (scatterer, error) {
	s := scatterer{op: op}
	size, name := operand.ElementBytes(t), ""
	switch {
	case size == 0:
		return s, noTypes(p)
	case op == 0:
		name = "replace_" + sizeName(size)
	case isFloat(t) || t == graph.Float64 || t == graph.Int32 || t == graph.Int64:
		name = "combine_" + suffix(t)
	default:
		return s, p.Unsupported("no CUDA kernel combines elements of type %v", t)
	}
	var err error
	if s.index, err = newIndexer(d, p, slot); err != nil {
		return s, err
	}
	for _, l := range []struct {
		to   **launch
		name string
	}{{&s.keys, "scatter_keys"}, {&s.count, "sort_count"}, {&s.sum, "sort_sum"}, {&s.move, "sort_move"},
		{&s.finish, name}} {
		if *l.to, err = d.launch("scatter", l.name); err != nil {
			return s, err
		}
	}
	return s, nil
}

// scatterBytes is the workspace for n rows of updates.
func scatterBytes(n int) int {
	n = max(n, 0)
	return offsetBytes(n) + 4*executor.RoundUp(4*n) + executor.RoundUp(4*sortDigits*sortTiles(n))
}

func sortTiles(n int) int { return (n + sortTile - 1) / sortTile }

// scatter combines updates with dst; the indexer has run.
func (s *scatterer) scatter(c *executor.Ctx, dst, updates []byte) error {
	n := s.index.Count
	total := s.outer * n * s.inner
	if total == 0 {
		return nil
	}
	rows := s.stride / s.inner
	if n >= 1<<31 || s.inner >= 1<<31 || rows >= 1<<32 {
		return c.Errorf(
			"scatters %d rows of %d elements to %d; the CUDA kernel takes rows below 2^31 to fewer than 2^32",
			n, s.inner, rows)
	}
	keys, ids, err := s.sorted(c, n, rows)
	if err != nil {
		return err
	}
	a := s.finish.begin().In(keys).In(ids).In(updates).Out(dst).Int(total).Int(s.stride).Uint32(uint32(n)).
		Uint32(uint32(s.inner)).Int32(s.op)
	packAxes(a, 2, func(i int) int {
		if i == 0 {
			return s.inner
		}
		return n
	})
	return s.finish.line(total, 1)
}

// sorted returns the rows of the destination in ascending order, with the updates that go there.
func (s *scatterer) sorted(c *executor.Ctx, n, rows int) (keys, ids []byte, err error) {
	keys, ids = c.Scratch(4*n), c.Scratch(4*n)
	toKeys, toIDs := c.Scratch(4*n), c.Scratch(4*n)
	counts := c.Scratch(4 * sortDigits * sortTiles(n))
	s.keys.begin().In(s.index.offsets).Out(keys).Out(ids).Int(n).Int(s.inner)
	if err := s.keys.line(n, 1); err != nil {
		return nil, nil, err
	}
	tiles := sortTiles(n)
	sumThreads := min((sortDigits*tiles+31)&^31, 1024)
	for shift := 0; shift < bits.Len(uint(rows-1)) && n > 1; shift += 4 {
		for _, pass := range [...]struct {
			*launch
			blocks, threads int
		}{{s.count, tiles, sortThreads}, {s.sum, 1, sumThreads}, {s.move, tiles, sortThreads}} {
			pass.begin().In(keys).In(ids).Out(toKeys).Out(toIDs).Out(counts).Uint32(uint32(n)).
				Uint32(uint32(tiles)).Uint32(uint32(shift))
			if err := pass.run(driver.Line(min(pass.blocks, 1<<16), pass.threads)); err != nil {
				return nil, nil, err
			}
		}
		keys, ids, toKeys, toIDs = toKeys, toIDs, keys, ids
	}
	return keys, ids, nil
}

// update runs the indexer, makes output 0 a copy of input 0, unless it is in place, and combines
// rows of inner elements of input 2 with it.
func (s *scatterer) update(c *executor.Ctx, inner int) error {
	if err := s.index.run(c); err != nil {
		return err
	}
	x := c.In(0)
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	if err := s.index.d.copyUnlessSame(y.Data, x.Data); err != nil {
		return err
	}
	s.outer, s.inner, s.stride = 1, inner, x.Len()
	return s.scatter(c, y.Data, c.In(2).Data)
}

// scatterND is a copy of the data that combines slices with updates; tuples, the last axis of the
// indices, name the slices.
type scatterND struct{ scatterer }

// newScatterND makes the kernel of ScatterND.
func newScatterND(d *Device, p *executor.Prep) (executor.Kernel, error) {
	s, err := newScatterer(d, p, 1, p.DType(0), reductions[p.Node.Str("reduction", "none")])
	return &scatterND{s}, err
}

// Workspace holds offsets and sorted updates.
func (k *scatterND) Workspace(in, _ [][]int) int { return scatterBytes(operand.TupleCount(in[1])) }

// Run checks the shapes and scatters.
func (k *scatterND) Run(c *executor.Ctx) error {
	x := c.In(0)
	depth, err := k.index.tuples(c, x.Shape, 0)
	if err != nil {
		return err
	}
	rest, err := operand.CheckSlices(c, 2, x.Shape, 0, depth)
	if err != nil {
		return err
	}
	return k.update(c, elements(rest))
}

// scatterElements is a copy of the data that combines single elements with updates.
type scatterElements struct {
	scatterer
	axis int64
}

// newScatterElements makes the kernel of ScatterElements and of Scatter, its old name.
func newScatterElements(d *Device, p *executor.Prep) (executor.Kernel, error) {
	s, err := newScatterer(d, p, 1, p.DType(0), reductions[p.Node.Str("reduction", "none")])
	return &scatterElements{s, p.Node.Int("axis", 0)}, err
}

// Workspace holds offsets and sorted updates.
func (k *scatterElements) Workspace(in, _ [][]int) int { return scatterBytes(elements(in[1])) }

// Run checks the shapes and scatters.
func (k *scatterElements) Run(c *executor.Ctx) error {
	if err := operand.Like(c, 2, 1); err != nil {
		return err
	}
	if err := k.index.elements(c, c.In(0).Shape, k.axis); err != nil {
		return err
	}
	return k.update(c, 1)
}
