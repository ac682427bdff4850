package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
	"memopt/internal/half"
)

// atenGroupNorm is native_group_norm: groups of neighbouring channels of X [N, C, d…] are normalised, each sample on
// its own, and weighted by channel. Inputs are X, weights, biases, N, C, the elements of a plane, the groups and an
// epsilon; outputs Y, the means and the inverse deviations [N, groups].
// https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.group_norm.html
type atenGroupNorm[T convFloat] struct {
	atenGroups
	epsilon            float64
	x, y, weight, bias []T
	mean, inverse      []T
}

// atenGroups is how a tensor falls into groups.
type atenGroups struct{ n, c, d, groups int }

// read checks the shape of X and reads the number of groups.
func (g *atenGroups) read(c *executor.Ctx, x *executor.Tensor, slot int) error {
	groups, err := operand.Int(c, slot, 1)
	if err != nil {
		return err
	}
	if x.Rank() < 2 || groups < 1 || x.Shape[1]%groups != 0 {
		return c.Errorf("X has shape %v, whose channels %d groups do not divide", x.Shape, groups)
	}
	*g = atenGroups{x.Shape[0], x.Shape[1], product(x.Shape[2:]), groups}
	return nil
}

// size is the number of elements of a group.
func (g *atenGroups) size() int { return g.c / g.groups * g.d }

func newATenGroupNorm[T convFloat]() executor.Kernel { return &atenGroupNorm[T]{} }

// Run normalises.
func (k *atenGroupNorm[T]) Run(c *executor.Ctx) error {
	x, w, b := c.In(0), c.In(1), c.In(2)
	if err := k.read(c, x, 6); err != nil {
		return err
	}
	for i, t := range []*executor.Tensor{w, b} {
		if t == nil || t.Len() != k.c || t.DType != x.DType {
			return c.Errorf("input %d is %v, wanted %d elements of %v", 1+i, t, k.c, x.DType)
		}
	}
	var ok bool
	if k.epsilon, ok = atenFloat(c.In(7)); !ok || k.epsilon < 0 {
		return c.Errorf("input 7, the epsilon, is %v, wanted a number that is not negative", c.In(7))
	}
	y, mean, inverse := c.Out(0, x.Shape...), c.Out(1, k.n, k.groups), c.Out(2, k.n, k.groups)
	k.x, k.weight, k.bias = executor.Of[T](x), executor.Of[T](w), executor.Of[T](b)
	k.y, k.mean, k.inverse = ofOrNil[T](y), ofOrNil[T](mean), ofOrNil[T](inverse)
	c.Parallel(k.n*k.groups, 1+1<<13/max(1, k.size()), k)
	return nil
}

// ofOrNil returns the elements of a tensor, nil for none.
func ofOrNil[T convFloat](t *executor.Tensor) []T {
	if t == nil {
		return nil
	}
	return executor.Of[T](t)
}

// atenFloat returns the one element of a float tensor.
func atenFloat(t *executor.Tensor) (float64, bool) {
	if t == nil || t.Len() != 1 {
		return 0, false
	}
	switch t.DType {
	case graph.Float32:
		return float64(executor.Of[float32](t)[0]), true
	case graph.Float64:
		return executor.Of[float64](t)[0], true
	case graph.Float16:
		return float64(executor.Of[half.Float16](t)[0].Float32()), true
	}
	return 0, false
}

// Range normalises the groups lo..hi-1 of all samples.
func (k *atenGroupNorm[T]) Range(lo, hi int) {
	size := k.size()
	for g := lo; g < hi; g++ {
		x := k.x[g*size:][:size]
		sum, square := 0.0, 0.0
		for _, v := range x {
			sum += float64(v)
		}
		mean := sum / float64(max(size, 1))
		for _, v := range x {
			off := float64(v) - mean
			square += float64(off * off)
		}
		inverse := 1 / math.Sqrt(square/float64(max(size, 1))+k.epsilon)
		if k.mean != nil {
			k.mean[g] = T(mean)
		}
		if k.inverse != nil {
			k.inverse[g] = T(inverse)
		}
		if k.y == nil {
			continue
		}
		first := g % k.groups * (k.c / k.groups)
		for i, v := range x {
			ch := first + i/k.d
			hat := (float64(v) - mean) * inverse
			scaled := T(hat) * k.weight[ch]
			k.y[g*size+i] = scaled + k.bias[ch]
		}
	}
}

// atenGroupNormBackward gives the gradients of X, weights and biases. Inputs are dY, X, the means, the inverse
// deviations, the weights, N, C, the elements of a plane, the groups, and a mask that is of no account here.
type atenGroupNormBackward[T convFloat] struct {
	atenGroups
	dy, x, mean, inverse, weight []T
	dx, dw, db                   []T
}

func newATenGroupNormBackward[T convFloat]() executor.Kernel { return &atenGroupNormBackward[T]{} }

// Run checks the shapes and computes.
func (k *atenGroupNormBackward[T]) Run(c *executor.Ctx) error {
	dy, x, mean, inverse, w := c.In(0), c.In(1), c.In(2), c.In(3), c.In(4)
	if err := k.read(c, x, 8); err != nil {
		return err
	}
	if !sameInts(dy.Shape, x.Shape) {
		return c.Errorf("input 0 has shape %v, wanted that of X, %v", dy.Shape, x.Shape)
	}
	for i, t := range []*executor.Tensor{mean, inverse} {
		if t == nil || t.Len() != k.n*k.groups || t.DType != x.DType {
			return c.Errorf("input %d is %v, wanted %d elements of %v", 2+i, t, k.n*k.groups, x.DType)
		}
	}
	if w == nil || w.Len() != k.c || w.DType != x.DType {
		return c.Errorf("input 4, the weights, is %v, wanted %d elements of %v", w, k.c, x.DType)
	}
	k.dy, k.x, k.weight = executor.Of[T](dy), executor.Of[T](x), executor.Of[T](w)
	k.mean, k.inverse = executor.Of[T](mean), executor.Of[T](inverse)
	k.dx = ofOrNil[T](c.Out(0, x.Shape...))
	k.dw, k.db = ofOrNil[T](c.Out(1, k.c)), ofOrNil[T](c.Out(2, k.c))
	if k.dx != nil {
		c.Parallel(k.n*k.groups, 1+1<<13/max(1, k.size()), k)
	}
	if k.dw != nil || k.db != nil {
		c.Parallel(k.c, 1+1<<13/max(1, k.n*k.d), (*atenGroupNormSums[T])(k))
	}
	return nil
}

// Range does the groups lo..hi-1 of all samples.
func (k *atenGroupNormBackward[T]) Range(lo, hi int) {
	size := k.size()
	for g := lo; g < hi; g++ {
		x, dy, dx := k.x[g*size:][:size], k.dy[g*size:][:size], k.dx[g*size:][:size]
		mean, inverse := float64(k.mean[g]), float64(k.inverse[g])
		first := g % k.groups * (k.c / k.groups)
		sum, dot := 0.0, 0.0
		for i, v := range dy {
			e := float64(v) * float64(k.weight[first+i/k.d])
			hat := (float64(x[i]) - mean) * inverse
			sum += e
			dot += float64(e * hat)
		}
		sum, dot = sum/float64(size), dot/float64(size)
		for i, v := range dy {
			e := float64(v) * float64(k.weight[first+i/k.d])
			hat := (float64(x[i]) - mean) * inverse
			off := float64(hat * dot)
			dx[i] = T(inverse * (e - sum - off))
		}
	}
}

// atenGroupNormSums gives the gradients of weights and biases.
type atenGroupNormSums[T convFloat] atenGroupNormBackward[T]

// Range does the channels lo..hi-1.
func (k *atenGroupNormSums[T]) Range(lo, hi int) {
	for ch := lo; ch < hi; ch++ {
		dw, db := 0.0, 0.0
		for n := range k.n {
			at := n*k.groups + ch/(k.c/k.groups)
			mean, inverse := float64(k.mean[at]), float64(k.inverse[at])
			base := (n*k.c + ch) * k.d
			for i, v := range k.dy[base:][:k.d] {
				hat := (float64(k.x[base+i]) - mean) * inverse
				db += float64(v)
				dw += float64(float64(v) * hat)
			}
		}
		if k.dw != nil {
			k.dw[ch] = T(dw)
		}
		if k.db != nil {
			k.db[ch] = T(db)
		}
	}
}
