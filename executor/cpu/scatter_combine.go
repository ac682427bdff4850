package cpu

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/internal/simd"
)

// scatterReduction is how a scatter combines an update with the old element.
type scatterReduction uint8

const (
	scatterReplace scatterReduction = iota
	scatterAdd
	scatterMul
	scatterMax
	scatterMin
)

var scatterReductions = map[string]scatterReduction{"none": scatterReplace, "add": scatterAdd, "mul": scatterMul,
	"max": scatterMax, "min": scatterMin}

// readScatterReduction reads the attribute; it came with version 16, max and min with version 18.
func readScatterReduction(p *executor.Prep) (scatterReduction, error) {
	name := p.Node.Str("reduction", "none")
	r, ok := scatterReductions[name]
	if !ok {
		return 0, p.Errorf("attribute reduction is %q, wanted none, add, mul, max or min", name)
	}
	if r != scatterReplace && !scatterCan(p.DType(0)) {
		return 0, p.Unsupported("no kernel for reduction %q of elements of type %v", name, p.DType(0))
	}
	return r, nil
}

// scatterCan reports whether there are sums of a type. 16-bit floats are widened before.
func scatterCan(d graph.DType) bool {
	switch d {
	case graph.Float32, graph.Float64, graph.Int8, graph.Int16, graph.Int32, graph.Int64,
		graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64:
		return true
	}
	return false
}

// scatterElem lists the types that combine.
type scatterElem interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// scatterCombine sets d[i] to d[i] and s[i], reduced. NaN wins over all in max and min.
func scatterCombine[T scatterElem](r scatterReduction, d, s []T) {
	d = d[:len(s)]
	switch r {
	case scatterReplace:
		copy(d, s)
	case scatterAdd:
		scatterAddTo(d, s)
	case scatterMul:
		for i, v := range s {
			d[i] *= v
		}
	case scatterMax:
		for i, v := range s {
			d[i] = max(d[i], v)
		}
	case scatterMin:
		for i, v := range s {
			d[i] = min(d[i], v)
		}
	}
}

// scatterAddTo sets d[i] += s[i].
func scatterAddTo[T scatterElem](d, s []T) {
	if len(s) >= 16 {
		if f, ok := any(&d).(*[]float32); ok {
			simd.Add(*f, *f, *any(&s).(*[]float32))
			return
		}
	}
	d = d[:len(s)]
	for i, v := range s {
		d[i] += v
	}
}

// scatterAt sets d[at[i]] to d[at[i]] and s[i], reduced, for the offsets
// lo <= at[i] < hi; others are skipped.
func scatterAt[T scatterElem](r scatterReduction, d []T, at []int64, s []T, lo, hi int64) {
	s = s[:len(at)]
	switch r {
	case scatterReplace:
		for i, o := range at {
			if lo <= o && o < hi {
				d[o] = s[i]
			}
		}
	case scatterAdd:
		for i, o := range at {
			if lo <= o && o < hi {
				d[o] += s[i]
			}
		}
	case scatterMul:
		for i, o := range at {
			if lo <= o && o < hi {
				d[o] *= s[i]
			}
		}
	case scatterMax:
		for i, o := range at {
			if lo <= o && o < hi {
				d[o] = max(d[o], s[i])
			}
		}
	case scatterMin:
		for i, o := range at {
			if lo <= o && o < hi {
				d[o] = min(d[o], s[i])
			}
		}
	}
}
