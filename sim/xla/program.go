package xla

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/graph/hlo"
)

// Step is the running of one instruction.
type Step struct {
	Computation *hlo.Computation
	Instruction int32 // the place in the computation
	frame       *frame
}

// In is the step's instruction.
func (s *Step) In() *hlo.Instruction { return &s.Computation.Instructions[s.Instruction] }

// Role is the purpose of memory, for example a temporary.
type Role uint8

// The roles. The memory of a donated argument is a result's, too.
const (
	Temporary Role = iota
	Argument
	Donated
	Result
	Constant // in the program's file, not in its memory
)

// Span is a range of steps, both ends included.
type Span struct{ From, To int32 }

// Buffer is memory that one value has, or several that lie in each other's place.
type Buffer struct {
	Bytes int64
	Role  Role
	// Maker is the step that makes its first value.
	Maker int32
	// Element leads from the maker's result to the value, for example [2] of a tuple; nil is the whole result.
	Element []int64
	// Spans are the steps that use it, in their order.
	Spans []Span
	// Within is the buffer whose memory this one has at other steps; -1 where it has memory of its own.
	Within int32
	// Over is the temporary that its maker reads for the last time and writes it over; -1 without one.
	Over int32
	// Host: it lies in the memory of the host, and takes none of the device.
	Host bool
	// Offset is the byte of the heap where a temporary with memory of its own begins.
	Offset int64

	table  bool  // the addresses of a tuple's elements
	values int   // how many places make a value of it
	named  int32 // the first step with a value in it that has a label; -1 without one
}

// Program is a module as a row of steps, with its memory.
type Program struct {
	// Read is the module as it was read; Module has its calls inlined where that is from before XLA's optimizations.
	Read, Module *hlo.Module
	Steps        []Step
	Buffers      []Buffer // by their makers

	// The bytes of the whole run: arguments, those of them that are donated to results, results that lie in no
	// argument, and the heap's temporaries at the fullest step.
	ArgumentBytes, DonatedBytes, ResultBytes, HeapBytes int64
	// HostBytes is the memory of the host at its fullest step, which the others do not count.
	HostBytes int64
	// Peak is the step with the most bytes in use.
	Peak int32
	// Marked: names of operators say which steps are backward. [Program.Graph] sets it, and lets the second half of a
	// program without marks begin at the fullest step, behind which each value that is live there is read.
	Marked bool
	// ArenaBytes is the size of the heap with its temporaries packed, if Packed: not where there are too many of them.
	ArenaBytes int64
	Packed     bool

	buffer []int32 // by place: its buffer
	entry  *frame
	layout *flattener
	fused  map[*hlo.Computation][]bool // by parameter of a fusion: throughElementwise
	// written has, by the body of a fusion, the elements of its result that lie in operands.
	written map[int32][]hlo.OperandAlias
	labels  map[int32]string // by the body of a fusion
	effects map[int32]bool   // by computation: it has an instruction with effects
}

// LiveBytes is the peak: the bytes that arguments and results have throughout, and those of temporaries at the fullest
// step.
func (p *Program) LiveBytes() int64 {
	return p.ArgumentBytes + p.ResultBytes + p.HeapBytes
}

// ArgumentPartBytes is the memory that arguments take of one device, by their shardings, where shapes are those of
// all devices together ([hlo.Module.IsWhole]).
func (p *Program) ArgumentPartBytes() int64 {
	total := int64(0)
	var add func(s *hlo.Shape)
	add = func(s *hlo.Shape) {
		if s.Space != hostSpace {
			n, _ := s.Bytes() // the whole has been laid out, so that types have sizes
			total += n
		}
		for i := range s.Tuple {
			add(&s.Tuple[i])
		}
	}
	for i := range p.entry.of.Instructions {
		if in := &p.entry.of.Instructions[i]; in.Opcode == "parameter" {
			s := in.Part()
			add(&s)
		}
	}
	return total
}

// PeakLabel names the step with the most bytes in use; "" where no step has temporaries.
func (p *Program) PeakLabel() string {
	if p.HeapBytes == 0 || int(p.Peak) >= len(p.Steps) {
		return ""
	}
	return p.Label(p.Peak)
}

// Run lays out a module's schedule and finds its memory. The error names the instruction that makes no sense.
func Run(m *hlo.Module) (*Program, error) {
	moves := hasMoves(m)
	read := m
	early := isEarly(m)
	if early {
		inlined, err := inline(m)
		if err != nil {
			return nil, err
		}
		if inlined.Aliases, err = pair(inlined); err != nil {
			return nil, err
		}
		m = inlined
	}
	p, err := lay(m, early, moves, nil)
	if err != nil {
		return nil, err
	}
	if moves { // where values lie is known only now
		if idle := p.onDevice(); len(idle) > 0 {
			if p, err = lay(m, early, moves, idle); err != nil {
				return nil, err
			}
		}
	}
	p.Read = read
	p.assign()
	p.HostBytes = p.hostBytes()
	return p, nil
}

// lay lays out the schedule and finds the buffers. idle are the steps of moves that hand their operand on.
func lay(m *hlo.Module, early, moves bool, idle map[int32]bool) (*Program, error) {
	p := &Program{Module: m, fused: map[*hlo.Computation][]bool{}, written: map[int32][]hlo.OperandAlias{},
		labels: map[int32]string{}}
	f := &flattener{m: m, program: p, layouts: map[*hlo.Shape][]int32{}, idle: idle, fixed: fixed(m),
		early: early, fusions: map[*hlo.Computation]*fusion{}}
	entry, err := f.computation(m.Entry, nil)
	if err != nil {
		return nil, err
	}
	if err := f.donate(entry); err != nil {
		return nil, err
	}
	p.layout, p.entry = f, entry
	p.make(f, entry)
	p.findHost(moves)
	return p, nil
}

// donate lets results lie in the arguments that the module says.
func (f *flattener) donate(entry *frame) error {
	root := entry.result()
	for _, a := range f.m.Aliases {
		to, shape, err := f.within(root.shape, a.Output)
		if err != nil {
			return fmt.Errorf("input_output_alias: %w", err)
		}
		found := false
		for i := range entry.of.Instructions {
			in := &entry.of.Instructions[i]
			if in.Opcode != "parameter" || in.Number != a.Parameter {
				continue
			}
			at, of, err := f.within(&in.Shape, a.Index)
			if err != nil {
				return fmt.Errorf("input_output_alias: %w", err)
			}
			if !alike(shape, of) {
				return fmt.Errorf("input_output_alias: output %v is %s, parameter %d %s", a.Output, shape,
					a.Parameter, of)
			}
			f.join(root.place+to, entry.first[i]+at, 1)
			found = true
		}
		if !found {
			return fmt.Errorf("input_output_alias: there is no parameter %d", a.Parameter)
		}
	}
	return nil
}

// make finds the buffers and their spans.
func (p *Program) make(f *flattener, entry *frame) {
	p.buffer = make([]int32, len(f.parent))
	for i := range f.events {
		f.events[i].place = f.find(f.events[i].place)
	}
	slices.SortStableFunc(f.events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind))
	})
	of := make([]int32, len(f.parent)) // by root place: its buffer
	for i := 0; i < len(f.events); {
		place := f.events[i].place
		b := Buffer{Bytes: f.size[place], Maker: -1, Within: -1, Over: -1, named: -1}
		for ; i < len(f.events) && f.events[i].place == place; i++ {
			b.happens(&f.events[i])
		}
		of[place] = int32(len(p.Buffers))
		p.Buffers = append(p.Buffers, b)
	}
	for i := range p.buffer {
		p.buffer[i] = of[f.find(int32(i))]
	}
	p.name()
	p.roles(entry)
}

// happens adds an event to the spans.
func (b *Buffer) happens(e *event) {
	last := len(b.Spans) - 1
	if e.kind == isDefined {
		b.values++
	}
	if last < 0 || e.kind == isDefined && e.at > b.Spans[last].To {
		b.Spans = append(b.Spans, Span{e.at, max(e.at, e.to)})
		return
	}
	b.Spans[last].To = max(b.Spans[last].To, e.to)
}

// name finds the maker of each buffer: the first step with a place of it.
func (p *Program) name() {
	for s := range p.Steps {
		step := &p.Steps[s]
		var path []int64
		var visit func(shape *hlo.Shape)
		at := step.frame.first[step.Instruction]
		visit = func(shape *hlo.Shape) {
			b := &p.Buffers[p.buffer[at]]
			if b.Maker < 0 {
				b.Maker, b.Element, b.table = int32(s), slices.Clone(path), shape.IsTuple()
			}
			if b.named < 0 && !shape.IsTuple() && p.ownLabel(step.In()) != "" {
				b.named = int32(s)
			}
			at++
			for i := range shape.Tuple {
				path = append(path, int64(i))
				visit(&shape.Tuple[i])
				path = path[:len(path)-1]
			}
		}
		visit(&step.In().Shape)
	}
}

// roles marks arguments, results and constants. Arguments that are not donated have their memory throughout.
func (p *Program) roles(entry *frame) {
	all := []Span{{0, int32(len(p.Steps))}}
	root := entry.result()
	for i := range p.layout.width(root.shape) {
		p.Buffers[p.buffer[root.place+i]].Role = Result
	}
	for i := range entry.of.Instructions {
		in := &entry.of.Instructions[i]
		if in.Opcode != "parameter" {
			continue
		}
		for j := range p.layout.width(&in.Shape) {
			b := &p.Buffers[p.buffer[entry.first[i]+j]]
			if b.Role == Result {
				b.Role = Donated
			} else if b.Role == Temporary {
				b.Role, b.Spans = Argument, all
			}
		}
	}
	for s := range p.Steps {
		step := &p.Steps[s]
		if step.In().Opcode != "constant" {
			continue
		}
		for j := range p.layout.width(&step.In().Shape) {
			b := &p.Buffers[p.buffer[step.frame.first[step.Instruction]+j]]
			if b.Role == Temporary && b.values == 1 {
				b.Role = Constant
			}
		}
	}
}
