package cpu

// If every second column of the input is under a tap, columns are made in two steps: the rows of
// the input are split into even and odd elements, padding included; then every tap is a plain copy.

// cutSplit decides whether tiles are made this way, and how many rows of the input a tile sees. The
// tiles are already cut.
func (p *convPlan) cutSplit() {
	w := &p.win
	p.splitRows, p.splitHalf = 0, 0
	if w.stride[2] != 2 || w.kernel[2] == 1 || w.kernel[0] != 1 || w.in[0] != 1 || w.out[0] != 1 || w.begin[0] != 0 ||
		p.outPlane == 0 {
		return
	}
	rows := w.out[1]
	if p.perPlane > 0 && p.way != convShared {
		rows = min(rows, (p.tile+w.out[2]-2)/w.out[2]+1)
	}
	p.splitRows = (rows-1)*w.stride[1] + w.extent(1)
	p.splitHalf = w.out[2] + (w.kernel[2]-1)*w.dilation[2]/2 + 1
}

// splitLen returns the elements of the split rows.
func (p *convPlan) splitLen() int { return 2 * p.splitRows * p.splitHalf }

// packSplit has the result of pack, computed channel by channel and image by image.
func (k *convCore[T]) packSplit(dst, temp []T, ld, c0, c1, from, to int) {
	w := &k.win
	width := w.out[2]
	for j := from; j < to; {
		n := j / k.outPlane
		at := j - n*k.outPlane
		take := min(k.outPlane-at, to-j)
		first, last := at/width, (at+take-1)/width
		top := first*w.stride[1] - w.begin[1]
		rows := (last-first)*w.stride[1] + w.extent(1)
		for c := c0; c < c1; c++ {
			x := k.x[(n*k.c+c)*k.inPlane:][:k.inPlane]
			for r := range rows {
				k.splitRow(temp[2*r*k.splitHalf:][:2*k.splitHalf], x, top+r)
			}
			for tap := range k.taps {
				kh, kw := tap/w.kernel[2], tap%w.kernel[2]
				q := kw * w.dilation[2]
				src := temp[(2*kh*w.dilation[1]+q%2)*k.splitHalf+q/2:]
				joinRows(dst[((c-c0)*k.taps+tap)*ld+j-from:][:take], src, at-first*width, width,
					2*w.stride[1]*k.splitHalf)
			}
		}
		j += take
	}
}

// joinRows copies rows of width elements, which are step elements apart; the first begins at col.
func joinRows[T convFloat](dst, src []T, col, width, step int) {
	for len(dst) > 0 {
		n := copy(dst[:min(width-col, len(dst))], src[col:])
		if dst, col = dst[n:], 0; len(dst) > 0 {
			src = src[step:]
		}
	}
}

// splitRow splits row h of a plane: the even elements, then the odd ones, counted from the start of
// the padding.
func (k *convCore[T]) splitRow(dst, x []T, h int) {
	w := &k.win
	if h < 0 || h >= w.in[1] {
		clear(dst)
		return
	}
	x = x[h*w.in[2]:][:w.in[2]]
	for phase := range 2 {
		half := dst[phase*k.splitHalf:][:k.splitHalf]
		// Element i of half is element 2i + phase - begin of the row.
		first := phase - w.begin[2]
		lo := 0
		if first < 0 {
			lo = min((1-first)/2, len(half))
		}
		hi := max(lo, min(len(half), (w.in[2]-first+1)/2))
		clear(half[:lo])
		clear(half[hi:])
		if lo == hi {
			continue
		}
		half = half[lo:hi]
		src := x[2*lo+first:][:2*len(half)-1]
		for i := range half {
			half[i] = src[2*i]
		}
	}
}
