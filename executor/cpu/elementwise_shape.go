package cpu

import (
	"slices"

	"memopt/executor"
)

// elemBroadcast stretches all operands to one shape, as numpy does.
func elemBroadcast(k *elemKernel, c *executor.Ctx) error {
	rank := 0
	for i := range k.in {
		rank = max(rank, len(k.in[i].shape))
	}
	k.shape = k.shape[:0]
	for range rank {
		k.shape = append(k.shape, 1)
	}
	for i := range k.in {
		s := k.in[i].shape
		dims := k.shape[rank-len(s):]
		for j, d := range s {
			switch {
			case dims[j] == 1:
				dims[j] = d
			case d != 1 && d != dims[j]:
				return c.Errorf("input %d has shape %v, which does not broadcast with that of the inputs before it, %v",
					k.in[i].slot, s, k.shape)
			}
		}
	}
	return nil
}

// elemLikeFirst gives the output the shape of the first operand; the others are stretched to it.
func elemLikeFirst(k *elemKernel, c *executor.Ctx) error {
	first := &k.in[0]
	k.shape = append(k.shape[:0], first.shape...)
	for i := range k.in[1:] {
		in := &k.in[i+1]
		if !elemStretches(in.shape, k.shape) {
			return c.Errorf("input %d has shape %v, which does not stretch to that of input %d, %v",
				in.slot, in.shape, first.slot, k.shape)
		}
	}
	return nil
}

// elemStretches reports whether broadcasting turns one shape into another.
func elemStretches(from, to []int) bool {
	if len(from) > len(to) {
		return false
	}
	to = to[len(to)-len(from):]
	for i, d := range from {
		if d != 1 && d != to[i] {
			return false
		}
	}
	return true
}

// elemEqualShapes requires all operands to have the shape of the first one.
func elemEqualShapes(k *elemKernel, c *executor.Ctx) error {
	first := &k.in[0]
	for i := range k.in[1:] {
		in := &k.in[i+1]
		if !slices.Equal(in.shape, first.shape) {
			return c.Errorf("input %d has shape %v, wanted that of input %d, %v", in.slot, in.shape, first.slot,
				first.shape)
		}
	}
	k.shape = append(k.shape[:0], first.shape...)
	return nil
}

// elemScalarsAfter requires the first n operands to have one shape and the others to be scalars.
func elemScalarsAfter(n int) elemShapeRule {
	return func(k *elemKernel, c *executor.Ctx) error {
		for i := range k.in[n:] {
			in := &k.in[n+i]
			if in.slot >= 0 && (len(in.shape) > 1 || product(in.shape) != 1) {
				return c.Errorf("input %d has shape %v, wanted a scalar", in.slot, in.shape)
			}
		}
		all := k.in
		k.in = all[:n]
		err := elemEqualShapes(k, c)
		k.in = all
		return err
	}
}

// elemBiasLast requires all operands to have the shape of the first one, except operand bias, a
// vector as long as the last dim.
func elemBiasLast(bias int) elemShapeRule {
	return func(k *elemKernel, c *executor.Ctx) error {
		first := &k.in[0]
		k.shape = append(k.shape[:0], first.shape...)
		for i := range k.in {
			in := &k.in[i]
			if i == bias {
				if len(in.shape) != 1 || len(k.shape) == 0 || in.shape[0] != k.shape[len(k.shape)-1] {
					return c.Errorf("input %d, the bias, has shape %v, wanted a vector as long as the last dim of "+
						"input %d, %v",
						in.slot, in.shape, first.slot, k.shape)
				}
			} else if !slices.Equal(in.shape, k.shape) {
				return c.Errorf("input %d has shape %v, wanted that of input %d, %v",
					in.slot, in.shape, first.slot, k.shape)
			}
		}
		return nil
	}
}

// layout sets the dims of the loop and each operand's place and strides.
//
// Dims of length 1 are dropped, and neighbours are merged where every operand steps through both as
// through one, so that the loop has as few dims as possible. Then an operand's stride in the last
// dim is 1 or 0.
func (k *elemKernel) layout() {
	k.dims = k.dims[:0]
	for i := range k.in {
		in := &k.in[i]
		in.stride = in.stride[:0]
		switch product(in.shape) {
		case k.n:
			in.place = elemFlat
		case 1:
			in.place = elemOne
		default:
			in.place = elemStrided
		}
	}
	for axis, d := range k.shape {
		if d != 1 {
			k.addDim(axis, d)
		}
	}
	k.rows = false
	if n := len(k.dims); n > 0 && k.strided() {
		k.rows = k.dims[n-1] >= elemLongRow
	}
}

// addDim adds an axis of the output to the loop as its innermost dim, or merges it into that.
func (k *elemKernel) addDim(axis, d int) {
	merge := len(k.dims) > 0
	for i := range k.in {
		in := &k.in[i]
		s := in.strideOf(axis, len(k.shape))
		in.stride = append(in.stride, s)
		if n := len(in.stride); merge && in.stride[n-2] != s*d {
			merge = false
		}
	}
	if !merge {
		k.dims = append(k.dims, d)
		return
	}
	k.dims[len(k.dims)-1] *= d
	for i := range k.in {
		in := &k.in[i]
		n := len(in.stride)
		in.stride[n-2] = in.stride[n-1]
		in.stride = in.stride[:n-1]
	}
}

// strideOf returns the elements between neighbours along an axis, with the operand stretched to a
// shape of the given rank.
func (in *elemInput) strideOf(axis, rank int) int {
	axis -= rank - len(in.shape)
	if axis < 0 || in.shape[axis] == 1 {
		return 0
	}
	return product(in.shape[axis+1:])
}

// offset returns the place in the operand of the element at place at of the output.
func (k *elemKernel) offset(in *elemInput, at int) int {
	off := 0
	for i := len(k.dims) - 1; i > 0 && at > 0; i-- {
		d := k.dims[i]
		q := at / d
		off += (at - q*d) * in.stride[i]
		at = q
	}
	return off + at*in.stride[0]
}

// stretch copies to dst the operand's elements for the places of the output from at on.
func (k *elemKernel) stretch(in *elemInput, dst []byte, at int) {
	switch in.size {
	case 1:
		elemStretch(k, in, dst, executor.Cast[uint8](in.data), at)
	case 2:
		elemStretch(k, in, executor.Cast[uint16](dst), executor.Cast[uint16](in.data), at)
	case 4:
		elemStretch(k, in, executor.Cast[uint32](dst), executor.Cast[uint32](in.data), at)
	default:
		elemStretch(k, in, executor.Cast[uint64](dst), executor.Cast[uint64](in.data), at)
	}
}

// elemStretch is stretch for elements of one size. The last two dims are loops; a stretched
// operand's loop has at least two.
func elemStretch[S executor.Elem](k *elemKernel, in *elemInput, dst, src []S, at int) {
	last := len(k.dims) - 1
	rows, row := k.dims[last-1], k.dims[last]
	rowStride, stride := in.stride[last-1], in.stride[last]
	for len(dst) > 0 {
		r, col := at/row%rows, at%row
		off := k.offset(in, at-col)
		n := min((rows-r)*row-col, len(dst)) // to the end of the plane
		if rowStride == 0 && stride == 1 {
			elemPeriods(dst[:n], src[off:off+row], col)
		} else {
			elemRows(dst[:n], src[off:], row, col, rowStride, stride)
		}
		dst = dst[n:]
		at += n
	}
}

// elemPeriods fills dst with a row over and over, starting at column col.
func elemPeriods[S executor.Elem](dst, row []S, col int) {
	n := copy(dst, row[col:])
	n += copy(dst[n:], row[:col])
	for n < len(dst) {
		n += copy(dst[n:], dst[:n])
	}
}

// elemRows fills dst with rows that are rowStride apart, starting at column col of the first one.
// The elements of a row are neighbours, or, with stride 0, all the same.
func elemRows[S executor.Elem](dst, src []S, row, col, rowStride, stride int) {
	for len(dst) > 0 {
		n := min(row-col, len(dst))
		if piece := dst[:n]; stride == 0 {
			elemFill(piece, src[0])
		} else {
			copy(piece, src[col:])
		}
		dst = dst[n:]
		if col = 0; len(dst) > 0 {
			src = src[rowStride:]
		}
	}
}

// elemRepeat fills dst with copies of an element. one may lie at the start of dst.
func elemRepeat(dst, one []byte) {
	switch len(one) {
	case 1:
		elemFill(dst, one[0])
	case 2:
		elemFill(executor.Cast[uint16](dst), executor.Cast[uint16](one)[0])
	case 4:
		elemFill(executor.Cast[uint32](dst), executor.Cast[uint32](one)[0])
	default:
		elemFill(executor.Cast[uint64](dst), executor.Cast[uint64](one)[0])
	}
}

func elemFill[S executor.Elem](dst []S, v S) {
	for i := range dst {
		dst[i] = v
	}
}
