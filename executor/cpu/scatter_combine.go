package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/simd"
	"memopt/graph"
)

// reduction is how a scatter combines an update with what is there.
type reduction uint8

const (
	replace reduction = iota
	sum
	times
	largest
	smallest
)

var reductionNames = map[string]reduction{"none": replace, "add": sum, "mul": times, "max": largest, "min": smallest}

// readReduction reads the attribute; it came with version 16, max and min with version 18.
func readReduction(p *executor.Prep) (reduction, error) {
	name := p.Node.Str("reduction", "none")
	r, ok := reductionNames[name]
	if !ok {
		return 0, p.Errorf("attribute reduction is %q, wanted none, add, mul, max or min", name)
	}
	if r != replace && !canCombine(p.DType(0)) {
		return 0, p.Unsupported("no kernel for reduction %q of elements of type %v", name, p.DType(0))
	}
	return r, nil
}

// canCombine reports whether there are sums of a type. 16-bit floats are widened before.
func canCombine(d graph.DType) bool {
	switch d {
	case graph.Float32, graph.Float64, graph.Int8, graph.Int16, graph.Int32, graph.Int64,
		graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64:
		return true
	}
	return false
}

// summand lists the types that combine.
type summand interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// combine sets d[i] to d[i] and s[i], reduced. NaN wins over all in max and min.
func combine[T summand](r reduction, d, s []T) {
	d = d[:len(s)]
	switch r {
	case replace:
		copy(d, s)
	case sum:
		addTo(d, s)
	case times:
		for i, v := range s {
			d[i] *= v
		}
	case largest:
		for i, v := range s {
			d[i] = max(d[i], v)
		}
	case smallest:
		for i, v := range s {
			d[i] = min(d[i], v)
		}
	}
}

// addTo sets d[i] += s[i].
func addTo[T summand](d, s []T) {
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

// combineAt sets d[i*step] to d[i*step] and s[i*each], reduced, for the offsets at of which
// lo <= offset < hi; others are skipped.
func combineAt[T summand](r reduction, d []T, at []int64, s []T, lo, hi int64) {
	s = s[:len(at)]
	switch r {
	case replace:
		for i, o := range at {
			if lo <= o && o < hi {
				d[o] = s[i]
			}
		}
	case sum:
		for i, o := range at {
			if lo <= o && o < hi {
				d[o] += s[i]
			}
		}
	case times:
		for i, o := range at {
			if lo <= o && o < hi {
				d[o] *= s[i]
			}
		}
	case largest:
		for i, o := range at {
			if lo <= o && o < hi {
				d[o] = max(d[o], s[i])
			}
		}
	case smallest:
		for i, o := range at {
			if lo <= o && o < hi {
				d[o] = min(d[o], s[i])
			}
		}
	}
}
