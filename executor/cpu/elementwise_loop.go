package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// elemNumber lists the types of loops over numbers.
type elemNumber interface {
	elemFloat | elemInteger
}

// elemFloat lists the types of loops over floating-point numbers.
type elemFloat interface{ float32 | float64 }

// elemInteger lists the integers.
type elemInteger interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// loop1 makes an elemLoop of a loop over one operand.
func loop1[R, A executor.Elem](f func(dst []R, a []A)) elemLoop {
	return func(dst, a, _, _ []byte) { f(executor.Cast[R](dst), executor.Cast[A](a)) }
}

// loop2 makes an elemLoop of a loop over two operands.
func loop2[R, A, B executor.Elem](f func(dst []R, a []A, b []B)) elemLoop {
	return func(dst, a, b, _ []byte) { f(executor.Cast[R](dst), executor.Cast[A](a), executor.Cast[B](b)) }
}

// loop3 makes an elemLoop of a loop over three operands.
func loop3[R, A, B, C executor.Elem](f func(dst []R, a []A, b []B, c []C)) elemLoop {
	return func(dst, a, b, c []byte) {
		f(executor.Cast[R](dst), executor.Cast[A](a), executor.Cast[B](b), executor.Cast[C](c))
	}
}

// copyLoop copies elements unchanged.
func copyLoop(dst, a, _, _ []byte) { copy(dst, a) }

// Grains: elements of a piece of work for loops that are bound by memory, and for those that
// compute a function of each element.
const (
	elemLight = 1 << 14
	elemHeavy = 1 << 13
)

// elemNode makes the kernel of a node whose operands, all inputs in order, are computed in type as.
// The loop makes elements of type makes; the output may have another type. A nil loop gives the
// error for types that the operator does not take.
func elemNode(p *executor.Prep, loop elemLoop, as, makes graph.DType) (*elemKernel, error) {
	if loop == nil {
		return nil, unsupportedTypes(p)
	}
	k := &elemKernel{loop: loop, out: elemOut(p, 0, makes), grain: elemLight}
	for i := range p.In {
		if !p.Has(i) {
			return nil, p.Errorf("input %d is left out; it is required", i)
		}
		k.in = append(k.in, elemIn(p, i, as))
	}
	return k, nil
}

// elemSameTypes returns an error unless all given inputs have the type of the first.
func elemSameTypes(p *executor.Prep) error {
	for i, d := range p.In {
		if d != graph.Undefined && d != p.DType(0) {
			return p.Errorf("input %d is of type %v, wanted that of input 0, %v", i, d, p.DType(0))
		}
	}
	return nil
}
