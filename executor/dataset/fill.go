package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"

	"memopt/executor"
	"memopt/executor/small"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/hint"
	"memopt/internal/half"
	"memopt/internal/memlimit"
	"memopt/symbolic"
)

// weightDeviation is the standard deviation of generated weights, that of GPT-2's initial ones.
const weightDeviation = 0.02

// Filler generates inputs that suit their use in the graph.
type Filler struct {
	g    *graph.Graph
	uses *graph.Uses
	env  symbolic.Env
	seed uint64
	zero []bool // by value: it begins as zeros; nil if no value does
	// Memory gives the elements of a value their memory, of so many bytes above 0, all of them zeros; nil: Go's heap.
	Memory func(bytes int) ([]byte, error)
}

// NewFiller returns a filler for a graph with inferred types. Equal seeds give equal data.
func NewFiller(g *graph.Graph, env symbolic.Env, seed uint64) *Filler {
	return &Filler{g: g, uses: graph.NewUses(g), env: env, seed: seed}
}

// BeginAtZero says which values are states of an optimizer: they begin as zeros.
func (f *Filler) BeginAtZero(states []graph.ValueID) {
	f.zero = make([]bool, len(f.g.Values))
	for _, v := range states {
		f.zero[v] = true
	}
}

// Fill generates the elements of a value: scales 1, shifts 0, variances 1, indices within the
// tables that they index, weights (static shapes of two dims or more) normal with deviation 0.02,
// other floats normal with deviation 1, other integers 1, bools true, states of optimizers 0. The
// error says which dim has no number.
//
// It wraps executor.ErrOutOfMemory if there is no memory for them.
func (f *Filler) Fill(v graph.ValueID) (*executor.Tensor, error) {
	t, n, err := f.plan(v)
	if err != nil {
		return nil, err
	}
	val := &f.g.Values[v]
	if err := memlimit.Check(int64(n), "input %q (%v)", val.Name, t); err != nil {
		return nil, err
	}
	if f.Memory != nil && n > 0 {
		if t.Data, err = f.Memory(n); err != nil {
			return nil, fmt.Errorf("input %q (%v): %w", val.Name, t, err)
		}
	} else {
		t.Data = make([]byte, (n+7)&^7)[:n]
	}
	if f.zero != nil && f.zero[v] {
		return t, nil
	}
	role := f.role(v, map[graph.ValueID]bool{})
	rng := rand.New(rand.NewPCG(f.seed, hash(val.Name)))
	if t.DType.IsFloat() {
		return t, f.floats(t, val, role, rng)
	}
	return t, f.integers(t, val, role, rng)
}

// Check makes sure that there is memory for several values together, before the first is generated.
func (f *Filler) Check(values []graph.ValueID) error {
	sum := uint64(0) // of numbers of at most 62 bits; a larger sum exceeds any memory
	var largest *executor.Tensor
	var name string
	most := 0
	for _, v := range values {
		t, n, err := f.plan(v)
		if err != nil {
			return err
		}
		if largest == nil || n > most {
			largest, name, most = t, f.g.Values[v].Name, n
		}
		sum = min(sum+uint64(n), math.MaxInt64)
	}
	return memlimit.Check(int64(sum), "%d inputs, the largest of which is %q (%v)", len(values), name, largest)
}

// plan returns a tensor without elements for a value, and how many bytes they will be.
func (f *Filler) plan(v graph.ValueID) (*executor.Tensor, int, error) {
	val := &f.g.Values[v]
	shape := executor.EvalShape(val.Type, f.env)
	if shape == nil {
		return nil, 0, fmt.Errorf("input %q: cannot make up data for %v: bind its symbols with %v, or give "+
			"the data", val.Name, val.Type, hint.Dims)
	}
	t := &executor.Tensor{DType: val.Type.DType, Shape: shape}
	n, ok := executor.Bytes(t.DType, shape)
	if !ok || t.DType.Bits() == 0 {
		return nil, 0, fmt.Errorf("input %q: cannot make up data of type %v", val.Name, val.Type)
	}
	return t, n, nil
}

func hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// use is how the readers of a value use it.
type use struct {
	role  op.FillRole
	limit int64 // of indices: one more than the largest; of lengths: the length
}

// role follows a value through operators that only move it to the first one that determines its
// role. Among several tables that it indexes, the smallest counts.
func (f *Filler) role(v graph.ValueID, seen map[graph.ValueID]bool) use {
	if seen[v] {
		return use{}
	}
	seen[v] = true
	best := use{}
	for _, u := range f.uses.Of(v) {
		n := f.g.Nodes[u.Node]
		for _, fill := range op.Fills(n.Kind) {
			if int32(fill.Slot) != u.Slot && !(fill.Role == op.FillSame && u.Slot >= 0) {
				continue
			}
			got := use{role: fill.Role}
			switch fill.Role {
			case op.FillSame:
				if u.Slot != 0 && len(n.Inputs) > 1 && f.g.Values[v].Type.DType != f.g.Values[n.Outputs[0]].Type.DType {
					continue
				}
				got = use{}
				for _, out := range n.Outputs {
					if out != graph.NoValue {
						got = merge(got, f.role(out, seen))
					}
				}
			case op.FillIndex, op.FillLength:
				got.limit = f.dim(n, fill)
			}
			best = merge(best, got)
		}
	}
	return best
}

func merge(a, b use) use {
	switch {
	case b.role == 0:
		return a
	case a.role == 0:
		return b
	case a.role == op.FillIndex && b.role == op.FillIndex && b.limit > 0 && (a.limit <= 0 || b.limit < a.limit):
		return b
	case a.role != op.FillIndex && b.role == op.FillIndex:
		return b
	}
	return a
}

// dim returns the dim that an index or length is about, 0 where it is not known.
func (f *Filler) dim(n *graph.Node, fill op.Fill) int64 {
	v := n.Input(fill.Of)
	if v == graph.NoValue {
		return 0
	}
	shape := f.g.Values[v].Type.Shape
	axis := int64(fill.Axis)
	if fill.AxisAttr != "" {
		axis = n.Int(fill.AxisAttr, axis)
	}
	if axis < 0 {
		axis += int64(len(shape.Dims))
	}
	if !shape.Ranked || axis < 0 || axis >= int64(len(shape.Dims)) {
		return 0
	}
	d, err := shape.Dims[axis].Eval(f.env)
	if err != nil {
		return 0
	}
	return d
}

func (f *Filler) floats(t *executor.Tensor, val *graph.Value, role use, rng *rand.Rand) error {
	static := true
	for _, d := range val.Type.Shape.Dims {
		_, ok := d.Const()
		static = static && ok
	}
	var draw func() float64
	switch {
	case role.role == op.FillVariance:
		draw = func() float64 { return 1 }
	case role.role == op.FillScale && t.Rank() <= 1:
		draw = func() float64 { return 1 }
	case static && t.Rank() == 1:
		draw = func() float64 { return 0 }
	case static && t.Rank() == 0:
		draw = func() float64 { return 1 }
	case static:
		draw = func() float64 { return weightDeviation * rng.NormFloat64() }
	default:
		draw = rng.NormFloat64
	}
	return setFloats(t, draw)
}

func setFloats(t *executor.Tensor, draw func() float64) error {
	switch t.DType {
	case graph.Float32:
		for i, s := 0, executor.Of[float32](t); i < len(s); i++ {
			s[i] = float32(draw())
		}
	case graph.Float64:
		for i, s := 0, executor.Of[float64](t); i < len(s); i++ {
			s[i] = draw()
		}
	case graph.Float16:
		for i, s := 0, executor.Of[half.Float16](t); i < len(s); i++ {
			s[i] = half.Float16From(float32(draw()))
		}
	case graph.BFloat16:
		for i, s := 0, executor.Of[half.BFloat16](t); i < len(s); i++ {
			s[i] = half.BFloat16From(float32(draw()))
		}
	case graph.Float8E4M3FN, graph.Float8E4M3FNUZ, graph.Float8E5M2, graph.Float8E5M2FNUZ, graph.Float4E2M1,
		graph.Float8E8M0:
		e := small.NewEncoder(t.DType, true, small.Nearest)
		for i := range t.Len() {
			x := draw()
			if t.DType == graph.Float8E8M0 {
				x = math.Abs(x) // it has no others
			}
			small.SetCode(t.DType, t.Data, i, e.Code(x))
		}
	default:
		return fmt.Errorf("cannot make up elements of type %v", t.DType)
	}
	return nil
}

func (f *Filler) integers(t *executor.Tensor, val *graph.Value, role use, rng *rand.Rand) error {
	draw := func() int64 { return 1 }
	switch {
	case role.role == op.FillIndex && role.limit > 0:
		draw = func() int64 { return rng.Int64N(role.limit) }
	case role.role == op.FillIndex:
		draw = func() int64 { return 0 }
	case role.role == op.FillLength:
		draw = func() int64 { return role.limit }
	}
	width := t.DType.Bits() / 8
	for i := range t.Len() {
		n := draw()
		if small.IsPacked(t.DType) {
			if _, most := small.Limits(t.DType); n > int64(most) {
				return fmt.Errorf("input %q: indices up to %d do not fit into %v", val.Name, role.limit-1, t.DType)
			}
			small.SetCode(t.DType, t.Data, i, byte(n))
			continue
		}
		if width < 8 && n > math.MaxInt64>>(64-8*width) {
			return fmt.Errorf("input %q: indices up to %d do not fit into %v", val.Name, role.limit-1, t.DType)
		}
		for b := range width {
			t.Data[i*width+b] = byte(n >> (8 * b))
		}
	}
	return nil
}
