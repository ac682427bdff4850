package cuda

import (
	"memopt/executor/cuda/driver"
)

// maxFolds is MAX_FOLDS of kernels/reduce.h.
const maxFolds = 8

// foldDims are dims with the elements from one step to the next, innermost first.
type foldDims struct{ dims, steps []int }

func (f *foldDims) reset() { f.dims, f.steps = f.dims[:0], f.steps[:0] }

// add puts a dim outside of the others; it joins the outermost one where it goes on there.
func (f *foldDims) add(d, step int) {
	if last := len(f.dims) - 1; last >= 0 && f.steps[last]*f.dims[last] == step {
		f.dims[last] *= d
		return
	}
	f.dims, f.steps = append(f.dims, d), append(f.steps, step)
}

// foldPlan says where the elements of each result lie: in runs of inner neighbouring elements, of
// one result, or of inner neighbouring results where columns holds.
type foldPlan struct {
	columns     bool
	inner, runs int
	outs        int // results, or rows of inner results
	count       int // elements of a result
	kept, fold  foldDims
}

// set makes the plan of a shape and the axes to fold.
func (p *foldPlan) set(shape []int, folded []bool) {
	p.inner, p.runs, p.outs, p.count, p.columns = 1, 1, 1, 1, true
	p.kept.reset()
	p.fold.reset()
	step, inside := 1, true // inside the run still
	for i := len(shape) - 1; i >= 0; i-- {
		d := shape[i]
		if d == 1 {
			continue
		}
		if folded[i] {
			p.count *= d
		}
		if step == 1 { // the innermost
			p.columns = !folded[i]
		}
		inside = inside && folded[i] != p.columns
		switch {
		case inside:
			p.inner *= d
		case folded[i]:
			p.runs *= d
			p.fold.add(d, step)
		default:
			p.outs *= d
			p.kept.add(d, step)
		}
		step *= d
	}
}

// The goal of a reduction: enough blocks to fill a GPU, each with enough work. The numbers are
// fixed, so that the order of additions depends only on the shape.
const (
	foldBlocks    = 2048
	foldLeast     = 4096 // elements of a result that are worth a block
	foldLeastRuns = 64   // runs of columns that are worth a block
	foldChunks    = 1024 // most per result
)

// chunks returns into how many chunks a result is cut and how much of it is in one: elements, or
// runs of columns.
func (p *foldPlan) chunks(width int) (chunks, chunk int) {
	work, least, items := p.count, foldLeast, p.outs
	if p.columns {
		work, least = p.runs, foldLeastRuns
		items *= (p.inner + 32*width - 1) / (32 * width)
	}
	if items == 0 || work <= 2*least || items >= foldBlocks/2 {
		return 1, max(work, 1)
	}
	most := min(max(foldBlocks/items, 2), foldChunks)
	chunk = max(least, (work+most-1)/most)
	chunk = (chunk + 15) / 16 * 16 // whole packs
	return (work + chunk - 1) / chunk, chunk
}

// short reports whether results have so few elements, side by side, that a thread adds up each
// alone: SHORT of kernels/reduce.h.
func (p *foldPlan) short() bool { return !p.columns && p.runs == 1 && p.count <= 16 }

// pack packs the dims of reduce_args.
func (p *foldPlan) pack(a *driver.Args) {
	a.Int32(int32(len(p.kept.dims))).Int32(int32(len(p.fold.dims)))
	for _, list := range [][]int{p.kept.dims, p.kept.steps, p.fold.dims, p.fold.steps} {
		for i := range maxFolds {
			if i < len(list) {
				a.Int(list[i])
			} else {
				a.Int(0)
			}
		}
	}
	if p.inner > 0 && p.inner < 1<<31 {
		a.Divider(p.inner)
	} else {
		a.Divider(1)
	}
}

// fits reports whether the kernels have room for the plan's dims.
func (p *foldPlan) fits() bool { return max(len(p.kept.dims), len(p.fold.dims)) <= maxFolds }
