package kerneltest

import (
	"fmt"
	"math"
	"math/cmplx"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(fourierCases) }

func fourierCases() []Case { return append(append(dftCases(), stftCases()...), melCases()...) }

// fourierSum is the transform of a line by its definition, a sum for each frequency.
func fourierSum(x []complex128, n int, inverse bool) []complex128 {
	out := make([]complex128, n)
	for k := range out {
		for j, v := range x[:min(n, len(x))] {
			turn := 2 * math.Pi * float64(j*k%n) / float64(n)
			if !inverse {
				turn = -turn
			}
			out[k] += v * cmplx.Rect(1, turn)
		}
		if inverse {
			out[k] /= complex(float64(n), 0)
		}
	}
	return out
}

// dftTransformed is DFT of x by sums. length 0: that of the axis.
func dftTransformed(x *executor.Tensor, axis, length int, inverse, onesided bool) ([]int, []float64) {
	shape, rank := append([]int(nil), x.Shape...), len(x.Shape)
	elems, in, inner, parts := convNumbers(x), shape[axis], 1, shape[rank-1]
	for _, d := range shape[axis+1 : rank-1] {
		inner *= d
	}
	n := length
	if n == 0 {
		if n = in; inverse && onesided {
			n = 2 * (in - 1)
		}
	}
	outs, outParts := n, 2
	if onesided && !inverse {
		outs = n/2 + 1
	} else if onesided {
		outParts = 1
	}
	shape[axis], shape[rank-1] = outs, outParts
	want := make([]float64, seqCount(shape))
	for line := range len(elems) / max(1, in*parts) {
		outer, at := line/inner, line%inner
		var x []complex128
		for i := range in {
			v := elems[((outer*in+i)*inner+at)*parts:]
			c := complex(v[0], 0)
			if parts == 2 {
				c = complex(v[0], v[1])
			}
			x = append(x, c)
		}
		if inverse && onesided { // the whole spectrum of a real signal
			whole := make([]complex128, n)
			for k := range whole {
				if m := min(k, n-k); m < len(x) {
					whole[k] = x[m]
					if k > m {
						whole[k] = cmplx.Conj(x[m])
					}
					if m == 0 || 2*m == n {
						whole[k] = complex(real(x[m]), 0)
					}
				}
			}
			x = whole
		}
		for k, v := range fourierSum(x, n, inverse)[:outs] {
			to := want[((outer*outs+k)*inner+at)*outParts:]
			if to[0] = real(v); outParts == 2 {
				to[1] = imag(v)
			}
		}
	}
	return shape, want
}

func fourierTol(d graph.DType) float64 {
	return map[graph.DType]float64{graph.Float64: 1e-12, graph.Float32: 5e-5, graph.Float16: 1e-2,
		graph.BFloat16: 5e-2}[d]
}

func dftCases() []Case {
	var cases []Case
	add := func(d graph.DType, shape []int, axis, length int, inverse, onesided bool, opset int, more ...graph.Attr) {
		x := convRandom(d, len(shape)+length, shape...)
		out, want := dftTransformed(x, (axis+len(shape))%len(shape), length, inverse, onesided)
		flag := map[bool]int64{true: 1}
		name := fmt.Sprintf("%v axis %d length %d inverse %t onesided %t set %d", x, axis, length, inverse, onesided,
			opset)
		c := Case{Name: name,
			Kind: op.DFT, Opset: opset, Tol: fourierTol(d), In: []*executor.Tensor{x, nil}, Out: []graph.DType{d},
			Attrs: append([]graph.Attr{Attr("inverse", flag[inverse]), Attr("onesided", flag[onesided])}, more...),
			Want:  []*executor.Tensor{convTensor(d, out, want)}}
		if length != 0 {
			c.In[1] = seqTensor(graph.Int64, []int{}, []float64{float64(length)})
		}
		if opset >= 20 {
			c.In = append(c.In, seqTensor(graph.Int64, []int{}, []float64{float64(axis)}))
		} else {
			c.Attrs = append(c.Attrs, Attr("axis", int64(axis)))
		}
		cases = append(cases, c)
	}
	for _, n := range []int{1, 2, 5, 8, 12} {
		for _, opset := range []int{17, 20} {
			add(graph.Float32, []int{2, n, 1}, 1, 0, false, false, opset)
			add(graph.Float32, []int{2, n, 2}, -2, 0, false, false, opset)
			add(graph.Float32, []int{2, n, 2}, 1, 0, true, false, opset)
			add(graph.Float32, []int{2, n, 1}, 1, 0, false, true, opset)
			add(graph.Float64, []int{3, n, 2, 2}, 1, 7, false, false, opset)
			add(graph.Float64, []int{3, n, 2, 2}, 1, 6, true, false, opset)
			add(graph.Float64, []int{3, n, 2, 1}, 1, 6, false, true, opset)
			add(graph.Float64, []int{n, 3, 2}, 0, 0, false, false, opset)
			if n > 1 {
				add(graph.Float64, []int{3, n, 2, 2}, 1, 0, true, true, opset)
			}
			add(graph.Float64, []int{3, n, 2, 2}, 1, 5, true, true, opset)
		}
	}
	add(graph.Float16, []int{2, 8, 1}, 1, 0, false, false, 20)
	add(graph.BFloat16, []int{2, 8, 2}, 1, 0, true, false, 20)
	add(graph.Float32, []int{2, 256, 1}, 1, 0, false, true, 20)
	add(graph.Float64, []int{2, 300, 1}, 1, 0, false, true, 20)
	add(graph.Float32, []int{0, 4, 1}, 1, 0, false, false, 20)
	last := cases[0] // the default axes
	last.Name, last.Attrs = "default axis, set 17", []graph.Attr{}
	cases = append(cases, last)
	short := convRandom(graph.Float64, 3, 2, 3, 4, 2)
	out, want := dftTransformed(short, 2, 0, false, false)
	cases = append(cases, Case{Name: "default axis, set 20", Kind: op.DFT, Opset: 20, Tol: 1e-12,
		In: []*executor.Tensor{short}, Out: []graph.DType{graph.Float64},
		Want: []*executor.Tensor{convTensor(graph.Float64, out, want)}})
	cases = append(cases, Case{Name: "int32 length", Kind: op.DFT, Opset: 20, Tol: 1e-12,
		In:  []*executor.Tensor{short, seqTensor(graph.Int32, []int{1}, []float64{4})},
		Out: []graph.DType{graph.Float64}, Want: []*executor.Tensor{convTensor(graph.Float64, out, want)}})
	fault := func(name, text string, shape []int, length, axis float64, attrs ...graph.Attr) {
		cases = append(cases, Case{Name: name, Kind: op.DFT, Opset: 20, Attrs: attrs, Fails: text,
			Out: []graph.DType{graph.Float32},
			In: []*executor.Tensor{convRandom(graph.Float32, 1, shape...),
				seqTensor(graph.Int64, []int{}, []float64{length}),
				seqTensor(graph.Int64, []int{}, []float64{axis})}})
	}
	fault("three parts", "input 0 has shape", []int{2, 4, 3}, 4, 1)
	fault("last axis", "the last one", []int{2, 4, 2}, 4, -1)
	fault("no such axis", "axis", []int{2, 4, 2}, 4, 3)
	fault("no length", "the length of the transform is 0", []int{2, 4, 2}, 0, 1)
	fault("complex and one-sided", "input 0 is complex", []int{2, 4, 2}, 4, 1, Attr("onesided", int64(1)))
	fault("real and back", "input 0 is real", []int{2, 4, 1}, 4, 1, Attr("onesided", int64(1)),
		Attr("inverse", int64(1)))
	return cases
}

func stftCases() []Case {
	var cases []Case
	number := func(n int) *executor.Tensor {
		if n == 0 {
			return nil
		}
		return seqTensor(graph.Int64, []int{}, []float64{float64(n)})
	}
	add := func(d graph.DType, shape []int, step, frame int, windowed, onesided bool) {
		x, parts := convRandom(d, step, shape...), seqCount(append([]int{1}, shape[2:]...))
		length := frame
		if length == 0 {
			if length = shape[1]; windowed {
				length = 6
			}
		}
		factors := make([]float64, length)
		for i := range factors {
			factors[i] = 1
		}
		var window *executor.Tensor
		if windowed {
			window = convRandom(d, 9, length)
			factors = convNumbers(window)
		}
		frames, elems := (shape[1]-length)/step+1, convNumbers(x)
		outs := length
		if onesided {
			outs = length/2 + 1
		}
		var want []float64
		for b := range shape[0] {
			for f := range frames {
				var line []complex128
				for i, w := range factors {
					at := elems[(b*shape[1]+f*step+i)*parts:]
					c := complex(at[0]*w, 0)
					if parts == 2 {
						c = complex(at[0]*w, at[1]*w)
					}
					line = append(line, c)
				}
				for _, v := range fourierSum(line, length, false)[:outs] {
					want = append(want, real(v), imag(v))
				}
			}
		}
		name := fmt.Sprintf("%v step %d frame %d window %t onesided %t", x, step, frame, windowed, onesided)
		cases = append(cases, Case{Name: name,
			Kind: op.STFT, Opset: 17, Tol: fourierTol(d),
			In:    []*executor.Tensor{x, number(step), window, number(frame)},
			Attrs: []graph.Attr{Attr("onesided", map[bool]int64{true: 1}[onesided])}, Out: []graph.DType{d},
			Want: []*executor.Tensor{convTensor(d, []int{shape[0], frames, outs, 2}, want)}})
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64} {
		add(d, []int{2, 20, 1}, 3, 8, true, true)
		add(d, []int{2, 20, 1}, 4, 6, false, true)
		add(d, []int{2, 21, 1}, 5, 0, true, false)
		add(d, []int{1, 16, 2}, 8, 8, true, false)
		add(d, []int{1, 9, 2}, 1, 5, false, false)
		add(d, []int{1, 8, 1}, 2, 0, false, true)
		add(d, []int{2, 20}, 3, 8, true, true)
	}
	add(graph.Float16, []int{1, 16, 1}, 4, 8, true, true)
	fault := func(name, text string, shape []int, step, frame, window float64, attrs ...graph.Attr) {
		cases = append(cases, Case{Name: name, Kind: op.STFT, Opset: 17, Fails: text, Attrs: attrs,
			Out: []graph.DType{graph.Float32},
			In: []*executor.Tensor{convRandom(graph.Float32, 1, shape...),
				seqTensor(graph.Int64, []int{}, []float64{step}),
				convRandom(graph.Float32, 2, int(window)), seqTensor(graph.Int64, []int{}, []float64{frame})}})
	}
	fault("no step", "the step between frames is 0", []int{1, 8, 1}, 0, 4, 4)
	fault("long frame", "the length of a frame is 9", []int{1, 8, 1}, 2, 9, 9)
	fault("another window", "the window has 3", []int{1, 8, 1}, 2, 4, 3)
	fault("complex and one-sided", "input 0 is complex", []int{1, 8, 2}, 2, 4, 4)
	fault("rank", "input 0 has shape", []int{1, 8, 1, 1}, 2, 4, 4, Attr("onesided", int64(0)))
	return cases
}

// melCases are triangles, whose corners are written down from the mel scale.
func melCases() []Case {
	var cases []Case
	add := func(bands, length, rate int, low, high float64, edges, d graph.DType, corners []int) {
		want := make([]float64, (length/2+1)*bands)
		for b := range bands {
			rise, fall := corners[b+1]-corners[b], corners[b+2]-corners[b+1]
			for f := range length/2 + 1 {
				up, down := 0., 0.
				if f <= corners[b+1] && rise > 0 {
					up = max(0, float64(f-corners[b])/float64(rise))
				}
				if f >= corners[b+1] && fall > 0 {
					down = max(0, float64(corners[b+2]-f)/float64(fall))
				}
				if want[f*bands+b] = max(up, down); f == corners[b+1] {
					want[f*bands+b] = 1
				}
			}
		}
		number := func(n int) *executor.Tensor { return seqTensor(graph.Int64, []int{}, []float64{float64(n)}) }
		edge := func(v float64) *executor.Tensor { return seqTensor(edges, []int{}, []float64{v}) }
		cases = append(cases, Case{Name: fmt.Sprintf("%d bands of %d at %d, %v to %v", bands, length, rate, edges, d),
			Kind: op.MelWeightMatrix, Opset: 17, Tol: seqTol(d), Attrs: []graph.Attr{Attr("output_datatype", int64(d))},
			In:   []*executor.Tensor{number(bands), number(length), number(rate), edge(low), edge(high)},
			Out:  []graph.DType{d},
			Want: []*executor.Tensor{seqTensor(d, []int{length/2 + 1, bands}, want)}})
	}
	// floor(17·hz/8192) at 0, 293.4…: ONNX's own example; and a wider one.
	add(8, 16, 8192, 0, 4096, graph.Float32, graph.Float32, []int{0, 0, 0, 1, 1, 2, 3, 4, 5, 6})
	add(3, 32, 16000, 20, 8000, graph.Float64, graph.Float64, []int{0, 1, 2, 5, 9})
	fault := func(name, text string, ints [3]float64, low, high float64) {
		in := []*executor.Tensor{}
		for _, v := range ints {
			in = append(in, seqTensor(graph.Int64, []int{}, []float64{v}))
		}
		for _, v := range []float64{low, high} {
			in = append(in, seqTensor(graph.Float32, []int{}, []float64{v}))
		}
		cases = append(cases, Case{Name: name, Kind: op.MelWeightMatrix, Opset: 17, In: in,
			Out:   []graph.DType{graph.Float32},
			Fails: text})
	}
	fault("no rate", "the sample rate, is 0", [3]float64{4, 16, 0}, 0, 4000)
	fault("bands below none", "the number of bands, is -1", [3]float64{-1, 16, 8192}, 0, 4000)
	fault("edge below none", "an edge of the bands", [3]float64{4, 16, 8192}, -3, 4000)
	fault("above half the rate", "half the sample rate", [3]float64{4, 16, 8192}, 0, 8000)
	return cases
}
