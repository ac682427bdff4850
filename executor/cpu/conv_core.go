package cpu

import (
	"unsafe"

	"memopt/executor"
)

// convCore computes the convolution of x [N, C, in…] with weights w [M, C/group, kernel…]:
//
//	y[n, m, o…] = act(bias[m] + z[n, m, o…] + Σ x[n, c, o*stride - begin + k*dilation…] * w[m, c, k…])
//
// over the channels c of m's group and the taps k. It is a product of matrices, the weights
// times the columns: column o lists the K = C/group*taps elements of x under place o. Columns
// are made tile by tile in workspace, so that they stay in the cache until they are multiplied.
// How the work is cut depends on the shapes alone.
type convCore[T convFloat] struct {
	convPlan
	math convMath[T]
	act  convActivation
	lib  *convLibrary // nil means this package's methods only

	x, w, y, bias, z []T // of a run; bias and z may be nil
	work             []T
	slots            slotList
	threads          int
}

// workspace returns the bytes that run takes.
func (k *convCore[T]) workspace() int {
	if k.way == convOneDNN {
		return k.lib.workspace()
	}
	var e T
	return executor.RoundUp(k.workLen(k.threads) * int(unsafe.Sizeof(e)))
}

// run computes y. The plan and the operands are set.
func (k *convCore[T]) run(c *executor.Ctx) {
	if len(k.y) == 0 {
		return
	}
	if k.depth == 0 {
		clear(k.y)
		c.Parallel(k.n*k.m, 1+1<<14/k.outPlane, (*convFinish[T])(k))
		return
	}
	switch k.way {
	case convWinograd:
		k.runWinograd(c)
		return
	case convOneDNN:
		convByLibrary(k.lib, c, k.x, k.w, k.y)
		if k.bias != nil || k.z != nil || k.act.kind != convNoActivation {
			c.Parallel(k.n*k.m, 1+1<<14/k.outPlane, (*convFinish[T])(k))
		}
		return
	}
	k.work = nil
	if n := k.workLen(k.threads); n > 0 {
		k.work = executor.ScratchOf[T](c, n)
	}
	k.slots.reset(k.threads)
	switch k.way {
	case convDepth:
		c.Parallel(k.n*k.m, 1+1<<14/(k.outPlane*k.taps), (*convDepthwise[T])(k))
	case convShared:
		c.Parallel(k.cg, 1+1<<14/(k.n*k.outPlane*k.taps), (*convColumns[T])(k))
		c.Parallel(k.sharedTiles()*k.filterBlocks(), 1, (*convProducts[T])(k))
	case convDeep:
		c.Parallel(k.tiles, 1, (*convDeepTiles[T])(k))
	default:
		c.Parallel(k.tiles*k.group, 1, (*convTiles[T])(k))
	}
}

func (k *convCore[T]) sharedTiles() int { return (k.n*k.outPlane + k.tile - 1) / k.tile }

// slot returns the workspace of a thread.
func (k *convCore[T]) slot(i int) []T {
	n := k.slotLen()
	return k.work[i*n : (i+1)*n]
}

// convTiles computes tiles of groups, each on its own.
type convTiles[T convFloat] convCore[T]

// Range computes the pieces lo..hi-1: piece i is tile i/group of group i%group.
func (t *convTiles[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	work := k.slot(s)
	for i := lo; i < hi; i++ {
		g := i % k.group
		from, to := k.columnsOf(i / k.group)
		b, ldb := work[k.splitLen()+k.tempLen():], to-from
		if k.way == convPoint {
			n := from / k.outPlane
			b, ldb = k.x[(n*k.c+g*k.cg)*k.inPlane+from-n*k.outPlane:], k.inPlane
		} else {
			k.pack(b, work[k.tempLen():], ldb, g*k.cg, (g+1)*k.cg, from, to)
		}
		k.multiply(g*k.mg, (g+1)*k.mg, from, to, b, ldb, work)
	}
}

// convColumns makes all columns, channel by channel.
type convColumns[T convFloat] convCore[T]

// Range makes the rows of the channels lo..hi-1.
func (t *convColumns[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	n := k.n * k.outPlane
	k.pack(k.shared()[lo*k.taps*n:], k.slot(s)[k.tempLen():], n, lo, hi, 0, n)
}

// shared returns the columns of all threads.
func (k *convCore[T]) shared() []T { return k.work[k.threads*k.slotLen():] }

// convProducts multiplies blocks of filters with tiles of the shared columns.
type convProducts[T convFloat] convCore[T]

// Range computes the pieces lo..hi-1: piece i is a block of filters of a tile.
func (t *convProducts[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	blocks, n := k.filterBlocks(), k.n*k.outPlane
	for i := lo; i < hi; i++ {
		m := i % blocks * k.filterBlock()
		from := i / blocks * k.tile
		to := min(from+k.tile, n)
		k.multiply(m, min(m+k.filterBlock(), k.m), from, to, k.shared()[from:], n, k.slot(s))
	}
}

// multiply computes the filters m0..m1-1 at the columns from..to-1, which are in b. If the columns
// belong to several images, the product is first made in temp.
func (k *convCore[T]) multiply(m0, m1, from, to int, b []T, ldb int, temp []T) {
	w := k.w[m0*k.depth : m1*k.depth]
	plane := k.outPlane
	n := from / plane
	if to <= (n+1)*plane {
		y := k.y[(n*k.m+m0)*plane+from-n*plane:]
		k.math.gemm(false, false, m1-m0, to-from, k.depth, 1, w, k.depth, b, ldb, 0, y, plane)
		for m := m0; m < m1; m++ {
			k.finish(m, (n*k.m+m)*plane+from-n*plane, to-from)
		}
		return
	}
	ld := to - from
	k.math.gemm(false, false, m1-m0, ld, k.depth, 1, w, k.depth, b, ldb, 0, temp, ld)
	k.scatter(m0, m1, from, to, temp)
}

// scatter puts a product of the filters m0..m1-1 at the columns from..to-1 of whole images where it
// belongs, and finishes it.
func (k *convCore[T]) scatter(m0, m1, from, to int, temp []T) {
	plane, ld := k.outPlane, to-from
	for m := m0; m < m1; m++ {
		row := temp[(m-m0)*ld:][:ld]
		for j := from; j < to; j += plane {
			at := (j/plane*k.m + m) * plane
			copy(k.y[at:at+plane], row[j-from:])
			k.finish(m, at, plane)
		}
	}
}

// convFinish finishes whole planes.
type convFinish[T convFloat] convCore[T]

// Range finishes the planes lo..hi-1.
func (t *convFinish[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	for i := lo; i < hi; i++ {
		k.finish(i%k.m, i*k.outPlane, k.outPlane)
	}
}

// finish adds bias and z to n elements of filter m and applies the activation.
func (k *convCore[T]) finish(m, at, n int) {
	y := k.y[at : at+n]
	if k.bias != nil {
		k.math.addScalar(y, y, k.bias[m])
	}
	if k.z != nil {
		k.math.add(y, y, k.z[at:at+n])
	}
	if k.act.kind != convNoActivation {
		convActivate(k.math.relu, &k.act, y)
	}
}
