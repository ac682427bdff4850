package torch

import "slices"

// variable numbers the tensors, as autograd sees them, that gradients are added up for; noGrad for
// a tensor without gradient.
type variable int32

const noGrad variable = -1

// tensor is a view of a storage. The zero tensor stands for a missing one.
type tensor struct {
	storage StorageID
	dims    []int64
	strides []int64 // in elements
	elem    int64   // bytes of an element
	grad    variable
	view    bool // it was made as a view of another tensor, which it holds
}

// there reports whether there is a tensor with memory of its own or of another one.
func (t tensor) there() bool { return t.dims != nil && t.storage != none }

// elements is the product of dims.
func elements(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

// bytes is the size of a tensor of its own with these elements.
func (t tensor) bytes() int64 { return elements(t.dims) * t.elem }

// rowMajor are the strides of a contiguous tensor.
func rowMajor(dims []int64) []int64 {
	out := make([]int64, len(dims))
	step := int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		out[i] = step
		step *= max(dims[i], 1)
	}
	return out
}

// contiguous is Tensor.is_contiguous: dims of 1 may have any stride.
func (t tensor) contiguous() bool {
	step := int64(1)
	for i := len(t.dims) - 1; i >= 0; i-- {
		if t.dims[i] != 1 {
			if t.strides[i] != step {
				return false
			}
			step *= t.dims[i]
		}
	}
	return true
}

// dense reports whether elements lie beside each other in some order of the dims, without overlap
// (is_non_overlapping_and_dense).
func (t tensor) dense() bool {
	order := t.byStride()
	step := int64(1)
	for _, i := range slices.Backward(order) {
		if t.dims[i] == 1 {
			continue
		}
		if t.strides[i] != step {
			return false
		}
		step *= t.dims[i]
	}
	return true
}

// byStride lists the dims by stride, the largest first; of equal ones in their order.
func (t tensor) byStride() []int {
	order := make([]int, len(t.dims))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case t.strides[a] > t.strides[b]:
			return -1
		case t.strides[a] < t.strides[b]:
			return 1
		}
		return 0
	})
	return order
}

// stridesLike are the strides that an elementwise result of a tensor's dims has: its own where it is
// dense, else those of a contiguous one (TensorIterator keeps the order of the dims).
func (t tensor) stridesLike() []int64 {
	if t.dense() {
		return t.strides
	}
	return rowMajor(t.dims)
}

// viewStrides returns the strides of a view of a tensor under other dims, ok false if it needs a copy
// (computeStride in aten/src/ATen/TensorUtils.cpp): groups of dims that lie beside each other in memory
// may be joined and split at will.
func (t tensor) viewStrides(dims []int64) (strides []int64, ok bool) {
	if elements(t.dims) == 0 || len(t.dims) == 0 {
		return rowMajor(dims), true
	}
	strides = make([]int64, len(dims))
	at := len(dims) - 1
	base := t.strides[len(t.dims)-1]
	joined, cut := int64(1), int64(1)
	for i := len(t.dims) - 1; i >= 0; i-- {
		joined *= t.dims[i]
		if i > 0 && (t.dims[i-1] == 1 || t.strides[i-1] == joined*base) {
			continue
		}
		for at >= 0 && (cut < joined || dims[at] == 1) {
			strides[at] = cut * base
			cut *= dims[at]
			at--
		}
		if cut != joined {
			return nil, false
		}
		if i > 0 {
			base = t.strides[i-1]
			joined, cut = 1, 1
		}
	}
	return strides, at < 0
}

// permuted is the view with its dims in another order.
func (t tensor) permuted(perm []int64) tensor {
	out := t
	out.dims, out.strides, out.view = make([]int64, len(perm)), make([]int64, len(perm)), true
	for i, p := range perm {
		out.dims[i], out.strides[i] = t.dims[p], t.strides[p]
	}
	return out
}

// inverse is the permutation that undoes another.
func inverse(perm []int64) []int64 {
	out := make([]int64, len(perm))
	for i, p := range perm {
		out[p] = int64(i)
	}
	return out
}
