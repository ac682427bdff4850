package op

import (
	"slices"

	"memopt/graph"
)

// Factor is a direction that divides a node's work into parts: an index of its loops. If all operands
// that lie along it are cut at the same places of it, each part of the outputs comes from the same
// part of the inputs. A MatMul of 8×4 and 4×6, for example, has the factors rows (8), columns (6) and
// sum (4). The name is that of the sharding rules of Shardy
// (https://openxla.org/shardy/sharding_representation).
//
// The draws of a random node depend on each element's place in the whole. Parts draw the same
// numbers if SetDrawFrom or SetDrawRuns has said which of the whole's elements they make;
// DrawsPerPlace says which these are. Otherwise they draw other numbers.
type Factor struct {
	Size int64 // how many places it has, 2 or more
	// In and Out say where the operands lie along the factor, by slot.
	In, Out []Place
	// Reduce says how the outputs that do not lie along the factor come from those of the parts.
	Reduce Reduction
	// Once lists inputs that only one of the parts may have, such as the bias of a sum of products.
	Once []int
	// Grain: parts that begin at multiples of it have the bits of the whole on the CPU. 1 means
	// that all parts have them, 0 that they need not have them. If outputs are added (SumOf), this
	// holds for a Gemm or MatMulAdd for each part whose C is the sum so far, and not for Add.
	Grain int64
	// Joint is the grain of this factor and all those outside of it counted as one: of the rows of
	// a batch of matrices, for example. Parts are then runs of those places. 0 means that they need
	// not have the bits of the whole.
	Joint int64
}

// ProductGrain is the block of rows, and of terms of sums, of the CPU's matrix products: rows and
// sums that are cut at multiples of it keep the bits of the whole.
const ProductGrain = 192

// Place says where an operand lies along a factor: the dim is Outer × Size × Inner long, the last
// counted fastest. With Outer 1, a range of the factor is a range of the dim.
type Place struct {
	Dim          int // -1: every part takes the whole operand
	Outer, Inner int64
}

// Cut reports whether parts of the factor are parts of the operand.
func (p Place) Cut() bool { return p.Dim >= 0 }

// whole is the place of an operand that does not lie along a factor.
var whole = Place{Dim: -1}

// Reduction says how an output comes from the outputs of parts.
type Reduction uint8

const (
	// NoReduction: all outputs lie along the factor.
	NoReduction Reduction = iota
	// SumOf: they are added.
	SumOf
	// MaxOf: the largest elements count.
	MaxOf
	// MinOf: the smallest elements count.
	MinOf
	// ProductOf: they are multiplied.
	ProductOf
	// MeanOf: their mean, weighted by the number of terms of each part.
	MeanOf
)

// FactorsOf returns the factors of a node of a known operator; nil if the sizes of its operands are not
// known or its row has no rule. Operands with several elements in a byte are not cut, because a part of
// them may begin within a byte.
func FactorsOf(p *Pieces) []Factor {
	info := Of(p.Node.Kind)
	if info.Factors == nil {
		return nil
	}
	return slices.DeleteFunc(info.Factors(p), func(f Factor) bool {
		return p.cutsBytes(p.Node.Inputs, f.In) || p.cutsBytes(p.Node.Outputs, f.Out)
	})
}

// cutsBytes reports whether one of the values that lie along a factor has elements of less than a byte.
func (p *Pieces) cutsBytes(values []graph.ValueID, places []Place) bool {
	for i, place := range places {
		if i < len(values) && values[i] != graph.NoValue && place.Cut() {
			if bits := p.Graph.Values[values[i]].Type.DType.Bits(); bits > 0 && bits < 8 {
				return true
			}
		}
	}
	return false
}

// in and out return the dims of operands, nil for those that are left out or unknown.
func (p *Pieces) in(slot int) []int64 { return p.dims(p.Node.Input(slot)) }

func (p *Pieces) out(slot int) []int64 { return p.dims(p.Node.Output(slot)) }

// hasIn and hasOut report whether a node has an operand.
func (p *Pieces) hasIn(slot int) bool { return p.Node.Input(slot) != graph.NoValue }

func (p *Pieces) hasOut(slot int) bool { return p.Node.Output(slot) != graph.NoValue }

// factor begins a factor; no operand lies along it yet.
func (p *Pieces) factor(size int64) *Factor {
	return &Factor{Size: size, In: slices.Repeat([]Place{whole}, len(p.Node.Inputs)),
		Out: slices.Repeat([]Place{whole}, len(p.Node.Outputs)), Grain: byReduction}
}

// along places an input, unless it is left out, and reports whether its dim has the factor's size.
func (f *Factor) in(p *Pieces, slot, dim int) *Factor {
	return f.place(f.In, p.in(slot), slot, dim)
}

func (f *Factor) out(p *Pieces, slot, dim int) *Factor {
	return f.place(f.Out, p.out(slot), slot, dim)
}

// place notes a place. A factor whose operand has another size there has the size 0 and is dropped.
func (f *Factor) place(list []Place, dims []int64, slot, dim int) *Factor {
	switch {
	case slot >= len(list) || dims == nil:
	case dim < 0 || dim >= len(dims) || dims[dim] != f.Size:
		f.Size = 0
	default:
		list[slot] = Place{Dim: dim, Outer: 1, Inner: 1}
	}
	return f
}

// reduced sets the reduction of the outputs that do not lie along a factor.
func (f *Factor) reduced(by Reduction) *Factor {
	f.Reduce = by
	return f
}

// byReduction is the grain of a factor whose rule gives no grain: 1, unless outputs are rounded when
// they are put together.
const byReduction = -1

// grained sets where parts have the bits of the whole, for the factor alone and for it and those
// outside of it as one.
func (f *Factor) grained(grain, joint int64) *Factor {
	f.Grain, f.Joint = grain, joint
	return f
}

// inexact says of all factors that their parts need not have the bits of the whole.
func inexact(list []*Factor) []*Factor {
	for _, f := range list {
		f.grained(0, 0)
	}
	return list
}

// kept are the factors worth keeping: those with more than one place, which operands agree on.
func kept(list []*Factor) (out []Factor) {
	for _, f := range list {
		if f.Grain == byReduction {
			f.grained(0, 0)
			if f.Reduce == NoReduction || f.Reduce == MaxOf || f.Reduce == MinOf {
				f.grained(1, 1)
			}
		}
		if f.Size > 1 {
			out = append(out, *f)
		}
	}
	return out
}

// axis returns an attribute that names one of rank dims; ok is false if it names no dim.
func (p *Pieces) axis(name string, preset int64, rank int) (axis int, ok bool) {
	a := p.Node.Int(name, preset)
	if a < 0 {
		a += int64(rank)
	}
	return int(a), a >= 0 && a < int64(rank)
}

// ints returns the contents of an input, or an attribute of older versions; ok is false if they are
// unknown. An input that is left out gives nil.
func (p *Pieces) ints(slot int, attr string) (list []int64, ok bool) {
	if p.Node.Attr(attr) != nil {
		return p.Node.IntList(attr, nil), true
	}
	v := p.Node.Input(slot)
	if v == graph.NoValue {
		return nil, true
	}
	data := Contents(p.Graph, v)
	if data == nil {
		return nil, false
	}
	if n, err := data.Elements(); err != nil || n > maxCutAxes {
		return nil, false
	}
	list, err := data.Int64s()
	return list, err == nil
}

// aligned are the factors of elementwise work: the dims of ref. Inputs and outputs are aligned with
// ref at the last dim. Inputs of fewer dims, or with a dim of 1, are broadcast; such outputs are
// sums.
func (p *Pieces) aligned(ref []int64, ins, outs []int) (list []*Factor) {
	for d, n := range ref {
		f := p.factor(n)
		for _, slot := range ins {
			f.aligned(f.In, p.in(slot), slot, d-len(ref))
		}
		for _, slot := range outs {
			if !p.hasOut(slot) {
				continue
			}
			if f.aligned(f.Out, p.out(slot), slot, d-len(ref)); f.Size > 0 && !f.Out[slot].Cut() {
				f.Reduce = SumOf
			}
		}
		list = append(list, f)
	}
	return list
}

// aligned places an operand whose dims count from the last one, -1, on.
func (f *Factor) aligned(list []Place, dims []int64, slot, dim int) {
	dim += len(dims)
	if slot < len(list) && dims != nil && dim >= 0 && dims[dim] != 1 {
		f.place(list, dims, slot, dim)
	}
}

// upTo lists the first n slots.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// elementwise: operands of any number that broadcast, outputs of one shape.
func elementwise(p *Pieces) []Factor { return elementwiseOf(len(p.Node.Inputs))(p) }

// elementwiseOf: the first inputs are worked on element by element; the others are scalars, or
// repeat the shape.
func elementwiseOf(inputs int) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		if p.legacyBroadcast() {
			return nil
		}
		return kept(p.aligned(p.out(0), upTo(min(inputs, len(p.Node.Inputs))), upTo(len(p.Node.Outputs))))
	}
}

// legacyBroadcast reports whether operands are aligned at an axis that an attribute names, as before
// version 7.
func (p *Pieces) legacyBroadcast() bool {
	return p.Node.Attr("axis") != nil && len(p.Node.Inputs) > 1 && len(p.in(0)) != len(p.in(1))
}

// leading: all operands lie along the same dims up to an axis; behind it the node works on whole rows.
// params are inputs that are broadcast to the rows, and sums outputs of their shape.
func (p *Pieces) leading(axis int, params, sums []int) (list []*Factor) {
	ref := p.in(0)
	for d := range min(axis, len(ref)) {
		f := p.sameDim(d, params, sums)
		for _, slot := range params {
			f.aligned(f.In, p.in(slot), slot, d-len(ref))
		}
		list = append(list, f)
	}
	return list
}

// sameDim is the factor of a dim that all operands have but params, and outputs but sums.
func (p *Pieces) sameDim(d int, params, sums []int) *Factor {
	f := p.factor(p.in(0)[d])
	for slot := range p.Node.Inputs {
		if !slices.Contains(params, slot) {
			f.in(p, slot, d)
		}
	}
	for slot := range p.Node.Outputs {
		switch {
		case !slices.Contains(sums, slot):
			f.out(p, slot, d)
		case p.hasOut(slot):
			f.Reduce = SumOf
		}
	}
	return f
}

// dimsOf makes a rule: the named dims are of all operands but of the inputs that are params.
func dimsOf(dims []int, params ...int) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		var list []*Factor
		for _, d := range dims {
			if d < len(p.in(0)) {
				list = append(list, p.sameDim(d, params, nil))
			}
		}
		return kept(list)
	}
}

// allBut: every dim but those that an attribute names, of input 0 and all outputs of the same rank.
func (p *Pieces) allBut(axes ...int) (list []*Factor) {
	for d := range p.in(0) {
		if !slices.Contains(axes, d) {
			list = append(list, p.sameDim(d, nil, nil))
		}
	}
	return list
}
