package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// batchNormGradKernel is ONNX Runtime's BatchNormalizationGrad of dY, X, scale, and the batch's
// mean m and inverse deviation r. With h = (x-m)*r and M elements in a channel:
//
//	dbias = sum(dY), dscale = sum(dY*h), dX = scale*r*(dY - dbias/M - h*dscale/M)
type batchNormGradKernel[T normElem] struct {
	batchLayout
	dy, x, dx        normTensor[T]
	scale, mean, inv *executor.Tensor
	dscale, dbias    normStats
}

func newBatchNormGrad(p *executor.Prep) (executor.Kernel, error) {
	if normAccumulates(p.DType(0)) != normAccumulates(p.DType(1)) || !normTypes(p, 2, 1) {
		return nil, unsupportedTypes(p)
	}
	switch normAccumulates(p.DType(0)) {
	case graph.Float32:
		return &batchNormGradKernel[float32]{}, nil
	case graph.Float64:
		return &batchNormGradKernel[float64]{}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run computes the gradients.
func (k *batchNormGradKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(1)
	if err := normSameShape(c, 0, 1); err != nil {
		return err
	}
	k.read(x.Shape, false)
	for i := 2; i < 5; i++ {
		if err := normVector(c, i, "channels' operand", k.c); err != nil {
			return err
		}
	}
	k.scale, k.mean, k.inv = c.In(2), c.In(3), c.In(4)
	k.dy, k.x, k.dx = normOpen[T](c.In(0)), normOpen[T](x), normOpen[T](c.Out(0, x.Shape...))
	k.dscale.open(c, 1, k.c)
	k.dbias.open(c, 2, k.c)
	k.parallel(c, k)
	return nil
}

// Range does tiles lo..hi-1.
func (k *batchNormGradKernel[T]) Range(lo, hi int) {
	var ms, as, bs, db, ds [batchTile]T
	var block, block2 [normBlock]T
	count := T(k.n * k.d)
	for ; lo < hi; lo++ {
		from, to := k.channels(lo)
		n := to - from
		m, a, b := ms[:n], as[:n], bs[:n]
		for i := range m {
			m[i] = normStat[T](k.mean, from+i)
		}
		k.sums(block[:], block2[:], db[:n], ds[:n], m, from)
		for i := range m {
			ch := from + i
			inv := normStat[T](k.inv, ch)
			ds[i] *= inv
			k.dbias.put(ch, float64(db[i]))
			k.dscale.put(ch, float64(ds[i]))
			// dX = a*(dY + (x-m)*b) + db, in the names of apply.
			a[i] = normStat[T](k.scale, ch) * inv
			b[i] = -inv * ds[i] / count
			db[i] = -a[i] * db[i] / count
		}
		if k.dx.given() {
			k.apply(block[:], block2[:], m, a, b, db[:n], from)
		}
	}
}

// sums sets db to the channels' sums of dY, and ds to those of dY*(x-m).
func (k *batchNormGradKernel[T]) sums(buf, buf2, db, ds, m []T, from int) {
	clear(db)
	clear(ds)
	for i := range k.n {
		base := (i*k.c + from) * k.d
		if k.d == 1 {
			dy, b := k.dy.load(buf2, base, len(m)), buf[:len(m)]
			normAdd(db, db, dy)
			normSub(b, k.x.load(buf, base, len(m)), m)
			normMulAdd(ds, b, dy, ds)
			continue
		}
		for ch := range m {
			at := base + ch*k.d
			for end := at + k.d; at < end; at += normBlock {
				n := min(end-at, normBlock)
				dy, b := k.dy.load(buf2, at, n), buf[:n]
				db[ch] += normSum(dy)
				normAddScalar(b, k.x.load(buf, at, n), -m[ch])
				ds[ch] += normDot(dy, b)
			}
		}
	}
}

// apply sets dX = a*(dY + (x-m)*b) + t.
func (k *batchNormGradKernel[T]) apply(buf, buf2, m, a, b, t []T, from int) {
	for i := range k.n {
		base := (i*k.c + from) * k.d
		if k.d == 1 {
			dx := k.dx.place(buf, base, len(m))
			normSub(dx, k.x.load(buf, base, len(m)), m)
			normMulAdd(dx, dx, b, k.dy.load(buf2, base, len(m)))
			normMulAdd(dx, dx, a, t)
			k.dx.store(base, dx)
			continue
		}
		for ch := range m {
			at := base + ch*k.d
			for end := at + k.d; at < end; at += normBlock {
				n := min(end-at, normBlock)
				dx := k.dx.place(buf, at, n)
				normAddScalar(dx, k.x.load(buf, at, n), -m[ch])
				normMulScalar(dx, dx, b[ch])
				normAdd(dx, dx, k.dy.load(buf2, at, n))
				normScaleShift(dx, dx, a[ch], t[ch])
				k.dx.store(at, dx)
			}
		}
	}
}
