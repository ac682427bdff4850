package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/dnnl"
	"memopt/graph"
)

// convGradKernel is ConvGrad of com.microsoft: from dY [N, M, out…], X [N, C, in…] and
// W [M, C/group, k…] the gradients dX, dW and dB [M] of a Conv, each if it is wanted:
//
//	dX  the transposed convolution of dY
//	dW  for every channel and tap, the sum of dY times the element under the tap
//	dB  the sums of dY
type convGradKernel[T convFloat] struct {
	attrs windowAttrs
	group int
	back  convBack[T]
	dw    convWeightGrad[T]
	db    convBiasGrad[T]
}

// newConvGrad makes a ConvGrad.
func newConvGrad(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newConvGradKernel[float32](p)
	case graph.Float64:
		return newConvGradKernel[float64](p)
	}
	return nil, unsupportedTypes(p)
}

func newConvGradKernel[T convFloat](p *executor.Prep) (executor.Kernel, error) {
	attrs, group, err := newConvAttrs(p)
	if err != nil {
		return nil, err
	}
	k := &convGradKernel[T]{attrs: attrs, group: group}
	k.back.math, k.back.threads = newConvMath[T](), max(1, p.Threads)
	k.dw.math, k.dw.threads = k.back.math, k.back.threads
	k.back.lib, k.dw.lib = &convLibrary{threads: k.back.threads}, &convLibrary{threads: k.back.threads}
	return k, nil
}

// Workspace returns the bytes of workspace for the columns.
func (k *convGradKernel[T]) Workspace(in, out [][]int) int {
	plan, err := newConvPlan(&k.attrs, k.group, in[1], in[2], sizeOfElem[T]())
	if err != nil {
		return 0
	}
	n := 0
	if len(out) > 0 && out[0] != nil {
		b := convBack[T]{convCore: convCore[T]{convPlan: plan, threads: k.back.threads, lib: k.back.lib}}
		b.cut()
		n += b.workspace()
	}
	if len(out) > 1 && out[1] != nil {
		w := convWeightGrad[T]{convCore: convCore[T]{convPlan: plan, threads: k.back.threads, lib: k.dw.lib}}
		w.cut()
		n += w.workspace()
	}
	return n
}

// Run checks the shapes and computes.
func (k *convGradKernel[T]) Run(c *executor.Ctx) error {
	dy, x, w := c.In(0), c.In(1), c.In(2)
	plan, err := newConvPlan(&k.attrs, k.group, x.Shape, w.Shape, sizeOfElem[T]())
	if err != nil {
		return err
	}
	var buf [2 + maxWindowAxes]int
	if want := plan.outShape(buf[:0]); !sameInts(dy.Shape, want) {
		return c.Errorf("input 0 (dY) has shape %v, wanted %v", dy.Shape, append([]int(nil), want...))
	}
	if dx := c.Out(0, x.Shape...); dx != nil {
		k.back.convPlan = plan
		k.back.cut()
		k.back.x, k.back.y, k.back.w = executor.Of[T](dx), executor.Of[T](dy), executor.Of[T](w)
		k.back.run(c)
	}
	if dw := c.Out(1, w.Shape...); dw != nil {
		k.dw.convPlan = plan
		k.dw.cut()
		k.dw.x, k.dw.y, k.dw.w = executor.Of[T](x), executor.Of[T](dy), executor.Of[T](dw)
		k.dw.run(c)
	}
	if db := c.Out(2, plan.m); db != nil {
		k.db = convBiasGrad[T]{plan: plan, sum: k.back.math.sum, dy: executor.Of[T](dy), db: executor.Of[T](db)}
		c.Parallel(plan.m, 1+1<<14/max(1, plan.n*plan.outPlane), &k.db)
	}
	return nil
}

// convBiasGrad sums dY over images and places.
type convBiasGrad[T convFloat] struct {
	plan   convPlan
	sum    func([]T) T
	dy, db []T
}

// Range sums the filters lo..hi-1.
func (k *convBiasGrad[T]) Range(lo, hi int) {
	plane := k.plan.outPlane
	for m := lo; m < hi; m++ {
		s := T(0)
		for n := range k.plan.n {
			s += k.sum(k.dy[(n*k.plan.m+m)*plane:][:plane])
		}
		k.db[m] = s
	}
}

// convWeightGrad computes dW: for every tile, dY times the transposed columns. A piece is a
// block of channels of a group and a share of the tiles; the shares are added up in their order.
type convWeightGrad[T convFloat] struct {
	convCore[T] // with dy in y and dw in w
	channels    int
	blocks      int // of channels, per group
	shares      int
	parts       []T // dW of each share but the first
	byLibrary   bool
}

// cut chooses the pieces.
func (k *convWeightGrad[T]) cut() {
	if k.byLibrary = k.takenByLibrary(dnnl.BackwardWeights); k.byLibrary {
		return
	}
	k.channels = min(max(1, convBackRows/k.taps), max(k.cg, 1))
	k.blocks = (k.cg + k.channels - 1) / k.channels
	want := max(convLeastTile, convTileBytes/(sizeOfElem[T]()*k.channels*k.taps))
	count := max(1, (k.outPlane+want/4)/want)
	k.tile = (k.outPlane + count - 1) / count
	k.perPlane = count
	k.tiles = k.n * count
	k.way = convTiled
	k.cutSplit()
	k.shares = max(1, min(k.tiles, convFewPieces/max(1, k.blocks*k.group)))
}

func (k *convWeightGrad[T]) slotLen() int {
	return (k.splitLen() + k.channels*k.taps*k.tile + 15) &^ 15
}

func (k *convWeightGrad[T]) workLens() (slots, parts int) {
	return k.threads * k.slotLen(), (k.shares - 1) * k.m * k.depth
}

func (k *convWeightGrad[T]) workspace() int {
	if k.byLibrary {
		return k.lib.workspace()
	}
	slots, parts := k.workLens()
	size := sizeOfElem[T]()
	return executor.RoundUp(slots*size) + executor.RoundUp(parts*size)
}

// run computes dw.
func (k *convWeightGrad[T]) run(c *executor.Ctx) {
	if len(k.w) == 0 {
		return
	}
	if k.n*k.outPlane == 0 {
		clear(k.w)
		return
	}
	if k.byLibrary {
		convByLibrary(k.lib, c, k.x, k.y, k.w)
		return
	}
	slots, parts := k.workLens()
	k.work, k.parts = executor.ScratchOf[T](c, slots), executor.ScratchOf[T](c, parts)
	k.slots.reset(k.threads)
	c.Parallel(k.group*k.blocks*k.shares, 1, (*convWeightPieces[T])(k))
	if k.shares > 1 {
		c.Parallel(len(k.w), 1<<13, (*convWeightSums[T])(k))
	}
}

type convWeightPieces[T convFloat] convWeightGrad[T]

// Range computes the pieces lo..hi-1.
func (t *convWeightPieces[T]) Range(lo, hi int) {
	k := (*convWeightGrad[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	work := k.work[s*k.slotLen():][:k.slotLen()]
	for i := lo; i < hi; i++ {
		share := i % k.shares
		block := i / k.shares % k.blocks
		g := i / (k.shares * k.blocks)
		dw := k.w
		if share > 0 {
			dw = k.parts[(share-1)*len(k.w):][:len(k.w)]
		}
		c0 := block * k.channels
		c1 := min(c0+k.channels, k.cg)
		first, last := share*k.tiles/k.shares, (share+1)*k.tiles/k.shares
		for tile := first; tile < last; tile++ {
			beta := T(1)
			if tile == first {
				beta = 0
			}
			k.add(dw[g*k.mg*k.depth+c0*k.taps:], work, g, c0, c1, tile, beta)
		}
	}
}

// add sets dw to beta*dw and a tile's part.
func (k *convWeightGrad[T]) add(dw, work []T, g, c0, c1, tile int, beta T) {
	from, to := k.columnsOf(tile)
	rows, n := (c1-c0)*k.taps, to-from
	if n <= 0 {
		return
	}
	columns := work[k.splitLen():]
	k.pack(columns, work, n, g*k.cg+c0, g*k.cg+c1, from, to)
	image := from / k.outPlane
	dy := k.y[(image*k.m+g*k.mg)*k.outPlane+from-image*k.outPlane:]
	k.math.gemm(false, true, k.mg, rows, n, 1, dy, k.outPlane, columns, n, beta, dw, k.depth)
}

type convWeightSums[T convFloat] convWeightGrad[T]

// Range adds the elements lo..hi-1 of all shares.
func (t *convWeightSums[T]) Range(lo, hi int) {
	n := len(t.w)
	for s := range t.shares - 1 {
		t.math.add(t.w[lo:hi], t.w[lo:hi], t.parts[s*n+lo:s*n+hi])
	}
}
