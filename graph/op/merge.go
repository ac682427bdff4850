package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// merge combines a declared with an inferred type. Where they contradict each other ok is false: of
// dims the inferred ones stand, of elements and rank the declared ones.
func (inf *inference) merge(declared, inferred graph.Type) (t graph.Type, ok bool) {
	switch {
	case declared.Form == graph.FormUnknown:
		return inferred, true
	case inferred.Form == graph.FormUnknown:
		return declared, true
	case declared.Form != inferred.Form:
		return declared, false
	case declared.Elem != nil && inferred.Elem != nil:
		elem, ok := inf.merge(*declared.Elem, *inferred.Elem)
		declared.Elem = &elem
		return declared, ok
	case declared.Form != graph.FormTensor:
		if declared.Elem == nil {
			declared.Elem = inferred.Elem
		}
		return declared, true
	}
	t, ok = declared, true
	if t.DType == graph.Undefined {
		t.DType = inferred.DType
	} else if inferred.DType != graph.Undefined && inferred.DType != t.DType {
		ok = false
	}
	shape, agree := inf.mergeShape(declared.Shape, inferred.Shape)
	t.Shape = shape
	return t, ok && agree
}

func (inf *inference) mergeShape(declared, inferred graph.Shape) (graph.Shape, bool) {
	switch {
	case !declared.Ranked:
		return inferred, true
	case !inferred.Ranked:
		return declared, true
	case len(declared.Dims) != len(inferred.Dims):
		return declared, false
	}
	ok := true
	out := graph.Shape{Dims: make([]symbolic.Expr, len(declared.Dims)), Ranked: true}
	for i := range out.Dims {
		dim, agree := inf.mergeDim(declared.Dims[i], inferred.Dims[i])
		out.Dims[i], ok = dim, ok && agree
	}
	return out, ok
}

// mergeDim prefers the declared dim, with two exceptions. A declared symbol that no graph input has is
// only a label (labels.go), and gives way to the inferred dim. And a dim that is inferred from numbers
// and the inputs' symbols is right where the file contradicts it: the file's dim is left from another
// form of the model. Careful inference does not believe that a dim is as long as one of the
// operands where it found that the other one may be longer.
func (inf *inference) mergeDim(declared, inferred symbolic.Expr) (symbolic.Expr, bool) {
	switch {
	case declared.IsUnknown():
		return inferred, true
	case inferred.IsUnknown() || inferred.Err() != nil:
		return declared, true
	case declared.Equal(inferred):
		return declared, true
	}
	if _, ok := declared.Const(); ok {
		if !inf.hasLabel(inferred) {
			return inferred, false
		}
		inf.equate(inferred, declared)
		return declared, true
	}
	if inf.careful && symbolic.Max(declared, inferred).Equal(inferred) {
		return inferred, true
	}
	if !inf.hasLabel(declared) {
		if contradict(declared, inferred) {
			return inferred, false
		}
		inf.equate(inferred, declared)
		return declared, true
	}
	inf.equate(declared, inferred)
	return inferred, true
}

// contradict reports whether an inferred dim is a number, or has just the symbols of the declared one
// and another value when all of them are equal. So n is no 2n, but n may be max(n, m), or m + 1 where
// another input says so.
func contradict(declared, inferred symbolic.Expr) bool {
	if _, ok := inferred.Const(); ok {
		return true
	}
	names := declared.Symbols()
	if !slices.Equal(names, inferred.Symbols()) {
		return false
	}
	for _, size := range []int64{2, 3, 64, 1000} {
		env := symbolic.Env{}
		for _, name := range names {
			env[name] = size
		}
		a, errA := declared.Eval(env)
		b, errB := inferred.Eval(env)
		if errA != nil || errB != nil || a == b {
			return false
		}
	}
	return true
}
