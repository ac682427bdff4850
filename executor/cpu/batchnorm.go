package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// BatchNormalization of x [N, C, D…]: y = (x-m)*scale/√(v+epsilon) + bias for each channel, where m
// and v are the running mean and variance or, in training, those of the batch. Training also
// updates the running ones: running*momentum + batch*(1-momentum); the variance is that of the
// population. https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
//
// Outputs 3 and 4 depend on the form: the batch's mean and variance before version 14, its mean and
// inverse deviation in ONNX Runtime's BatchNormInternal.

// batchLayout says how channels lie in memory. Channels are processed in tiles, so that short ones
// share cache lines; sums over a channel go plane by plane.
type batchLayout struct {
	n, c, d int
	tile    int // channels
}

// batchTile is the most channels that are processed together.
const batchTile = 64

// read sets the layout of a shape; one place per element of a sample if perPlace.
func (l *batchLayout) read(shape []int, perPlace bool) {
	l.n, l.c, l.d = 1, 1, 1
	if len(shape) > 0 {
		l.n = shape[0]
	}
	if len(shape) > 1 {
		l.c, l.d = shape[1], product(shape[2:])
	}
	if perPlace {
		l.c, l.d = l.c*l.d, 1
	}
	l.tile = min(max(256/max(l.d, 1), 1), batchTile)
}

// parallel runs a task over the tiles.
func (l *batchLayout) parallel(c *executor.Ctx, t executor.Task) {
	c.Parallel((l.c+l.tile-1)/l.tile, normGrain(2*l.n*l.d*l.tile), t)
}

// channels returns the channels of tile i.
func (l *batchLayout) channels(i int) (lo, hi int) { return i * l.tile, min((i+1)*l.tile, l.c) }

// batchNormKernel is BatchNormalization in any form.
type batchNormKernel[T normElem] struct {
	batchLayout
	epsilon, momentum  float64
	training, perPlace bool
	saveInv            bool // output 4 is the inverse deviation

	x, y                    normTensor[T]
	scale, bias, mean, vari *executor.Tensor
	newMean, newVar         normStats
	saveMean, saveVar       normStats
}

// newBatchNorm makes BatchNormalization.
func newBatchNorm(p *executor.Prep) (executor.Kernel, error) {
	training := p.Node.Int("training_mode", 0) != 0
	if p.Version < 14 {
		training = p.Wants(1) || p.Wants(2) || p.Wants(3) || p.Wants(4)
	}
	return makeBatchNorm(p, training, false)
}

// newBatchNormInternal makes ONNX Runtime's training form.
func newBatchNormInternal(p *executor.Prep) (executor.Kernel, error) {
	return makeBatchNorm(p, p.Node.Int("training_mode", 1) != 0, true)
}

func makeBatchNorm(p *executor.Prep, training, saveInv bool) (executor.Kernel, error) {
	if !normTypes(p, 1, 1) {
		return nil, unsupportedTypes(p)
	}
	momentum := float64(p.Node.Float("momentum", 0.9))
	perPlace := p.Version < 9 && p.Node.Int("spatial", 1) == 0 && p.Info.Domain == ""
	switch normAccumulates(p.DType(0)) {
	case graph.Float32:
		return &batchNormKernel[float32]{epsilon: normEpsilon(p), momentum: momentum, training: training,
			perPlace: perPlace, saveInv: saveInv}, nil
	case graph.Float64:
		return &batchNormKernel[float64]{epsilon: normEpsilon(p), momentum: momentum, training: training,
			perPlace: perPlace, saveInv: saveInv}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run normalises.
func (k *batchNormKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 1 {
		return c.Errorf("input 0 is %v, wanted rank 1 or more", x)
	}
	k.read(x.Shape, k.perPlace)
	for i := 1; i < 5; i++ {
		if t := c.In(i); t.Len() != k.c || t.Rank() != 1 && !k.perPlace {
			return c.Errorf("input %d is %v, wanted one element for each of %d channels", i, t, k.c)
		}
	}
	if k.training && k.n*k.d == 0 && k.c > 0 {
		return c.Errorf("input 0 is %v: the mean of no elements is undefined", x)
	}
	k.scale, k.bias, k.mean, k.vari = c.In(1), c.In(2), c.In(3), c.In(4)
	k.x, k.y = normOpen[T](x), normOpen[T](c.Out(0, x.Shape...))
	stats := c.In(1).Shape
	k.newMean.open(c, 1, stats...)
	k.newVar.open(c, 2, stats...)
	k.saveMean.open(c, 3, stats...)
	k.saveVar.open(c, 4, stats...)
	k.parallel(c, k)
	return nil
}

// Range normalises tiles lo..hi-1.
func (k *batchNormKernel[T]) Range(lo, hi int) {
	var m, a, b [batchTile]T
	var block [normBlock]T
	for ; lo < hi; lo++ {
		from, to := k.channels(lo)
		n := to - from
		if k.training {
			k.batchStats(block[:], m[:n], a[:n], from)
		}
		for i := range n {
			ch := from + i
			oldMean, oldVar := normStat[float64](k.mean, ch), normStat[float64](k.vari, ch)
			v := oldVar
			if k.training {
				v = float64(a[i])
				k.newMean.put(ch, oldMean*k.momentum+float64(m[i])*(1-k.momentum))
				k.newVar.put(ch, oldVar*k.momentum+v*(1-k.momentum))
			} else {
				m[i] = T(oldMean)
				k.newMean.put(ch, oldMean)
				k.newVar.put(ch, oldVar)
			}
			inv := 1 / math.Sqrt(v+k.epsilon)
			k.saveMean.put(ch, float64(m[i]))
			if k.saveInv {
				k.saveVar.put(ch, inv)
			} else {
				k.saveVar.put(ch, v)
			}
			a[i], b[i] = T(inv)*normStat[T](k.scale, ch), normStat[T](k.bias, ch)
		}
		if k.y.given() {
			k.apply(block[:], m[:n], a[:n], b[:n], from)
		}
	}
}

// batchStats sets m and v to the mean and variance of channels from.. of the batch.
func (k *batchNormKernel[T]) batchStats(buf, m, v []T, from int) {
	count := T(k.n * k.d)
	clear(m)
	clear(v)
	for i := range k.n {
		base := (i*k.c + from) * k.d
		if k.d == 1 {
			normAdd(m, m, k.x.load(buf, base, len(m)))
			continue
		}
		for ch := range m {
			m[ch] += k.x.sum(buf, base+ch*k.d, k.d)
		}
	}
	for ch := range m {
		m[ch] /= count
	}
	for i := range k.n {
		base := (i*k.c + from) * k.d
		if k.d == 1 {
			b := buf[:len(m)]
			normSub(b, k.x.load(buf, base, len(m)), m)
			normMulAdd(v, b, b, v)
			continue
		}
		for ch := range m {
			v[ch] += k.x.sumSquares(buf, base+ch*k.d, k.d, m[ch])
		}
	}
	for ch := range v {
		v[ch] /= count
	}
}

// apply sets y = (x-m)*a + b for channels from..
func (k *batchNormKernel[T]) apply(buf, m, a, b []T, from int) {
	for i := range k.n {
		base := (i*k.c + from) * k.d
		if k.d == 1 {
			y := k.y.place(buf, base, len(m))
			normSub(y, k.x.load(buf, base, len(m)), m)
			normMulAdd(y, y, a, b)
			k.y.store(base, y)
			continue
		}
		for ch := range m {
			normPlane(buf, &k.y, &k.x, base+ch*k.d, k.d, m[ch], a[ch], b[ch])
		}
	}
}

// normPlane sets n neighbouring elements of y to (x-m)*a + b.
func normPlane[T normElem](buf []T, y, x *normTensor[T], at, n int, m, a, b T) {
	for end := at + n; at < end; at += normBlock {
		w := min(end-at, normBlock)
		d := y.place(buf, at, w)
		normAddScalar(d, x.load(buf, at, w), -m)
		normScaleShift(d, d, a, b)
		y.store(at, d)
	}
}
