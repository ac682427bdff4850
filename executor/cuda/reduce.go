package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/executor/operand"
	"memopt/graph"
)

// fold is a reduction: the operator of kernels/reduce.h, the function of the elements that it adds,
// and that of the final sum.
type fold struct {
	name       string
	of, finish uint32
	floats     bool // there is no kernel for integers
	order      bool // there is one for bytes, which are compared
}

// The function of the elements that are added, and that of the final sum: OF_ and FINISH_ of
// kernels/reduce.h.
const (
	ofItself, ofSize, ofSquare                    = 0, 1, 2
	finishNone, finishMean, finishRoot, finishLog = 0, 1, 2, 3
)

var (
	foldSum       = fold{name: "sum"}
	foldMean      = fold{name: "sum", finish: finishMean}
	foldSize      = fold{name: "sum", of: ofSize}
	foldSquare    = fold{name: "sum", of: ofSquare}
	foldNorm      = fold{name: "sum", of: ofSquare, finish: finishRoot, floats: true}
	foldLog       = fold{name: "sum", finish: finishLog, floats: true}
	foldLogSumExp = fold{name: "logexp", floats: true}
	foldMax       = fold{name: "max", order: true}
	foldMin       = fold{name: "min", order: true}
	foldProd      = fold{name: "prod"}
)

// reduceKernel is a reduction.
type reduceKernel struct {
	fold
	rows, columns, parts *launch
	operand.FoldAxes
	plan     foldPlan
	width    int // of packs
	accBytes int

	space       foldPlan // of Workspace
	spaceFolded []bool
}

// reduction makes the kernels of reduce.h; the axes are input 1 from a schema version on.
func reduction(f fold, since int) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		t := p.DType(0)
		switch {
		case isFloat(t):
		case (t == graph.Int32 || t == graph.Int64) && !f.floats:
		case (t == graph.Bool || t == graph.Uint8) && f.order:
		default:
			return nil, noTypes(p)
		}
		k := &reduceKernel{fold: f, FoldAxes: operand.NewFoldAxes(p, since), width: packWidth(t), accBytes: 4}
		if t == graph.Int64 || f.name == "logexp" {
			k.accBytes = 8
		}
		for _, l := range []struct {
			to   **launch
			name string
		}{{&k.rows, "_rows_"}, {&k.columns, "_columns_"}, {&k.parts, "_parts_"}} {
			var err error
			if *l.to, err = d.launch("reduce_"+suffix(t), f.name+l.name+suffix(t)); err != nil {
				return nil, err
			}
		}
		return k, nil
	}
}

// Workspace counts the accumulators of chunks.
func (k *reduceKernel) Workspace(in, out [][]int) int {
	if len(in) == 0 || len(out) == 0 || in[0] == nil || out[0] == nil {
		return 0
	}
	return k.spaceFor(in[0], out[0])
}

// spaceFor returns the bytes of accumulators for shapes of the input and of the output. If the
// output's shape lacks axes, it is not known which they are, so the bytes are enough for any. Run
// takes all of them.
func (k *reduceKernel) spaceFor(x, y []int) int {
	results := elements(y)
	if len(x) != len(y) {
		// Chunks are not shorter than foldLeastRuns. There is one chunk if tiles of 128 results
		// fill the GPU.
		if results == 0 || results >= foldBlocks/2*128 {
			return 0
		}
		chunks := min(elements(x)/results/foldLeastRuns+1, max(foldBlocks*128/results, 2), foldChunks)
		return executor.RoundUp(k.accBytes * results * chunks)
	}
	k.spaceFolded = k.spaceFolded[:0]
	for i, d := range x {
		k.spaceFolded = append(k.spaceFolded, d != y[i])
	}
	k.space.set(x, k.spaceFolded)
	chunks, _ := k.space.chunks(k.width)
	if chunks == 1 {
		return 0
	}
	return executor.RoundUp(k.accBytes * results * chunks)
}

// Run reduces.
func (k *reduceKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.Read(c); err != nil {
		return err
	}
	p := &k.plan
	p.set(x.Shape, k.Folded)
	if !p.fits() {
		return c.Errorf("axes of input 0, of shape %v, alternate more often than the CUDA kernels allow: %d times",
			x.Shape, maxFolds)
	}
	y := c.Out(0, k.Shape...)
	switch {
	case y == nil || y.Len() == 0:
		return nil
	case p.count == 0 && k.finish == finishMean && x.DType.IsInteger():
		return c.Errorf("the mean over no elements of type %v, in shape %v, is not defined", x.DType, x.Shape)
	case p.count == 0 && k.name == "min" && x.DType == graph.Bool:
		return k.rows.d.Memory().Fill(y.Data, 1)
	}
	return k.reduce(c, x, y)
}

// reduce reduces x to y as the plan says.
func (k *reduceKernel) reduce(c *executor.Ctx, x, y *executor.Tensor) error {
	p := &k.plan
	chunks, chunk := p.chunks(k.width)
	part := c.Scratch(k.spaceFor(x.Shape, y.Shape))
	l := k.rows
	if p.columns {
		l = k.columns
	}
	k.pack(l.begin(), x, y, part, p.outs, chunks, chunk)
	var err error
	if p.columns {
		tiles := (p.inner + 31) / 32
		if p.inner%k.width == 0 {
			tiles = (p.inner + 32*k.width - 1) / (32 * k.width)
		}
		err = l.tiles(p.outs*tiles*chunks, 8)
	} else if p.short() {
		err = l.line(p.outs, 1)
	} else {
		err = l.folding(p.outs*chunks, min(p.count, chunk))
	}
	if err != nil || chunks == 1 {
		return err
	}
	k.pack(k.parts.begin(), x, y, part, y.Len(), chunks, chunk)
	return k.parts.folding(y.Len(), 1)
}

// folding runs one team for each of n pieces of work: a warp, or a block where there are many
// elements.
func (l *launch) folding(n, each int) error {
	if each > 1024 {
		return l.rows(n, 256, 0)
	}
	s := driver.Line(min((n+3)/4, 1<<20), 32)
	s.Block[1] = 4
	return l.run(s)
}

// pack packs reduce_args.
func (k *reduceKernel) pack(a *driver.Args, x, y *executor.Tensor, part []byte, outs, chunks, chunk int) {
	p := &k.plan
	a.In(x.Data).Out(y.Data).Out(part).Int(outs).Int(p.inner).Int(p.runs).Int(chunks).Int(chunk).
		Int(p.count).Uint32(k.of).Uint32(k.finish).Uint32(wide(x.DType, p.inner))
	p.pack(a)
}
