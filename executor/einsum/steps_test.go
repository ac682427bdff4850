package einsum_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor/einsum"
	_ "memopt/internal/test/rapidflags"
)

// compute runs a plan's steps element by element, as they are documented.
func compute(p *einsum.Plan, operands [][]int) []int {
	size := 1
	for _, d := range p.Shape {
		size *= d
	}
	buffers := append(slices.Clone(operands), make([]int, size))
	for _, n := range p.Scratch {
		buffers = append(buffers, make([]int, n))
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Product {
			multiply(s, buffers[s.A.Buffer], buffers[s.B.Buffer], buffers[s.C.Buffer])
		} else {
			gather(s, buffers[s.A.Buffer], buffers[s.C.Buffer])
		}
	}
	return buffers[len(operands)]
}

func multiply(s *einsum.Step, a, b, c []int) {
	aRow, aCol := s.A.Steps()
	bRow, bCol := s.B.Steps()
	dims := []int{}
	for _, x := range s.Batch {
		dims = append(dims, x.N)
	}
	each(append(dims, s.M, s.N), func(at []int) {
		atA, atB, atC := at[len(dims)]*aRow, at[len(dims)+1]*bCol, at[len(dims)]*s.C.LD+at[len(dims)+1]
		for i, x := range s.Batch {
			atA, atB, atC = atA+at[i]*x.A, atB+at[i]*x.B, atC+at[i]*x.C
		}
		c[atC] = 0
		for k := range s.K {
			c[atC] += a[atA+k*aCol] * b[atB+k*bRow]
		}
	})
}

func gather(s *einsum.Step, a, c []int) {
	i := 0
	each(s.Dims, func(at []int) {
		c[i] = 0
		each(s.SumDims, func(of []int) { c[i] += a[dot(at, s.Strides)+dot(of, s.SumStrides)] })
		i++
	})
}

func dot(x, y []int) int {
	n := 0
	for i := range x {
		n += x[i] * y[i]
	}
	return n
}

// each calls f with every index of an array, in row-major order.
func each(dims []int, f func(at []int)) {
	at := make([]int, len(dims))
	for {
		if slices.Contains(dims, 0) {
			return
		}
		f(at)
		i := len(dims) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < dims[i] {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// TestPlan: the steps of a plan compute what the equation says: the sum of products over all values
// of the labels that the result does not have.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.SliceOfN(rapid.IntRange(0, 3), 5, 5).Draw(t, "dims")
		label := rapid.ByteRange('a', 'e')
		terms := rapid.SliceOfN(rapid.SliceOfN(label, 0, 4), 1, 3).Draw(t, "terms")
		var used []byte
		text := ""
		for i, term := range terms {
			if used = append(used, term...); i > 0 {
				text += ","
			}
			text += string(term)
		}
		slices.Sort(used)
		used = slices.Compact(used)
		result := []byte{}
		for _, l := range rapid.Permutation(used).Draw(t, "order") {
			if rapid.Bool().Draw(t, "kept") {
				result = append(result, l)
			}
		}
		eq, err := einsum.Parse(text + "->" + string(result))
		require.NoError(t, err)
		var shapes, operands [][]int
		for _, term := range terms {
			shape, n := []int{}, 1
			for _, l := range term {
				shape, n = append(shape, dims[l-'a']), n*dims[l-'a']
			}
			shapes = append(shapes, shape)
			operands = append(operands, rapid.SliceOfN(rapid.IntRange(-9, 9), n, n).Draw(t, "operand"))
		}
		p := einsum.New(eq)
		require.False(t, p.Fits(shapes))
		require.NoError(t, p.Build(shapes))
		require.True(t, p.Fits(shapes))
		require.Equal(t, direct(terms, result, used, dims, shapes, operands), compute(p, operands))
	})
}

// direct adds up the products one by one.
func direct(terms [][]byte, result, used []byte, dims []int, shapes, operands [][]int) []int {
	var all, out []int
	for _, l := range used {
		all = append(all, dims[l-'a'])
	}
	size := 1
	for _, l := range result {
		out, size = append(out, dims[l-'a']), size*dims[l-'a']
	}
	y := make([]int, size)
	place := func(term []byte, shape, at []int) int {
		n := 0
		for i, l := range term {
			n = n*shape[i] + at[slices.Index(used, l)]
		}
		return n
	}
	each(all, func(at []int) {
		v := 1
		for i, term := range terms {
			v *= operands[i][place(term, shapes[i], at)]
		}
		y[place(result, out, at)] += v
	})
	return y
}
