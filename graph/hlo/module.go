package hlo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Module is a compiled program.
type Module struct {
	Name string
	// Scheduled: the instructions of computations lie in the order of their execution.
	Scheduled bool
	// Computations has callees before their callers; Entry is the place of the one that the program begins with.
	Computations []*Computation
	Entry        int32
	// Aliases are the outputs that lie in the memory of inputs (donation).
	Aliases []Alias
	// Donors are arguments that the compiler may give any output of their size (buffer_donor), as JAX writes donated
	// arguments of several devices before compilation.
	Donors []Donor
	// Partitions is how many devices share the work by SPMD; sizes are those of one of them, unless [Module.IsWhole].
	// Replicas is how many times the program runs on other data. Both are 1 where the file has no number. Protocol
	// buffers have them in a message beside the module, so that both are 1 there, too.
	Partitions, Replicas int64
}

// Alias says that an output lies in the memory of an input.
type Alias struct {
	Output    []int64 // the place in the tuples of the result, for example [3]
	Parameter int64
	Index     []int64 // the place in the tuples of the parameter
}

// Donor is an array of an argument whose memory an output may have.
type Donor struct {
	Parameter int64
	Index     []int64 // the place in the tuples of the parameter
}

// Computation is a list of instructions.
type Computation struct {
	Name string
	// Instructions has operands before their readers.
	Instructions []Instruction
	Root         int32 // the place of the instruction whose result is the computation's
}

// Instruction makes a value, or several in a tuple.
type Instruction struct {
	Name, Opcode string
	Shape        Shape
	Operands     []int32 // places in the computation
	// Called are places in Module.Computations: of a fusion its body, of a while the condition and the body, of a
	// conditional its branches, of a reduce its operator.
	Called []int32
	Number int64  // of a parameter: which; of a get-tuple-element: the place in its operand
	Kind   string // of a fusion: kLoop, kInput, kOutput, kCustom
	Target string // of a custom-call
	// TripCount is how often the body of a while runs; 0 where that is not known.
	TripCount int64
	// Contracting are the dims of a dot's first operand that it sums over; Features is the dim of a convolution's
	// kernel that has the features of the result.
	Contracting []int64
	Features    int64
	// InPlace has the outputs of a fusion or custom-call that lie in operands.
	InPlace []OperandAlias
	// Sharding is the annotation in the text's form, for example {devices=[4,1]<=[4]}, or "".
	Sharding string
	// Placement is the memory that a custom-call of JAX asks for: "device", "pinned_host", or "".
	Placement string
	// OpName is the path of the operator in the traced program, for example jit(step)/jvp(Net)/dot_general; "" where
	// the compiler made the instruction itself.
	OpName string
	// File and Line are the place in the source that traced the operator; "" and 0 where it is not known.
	File string
	Line int64
}

// OperandAlias says that an output of an instruction lies in an operand's memory.
type OperandAlias struct {
	Output  []int64 // the place in the tuples of the result
	Operand int64
	Index   []int64 // the place in the tuples of the operand
}

// Shape is the type of a value: an array's, or a tuple's.
type Shape struct {
	// Type is XLA's name in lower case: f32, bf16, pred, s4, token, tuple, …
	Type string
	Dims []int64
	// Dynamic marks dims whose number in Dims is a bound; nil where all are exact.
	Dynamic []bool
	// Layout has the dims from minor to major; nil where the file has no layout.
	Layout []int64
	// Bits are those of an element in memory where the layout says so, for example 4 of s4; else 0.
	Bits int64
	// Space is the memory space: 0 is the device's, 5 the host's.
	Space int64
	Tuple []Shape // of a tuple
}

// bits has the bits of an element by type. Types of less than a byte take a byte, unless Shape.Bits is set.
var bits = map[string]int64{"pred": 8, "s1": 8, "s2": 8, "s4": 8, "s8": 8, "s16": 16, "s32": 32, "s64": 64,
	"u1": 8, "u2": 8, "u4": 8, "u8": 8, "u16": 16, "u32": 32, "u64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64,
	"c64": 64, "c128": 128, "f8e5m2": 8, "f8e4m3": 8, "f8e4m3fn": 8, "f8e4m3b11fnuz": 8, "f8e3m4": 8,
	"f8e5m2fnuz": 8, "f8e4m3fnuz": 8, "f8e8m0fnu": 8, "f4e2m1fn": 8, "token": 0, "opaque": pointer * 8}

// pointer is the size of an address in bytes.
const pointer = 8

// maxBytes bounds the bytes of a value, so that sums of all values stay below 2^63.
const maxBytes = 1 << 50

// IsTuple reports whether a shape is a tuple's.
func (s *Shape) IsTuple() bool { return s.Type == "tuple" }

// Bytes is the memory of a value, as XLA's CPU client counts it: of a tuple the addresses of its elements alone, and
// of an array with dynamic dims their numbers, too (CpuExecutable::ShapeSizeBytes). Padding by tiles of other devices
// is not counted. The error is of a type without a size, or of a size beyond maxBytes.
func (s *Shape) Bytes() (int64, error) {
	if s.IsTuple() {
		return pointer * int64(len(s.Tuple)), nil
	}
	width, ok := bits[s.Type]
	if !ok {
		return 0, fmt.Errorf("type %q has no size here", s.Type)
	}
	if s.Bits > 0 {
		width = s.Bits
	}
	n := int64(1)
	for _, d := range s.Dims {
		if d == 0 {
			n = 0
			break
		}
		if n > maxBytes/d {
			return 0, fmt.Errorf("shape %s has more than 2^50 elements", s)
		}
		n *= d
	}
	if width > 0 && n > maxBytes/width {
		return 0, fmt.Errorf("shape %s has more than 2^50 bits", s)
	}
	n = (n*width + 7) / 8
	if s.Dynamic != nil {
		n += 4 * int64(len(s.Dims))
	}
	return n, nil
}

// Equal reports whether two shapes are the same, layouts included.
func (s *Shape) Equal(o *Shape) bool { return s.equal(o, true) }

// Congruent reports whether two shapes have the same tuples, arrays of the same bytes among them.
func (s *Shape) Congruent(o *Shape) bool { return s.equal(o, false) }

func (s *Shape) equal(o *Shape, exact bool) bool {
	if s.IsTuple() != o.IsTuple() || len(s.Tuple) != len(o.Tuple) {
		return false
	}
	for i := range s.Tuple {
		if !s.Tuple[i].equal(&o.Tuple[i], exact) {
			return false
		}
	}
	if !exact {
		a, e := s.Bytes()
		b, f := o.Bytes()
		return a == b && e == nil && f == nil
	}
	if s.Type != o.Type || s.Bits != o.Bits || s.Space != o.Space || len(s.Dims) != len(o.Dims) ||
		len(s.Layout) != len(o.Layout) {
		return false
	}
	for i := range s.Dims {
		if s.Dims[i] != o.Dims[i] || s.dynamic(i) != o.dynamic(i) {
			return false
		}
	}
	for i := range s.Layout {
		if s.Layout[i] != o.Layout[i] {
			return false
		}
	}
	return true
}

func (s *Shape) dynamic(i int) bool { return i < len(s.Dynamic) && s.Dynamic[i] }

// String is the shape as the text has it, without the layout: f32[8,256], (f32[], s32[<=4]).
func (s *Shape) String() string {
	var b strings.Builder
	s.write(&b)
	return b.String()
}

func (s *Shape) write(b *strings.Builder) {
	if s.IsTuple() {
		b.WriteByte('(')
		for i := range s.Tuple {
			if i > 0 {
				b.WriteString(", ")
			}
			s.Tuple[i].write(b)
		}
		b.WriteByte(')')
		return
	}
	b.WriteString(s.Type)
	b.WriteByte('[')
	for i, d := range s.Dims {
		if i > 0 {
			b.WriteByte(',')
		}
		if s.dynamic(i) {
			b.WriteString("<=")
		}
		fmt.Fprint(b, d)
	}
	b.WriteByte(']')
}

// Instructions is how many instructions all computations have.
func (m *Module) Instructions() int {
	n := 0
	for _, c := range m.Computations {
		n += len(c.Instructions)
	}
	return n
}

// Half names the part of a step that an operator belongs to.
type Half string

// The halves. An operator is Forward, too, where the path does not speak of gradients.
const (
	Forward    Half = "forward"
	Backward   Half = "backward"
	Recomputed Half = "recomputed" // made again in the backward half
)

// HalfOf reads an operator's path (Instruction.OpName). JAX writes jvp(...) around the forward half,
// transpose(jvp(...)) around the backward half, and rematted_computation around the operators that jax.checkpoint
// computes again.
func HalfOf(opName string) Half {
	switch {
	case strings.Contains(opName, "rematted_computation"):
		return Recomputed
	case strings.Contains(opName, "transpose("):
		return Backward
	}
	return Forward
}

// verify checks the rules that all code relies on which walks a module: places in range, operands before their readers,
// and calls without a cycle.
func (m *Module) verify() error {
	if m.Entry < 0 || int(m.Entry) >= len(m.Computations) {
		return fmt.Errorf("module %q has no entry computation", m.Name)
	}
	for _, c := range m.Computations {
		if len(c.Instructions) == 0 {
			return fmt.Errorf("computation %q has no instructions", c.Name)
		}
		if c.Root < 0 || int(c.Root) >= len(c.Instructions) {
			return fmt.Errorf("computation %q has no root", c.Name)
		}
		for i := range c.Instructions {
			in := &c.Instructions[i]
			for _, o := range in.Operands {
				if o < 0 || int(o) >= i {
					return fmt.Errorf("computation %q: instruction %q stands before its operand", c.Name, in.Name)
				}
			}
			for _, k := range in.Called {
				if k < 0 || int(k) >= len(m.Computations) {
					return fmt.Errorf("computation %q: instruction %q calls a computation that is not there", c.Name,
						in.Name)
				}
			}
		}
	}
	return m.sort()
}

// sort puts callees before their callers, in the order in which the entry reaches them: text and protocol buffers of a
// module have other orders. Computations that are not called follow by name. The error is of calls that come back to
// their computation.
func (m *Module) sort() error {
	const begun, done = 1, 2
	state := make([]byte, len(m.Computations))
	type frame struct {
		of   int32
		next []int32
	}
	callees := func(k int32) (all []int32) {
		for i := range m.Computations[k].Instructions {
			all = append(all, m.Computations[k].Instructions[i].Called...)
		}
		return all
	}
	roots := make([]int32, len(m.Computations))
	for i := range roots {
		roots[i] = int32(i)
	}
	slices.SortFunc(roots, func(a, b int32) int { return cmp.Compare(m.Computations[a].Name, m.Computations[b].Name) })
	var order []int32
	for _, root := range slices.Insert(roots, 0, m.Entry) {
		if state[root] != 0 {
			continue
		}
		state[root] = begun
		stack := []frame{{root, callees(root)}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.next) == 0 {
				state[top.of] = done
				order = append(order, top.of)
				stack = stack[:len(stack)-1]
				continue
			}
			k := top.next[0]
			top.next = top.next[1:]
			switch state[k] {
			case begun:
				return fmt.Errorf("computation %q calls itself", m.Computations[k].Name)
			case 0:
				state[k] = begun
				stack = append(stack, frame{k, callees(k)})
			}
		}
	}
	m.arrange(order)
	return nil
}

// arrange puts the computations in an order of their places.
func (m *Module) arrange(order []int32) {
	at := make([]int32, len(order))
	sorted := make([]*Computation, len(order))
	for i, k := range order {
		at[k], sorted[i] = int32(i), m.Computations[k]
	}
	m.Computations, m.Entry = sorted, at[m.Entry]
	for _, c := range sorted {
		for i := range c.Instructions {
			for j, k := range c.Instructions[i].Called {
				c.Instructions[i].Called[j] = at[k]
			}
		}
	}
}
