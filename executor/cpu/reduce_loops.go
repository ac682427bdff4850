package cpu

// reduceRuns folds runs whose elements belong to one result.
type reduceRuns[A reduceElem] reduceKernel[A]

// Range folds chunks lo..hi-1; result i has the chunks i*chunks..
func (r *reduceRuns[A]) Range(lo, hi int) {
	k := (*reduceKernel[A])(r)
	var tile [256]A
	var buf [reduceBlock]A
	if k.chunks > 1 {
		for i := lo; i < hi; i++ {
			out, chunk := i/k.chunks, i%k.chunks
			k.part[chunk*k.plan.outs+out] = k.foldRuns(out, chunk*k.chunk, min((chunk+1)*k.chunk, k.pieces), buf[:])
		}
		return
	}
	single := k.pieces == 1 && len(k.plan.keptDims) == 1 && k.phase != foldLogExp
	for lo < hi {
		n := min(hi-lo, len(tile))
		if single {
			k.foldSingle(tile[:n], lo, buf[:])
		} else {
			for i := range n {
				tile[i] = k.foldRuns(lo+i, 0, k.pieces, buf[:])
			}
		}
		k.put(lo, tile[:n])
		lo += n
	}
}

// foldRuns folds blocks lo..hi-1 of a result.
func (k *reduceKernel[A]) foldRuns(out, lo, hi int, buf []A) A {
	p := &k.plan
	acc := k.identity
	var m A
	if k.phase == foldLogExp {
		m = k.m[out]
	}
	base := p.kept(out)
	blocks := max((p.inner+reduceBlock-1)/reduceBlock, 1)
	run, block := lo/blocks, lo%blocks
	for ; lo < hi; lo++ {
		at := block * reduceBlock
		a := k.load(buf, base+p.fold(run)+at, min(p.inner-at, reduceBlock))
		acc = reduceCombineOne(k.phase, acc, reduceRun(k.phase, a, m, buf))
		if block++; block == blocks {
			run, block = run+1, 0
		}
	}
	return acc
}

// foldSingle folds results of one block each, from result out on.
func (k *reduceKernel[A]) foldSingle(tile []A, out int, buf []A) {
	step, n := k.plan.keptSteps[0], k.plan.inner
	for i := range tile {
		tile[i] = reduceRun(k.phase, k.load(buf, (out+i)*step, n), 0, buf)
	}
}

// reduceCombineOne is reduceCombine for one result.
func reduceCombineOne[A reduceElem](op reduceOp, acc, v A) A {
	switch op {
	case foldMax:
		return max(acc, v)
	case foldMin:
		return min(acc, v)
	case foldProd:
		return acc * v
	}
	return acc + v
}

// reduceColumns folds runs with one element of each of neighbouring results.
type reduceColumns[A reduceElem] reduceKernel[A]

// Range folds chunks lo..hi-1; tile i of results has the chunks i*chunks..
func (r *reduceColumns[A]) Range(lo, hi int) {
	k := (*reduceKernel[A])(r)
	p := &k.plan
	var acc, sub, buf, wide [reduceBlock]A
	for ; lo < hi; lo++ {
		tile, chunk := lo/k.chunks, lo%k.chunks
		out, column := tile/k.tiles, tile%k.tiles*reduceBlock
		n := min(p.inner-column, reduceBlock)
		at := out*p.inner + column
		k.foldColumns(acc[:n], sub[:n], buf[:], wide[:], p.kept(out)+column, at, chunk*k.chunk,
			min((chunk+1)*k.chunk, k.pieces))
		if k.chunks > 1 {
			copy(k.part[chunk*p.outs*p.inner+at:], acc[:n])
		} else {
			k.put(at, acc[:n])
		}
	}
}

// foldColumns folds rows lo..hi-1 of a tile into acc, in blocks. base is where the tile's elements
// of a row lie, out the number of its first result; the other slices are scratch space.
func (k *reduceKernel[A]) foldColumns(acc, sub, buf, wide []A, base, out, lo, hi int) {
	var m []A
	if k.phase == foldLogExp {
		m = k.m[out : out+len(acc)]
	}
	step := reduceRowBlock * k.group
	for first := lo; lo < hi || lo == first; lo += step {
		to := acc
		if lo > first {
			to = sub
		}
		if k.group > 1 {
			k.foldWide(to, buf, wide, base, lo, min(lo+step, hi))
		} else {
			k.foldRows(to, buf, m, base, lo, min(lo+step, hi))
		}
		if lo > first {
			reduceCombine(k.phase, acc, sub)
		}
	}
}

func (k *reduceKernel[A]) foldRows(acc, buf, m []A, base, lo, hi int) {
	reduceFill(acc, k.identity)
	for r := lo; r < hi; r++ {
		// An element that is converted lies in buf, where foldLogExp needs it last.
		reduceInto(k.phase, acc, k.load(buf, base+k.plan.fold(r), len(acc)), m, buf)
	}
}

// foldWide is foldRows for short rows without gaps between them.
func (k *reduceKernel[A]) foldWide(acc, buf, wide []A, base, lo, hi int) {
	inner := len(acc)
	wide = wide[:inner*k.group]
	reduceFill(wide, k.identity)
	for r := lo; r < hi; r += k.group {
		n := min(k.group, hi-r) * inner
		reduceInto(k.phase, wide[:n], k.load(buf, base+r*inner, n), nil, buf)
	}
	copy(acc, wide)
	for at := inner; at < len(wide); at += inner {
		reduceCombine(k.phase, acc, wide[at:])
	}
}

func reduceFill[A reduceElem](dst []A, v A) {
	for i := range dst {
		dst[i] = v
	}
}

// reduceParts puts the chunks of results together.
type reduceParts[A reduceElem] reduceKernel[A]

// Range finishes results lo..hi-1.
func (r *reduceParts[A]) Range(lo, hi int) {
	k := (*reduceKernel[A])(r)
	var acc [reduceBlock]A
	total := len(k.part) / k.chunks
	for lo < hi {
		n := min(hi-lo, len(acc))
		copy(acc[:n], k.part[lo:])
		for c := 1; c < k.chunks; c++ {
			reduceCombine(k.phase, acc[:n], k.part[c*total+lo:])
		}
		k.put(lo, acc[:n])
		lo += n
	}
}
