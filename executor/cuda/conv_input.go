package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// spread applies the transpose of a convolution: dx [N, C, in…] of dy [N, M, out…], weights [M,
// C/group, kernel…] and a bias for each of C, or nil. lent is cuDNN's workspace if it takes part.
func (k *convolver) spread(c *executor.Ctx, p *convPlan, dy, w, bias, dx, lent []byte) error {
	if len(dx) == 0 {
		return nil
	}
	if p.mg == 0 || p.outPlane == 0 {
		// a window without places leaves the bias
		return k.addBack(p, nil, bias, dx, p.n, p.c, 0)
	}
	choice := k.choice(p, driver.ConvData)
	switch {
	case choice.err != nil:
		return choice.err
	case choice.library():
		if err := k.convolve(p, driver.ConvData, &choice, dx, w, dy, lent); err != nil || bias == nil {
			return err
		}
		return k.addBias(dx, bias, p.n, p.c, p.inPlane)
	case p.way == convDepth:
		return k.spreadDepth(p, dy, w, bias, dx)
	}
	columns, room := dx, []byte(nil)
	if p.way == convColumns {
		columns = c.Scratch(p.spreadColumns())
		if k.widen != nil {
			var err error
			if w, err = k.widened(w, c.Scratch(p.m*p.depth*4)); err != nil {
				return err
			}
			room = c.Scratch(p.images * p.m * p.outPlane * 4)
			elem, tf32 := k.gemm.Elem, k.gemm.TF32
			k.gemm.Elem, k.gemm.TF32 = driver.F32, true // which has room for all bits of halves
			defer func() { k.gemm.Elem, k.gemm.TF32 = elem, tf32 }()
		}
	}
	for from := 0; from < p.n; from += p.images {
		count := min(p.images, p.n-from)
		y, x := dy[from*p.m*p.outPlane*k.size:], dx[from*p.c*p.inPlane*k.size:]
		var err error
		if room != nil {
			if y, err = k.widened(y[:count*p.m*p.outPlane*k.size], room); err != nil {
				return err
			}
		}
		switch {
		case p.way == convPoint:
			if err = k.multiplyBack(p, count, w, y, x); err == nil && bias != nil {
				err = k.addBias(x, bias, count, p.c, p.inPlane)
			}
		case p.whole():
			if err = k.multiplyBack(p, count, w, y, columns); err == nil {
				err = k.addBack(p, columns, bias, x, count, p.c, p.c*p.taps*p.outPlane)
			}
		default:
			err = k.spreadBlocks(p, w, y, bias, columns, x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spreadBytes returns the workspace of the transpose by own kernels: the columns and cuBLAS's loan.
func (k *convolver) spreadBytes(p *convPlan) int {
	p.backward(k.size)
	return p.backwardBytes() + executor.RoundUp(k.d.libraryWorkspace())
}

// widened writes halves as float32 to room.
func (k *convolver) widened(x, room []byte) ([]byte, error) {
	n := len(x) / k.size
	k.widen.begin().In(x).Out(room[:4*n]).Int(n).Float32(0).Float32(0)
	return room[:4*n], k.widen.line(n, 4)
}

// addBias adds a bias per channel to y, in place.
func (k *convolver) addBias(y, bias []byte, count, channels, plane int) error {
	n := count * channels * plane
	k.finish.begin().In(y[:n*k.size]).In(bias).In(nil).Out(y[:n*k.size]).Int(n).Int(channels * plane).
		Int(plane).Divider(plane).Divider(channels).Int32(0).Float32(0).Float32(0)
	return k.finish.line(n, 4)
}

// multiplyBack makes the columns of count images: images are the library's batch, or groups where
// they are more.
func (k *convolver) multiplyBack(p *convPlan, count int, w, dy, columns []byte) error {
	g := &k.gemm
	g.TransA, g.M, g.N, g.K, g.LDA, g.LDB, g.LDC = true, p.depth, p.outPlane, p.mg, p.depth, p.outPlane, p.outPlane
	defer func() { g.TransA = false }()
	imageY, imageC, groupW, groupY, groupC := p.m*p.outPlane, p.c*p.taps*p.outPlane, p.mg*p.depth, p.mg*p.outPlane,
		p.depth*p.outPlane
	if p.group > count {
		g.Batch, g.StrideA, g.StrideB, g.StrideC = p.group, groupW, groupY, groupC
		for i := range count {
			if err := k.call(w, 0, dy, i*imageY, columns, i*imageC); err != nil {
				return err
			}
		}
		return nil
	}
	g.Batch, g.StrideA, g.StrideB, g.StrideC = count, 0, imageY, imageC
	for i := range p.group {
		if err := k.call(w, i*groupW, dy, i*groupY, columns, i*groupC); err != nil {
			return err
		}
	}
	return nil
}

// spreadBlocks does one image, some channels of a group at a time.
func (k *convolver) spreadBlocks(p *convPlan, w, dy, bias, columns, dx []byte) error {
	g := &k.gemm
	defer func() { g.TransA = false }()
	for group := range p.group {
		for first := 0; first < p.cg; first += p.channels {
			count := min(p.channels, p.cg-first)
			g.TransA, g.M, g.N, g.K, g.LDA, g.LDB, g.LDC = true, count*p.taps, p.outPlane, p.mg, p.depth,
				p.outPlane, p.outPlane
			g.Batch, g.StrideA, g.StrideB, g.StrideC = 1, 0, 0, 0
			if err := k.call(w, group*p.mg*p.depth+first*p.taps, dy, group*p.mg*p.outPlane, columns, 0); err != nil {
				return err
			}
			channel := group*p.cg + first
			some := bias
			if bias != nil {
				some = bias[channel*k.size:][:count*k.size]
			}
			if err := k.addBack(p, columns, some, dx[channel*p.inPlane*k.size:], 1, count,
				count*p.taps*p.outPlane); err != nil {
				return err
			}
		}
	}
	return nil
}

// addBack adds up the columns, which are float32, of some channels of count images.
func (k *convolver) addBack(p *convPlan, columns, bias, dx []byte, count, channels, imageStride int) error {
	n := count * channels * p.inPlane
	a := k.back.begin().In(columns[:min(len(columns), count*channels*p.taps*p.outPlane*4)]).In(bias).
		Out(dx[:n*k.size]).Int(n).Int(imageStride).Int(p.outPlane).Int(channels * p.inPlane).
		Divider(max(p.inPlane, 1)).Divider(max(channels, 1))
	if columns == nil {
		none := *p
		none.Kernel = [3]int{}
		none.pack(a)
	} else {
		p.pack(a)
	}
	return k.back.line(n, 1)
}

// spreadDepth does groups of one channel each.
func (k *convolver) spreadDepth(p *convPlan, dy, w, bias, dx []byte) error {
	n := p.n * p.c * p.inPlane
	a := k.depthBack.begin()
	for _, b := range [...][]byte{dy, w, bias, nil} {
		a.In(b)
	}
	a.Out(dx).Int(n).Divider(p.inPlane).Divider(p.m).Divider(p.mg).Int32(0).Float32(0).Float32(0)
	p.pack(a)
	return k.depthBack.line(n, 1)
}
