package hlo

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of the messages that are read (hlo.proto, xla_data.proto).
const (
	moduleOfProto = 1 // HloProto.hlo_module

	moduleName         = 1
	moduleComputations = 3
	moduleEntry        = 6
	moduleSchedule     = 7
	moduleAliases      = 8
	moduleFrames       = 17

	computationName         = 1
	computationInstructions = 2
	computationID           = 5
	computationRoot         = 6

	instructionName        = 1
	instructionOpcode      = 2
	instructionShape       = 3
	instructionMetadata    = 7
	instructionParameter   = 9
	instructionKind        = 11
	instructionIndex       = 13
	instructionConvolution = 16
	instructionTarget      = 28
	instructionDot         = 30
	instructionID          = 35
	instructionOperands    = 36
	instructionCalled      = 38
	instructionSharding    = 40
	instructionConfig      = 43
	instructionInPlace     = 74

	kernelOutputFeature = 4 // ConvolutionDimensionNumbers
	lhsContracting      = 1 // DotDimensionNumbers

	shapeType    = 2
	shapeDims    = 3
	shapeTuple   = 4
	shapeLayout  = 5
	shapeDynamic = 6

	layoutMinorToMajor = 1
	layoutBits         = 7
	layoutSpace        = 8

	metadataOpName = 2
	metadataFile   = 3
	metadataLine   = 4
	metadataFrame  = 15
)

// primitives has the types by their numbers (PrimitiveType).
var primitives = map[uint64]string{1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32",
	9: "u64", 10: "f16", 11: "f32", 12: "f64", 13: "tuple", 14: "opaque", 15: "c64", 16: "bf16", 17: "token",
	18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz",
	25: "f8e4m3fnuz", 26: "s2", 27: "u2", 28: "f8e4m3", 29: "f8e3m4", 30: "s1", 31: "u1", 32: "f4e2m1fn",
	33: "f8e8m0fnu"}

// errWire is the error of bytes that are no message.
var errWire = errors.New("is no valid protocol buffer")

// field is a field of a message.
type field struct {
	num  protowire.Number
	n    uint64 // of a number
	body []byte // of a string or message
}

// each visits the fields of a message. Fields of fixed width, which no message here has, are skipped.
func each(body []byte, visit func(f field) error) error {
	for len(body) > 0 {
		num, typ, n := protowire.ConsumeTag(body)
		if n < 0 {
			return errWire
		}
		body = body[n:]
		f := field{num: num}
		switch typ {
		case protowire.VarintType:
			f.n, n = protowire.ConsumeVarint(body)
		case protowire.BytesType:
			f.body, n = protowire.ConsumeBytes(body)
		default:
			n = protowire.ConsumeFieldValue(num, typ, body)
			f.num = 0
		}
		if n < 0 {
			return errWire
		}
		body = body[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// numbers appends a repeated number, packed or not.
func (f *field) numbers(list []int64) ([]int64, error) {
	if f.body == nil {
		return append(list, int64(f.n)), nil
	}
	for rest := f.body; len(rest) > 0; {
		v, n := protowire.ConsumeVarint(rest)
		if n < 0 {
			return nil, errWire
		}
		list, rest = append(list, int64(v)), rest[n:]
	}
	return list, nil
}

// isProto reports whether a file begins with a module's name, or with a module that does: a field of tag 1 with text
// that names have.
func isProto(head []byte) bool {
	for range 2 {
		if len(head) < 3 || head[0] != 0x0a {
			return false
		}
		size, n := protowire.ConsumeVarint(head[1:])
		if n < 0 || size == 0 {
			return false
		}
		head = head[1+n:]
		if len(head) > 0 && head[0] == 0x0a {
			continue
		}
		for _, c := range head[:min(uint64(len(head)), size)] {
			if !isName(c) && !strings.ContainsRune("<>()[],/ ", rune(c)) {
				return false
			}
		}
		// The second field of a module is the name of its entry computation, or its computations.
		return uint64(len(head)) <= size || head[size] == 0x12 || head[size] == 0x1a
	}
	return false
}

// ReadProto reads a module from an HloModuleProto, or an HloProto with one in it. Strings are copied.
func ReadProto(data []byte) (*Module, error) {
	inner := data
	if err := each(data, func(f field) error {
		if f.num == moduleOfProto && len(f.body) > 0 && f.body[0] == 0x0a {
			inner = f.body
		}
		return nil
	}); err != nil {
		return nil, err
	}
	d := &decoder{m: &Module{Partitions: 1, Replicas: 1, Entry: -1}, computations: map[int64]int32{},
		frames: frames{map[int64]string{}, map[int64][2]int64{}, map[int64]int64{}}}
	if err := d.module(inner); err != nil {
		return nil, err
	}
	if err := d.m.verify(); err != nil {
		return nil, err
	}
	return d.m, nil
}

// decoder reads a module.
type decoder struct {
	m            *Module
	computations map[int64]int32 // by ID
	sequences    map[int64][]int64
	called       [][][]int64 // by computation and instruction: IDs
	frames       frames
}

func (d *decoder) module(body []byte) error {
	entry := int64(-1)
	var computations [][]byte
	err := each(body, func(f field) (err error) {
		switch f.num {
		case moduleName:
			d.m.Name = string(f.body)
		case moduleEntry:
			entry = int64(f.n)
		case moduleComputations:
			computations = append(computations, f.body)
		case moduleSchedule:
			d.m.Scheduled = true
			err = d.schedule(f.body)
		case moduleAliases:
			err = d.aliases(f.body)
		case moduleFrames:
			err = d.stackFrames(f.body)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, c := range computations {
		if err := d.computation(c); err != nil {
			return err
		}
	}
	var ok bool
	if d.m.Entry, ok = d.computations[entry]; !ok {
		return fmt.Errorf("module %q: there is no computation %d, the entry", d.m.Name, entry)
	}
	return d.link()
}

// schedule reads HloScheduleProto: a map from computations to instructions.
func (d *decoder) schedule(body []byte) error {
	d.sequences = map[int64][]int64{}
	return each(body, func(f field) error {
		var key int64
		var list []int64
		err := each(f.body, func(f field) error {
			if f.num == 1 {
				key = int64(f.n)
				return nil
			}
			return each(f.body, func(f field) (err error) {
				list, err = f.numbers(list)
				return err
			})
		})
		d.sequences[key] = list
		return err
	})
}

// aliases reads HloInputOutputAliasProto.
func (d *decoder) aliases(body []byte) error {
	return each(body, func(f field) error {
		var a Alias
		err := each(f.body, func(f field) (err error) {
			switch f.num {
			case 1:
				a.Output, err = f.numbers(a.Output)
			case 2:
				a.Parameter = int64(f.n)
			case 3:
				a.Index, err = f.numbers(a.Index)
			}
			return err
		})
		d.m.Aliases = append(d.m.Aliases, a)
		return err
	})
}

// stackFrames reads StackFrameIndexProto; its numbers begin with 1.
func (d *decoder) stackFrames(body []byte) error {
	var files, locations, frames int64
	return each(body, func(f field) error {
		var row [5]int64
		switch f.num {
		case 1:
			files++
			d.frames.files[files] = string(f.body)
			return nil
		case 3, 4:
			if err := each(f.body, func(f field) error {
				if int(f.num) < len(row) {
					row[f.num] = int64(f.n)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		switch f.num {
		case 3:
			locations++
			d.frames.locations[locations] = [2]int64{row[1], row[3]}
		case 4:
			frames++
			d.frames.frames[frames] = row[1]
		}
		return nil
	})
}

func (d *decoder) computation(body []byte) error {
	c := &Computation{Root: -1}
	var id, root int64
	var instructions [][]byte
	if err := each(body, func(f field) error {
		switch f.num {
		case computationName:
			c.Name = string(f.body)
		case computationInstructions:
			instructions = append(instructions, f.body)
		case computationID:
			id = int64(f.n)
		case computationRoot:
			root = int64(f.n)
		}
		return nil
	}); err != nil {
		return err
	}
	b := &protoBody{decoder: d, at: map[int64]int32{}}
	for _, in := range instructions {
		if err := b.instruction(in); err != nil {
			return fmt.Errorf("computation %q: %w", c.Name, err)
		}
	}
	if err := b.order(c, d.sequences[id]); err != nil {
		return fmt.Errorf("computation %q: %w", c.Name, err)
	}
	c.Root = -1
	if at, ok := b.at[root]; ok {
		c.Root = at
	}
	if _, ok := d.computations[id]; ok {
		return fmt.Errorf("there are two computations %d", id)
	}
	d.computations[id] = int32(len(d.m.Computations))
	d.m.Computations = append(d.m.Computations, c)
	return nil
}

// protoBody reads the instructions of a computation.
type protoBody struct {
	*decoder
	list     []Instruction
	ids      []int64
	operands [][]int64
	calls    [][]int64
	at       map[int64]int32 // by ID
}

func (b *protoBody) instruction(body []byte) error {
	var in Instruction
	var id int64
	var operands, called []int64
	err := each(body, func(f field) (err error) {
		switch f.num {
		case instructionName:
			in.Name = string(f.body)
		case instructionOpcode:
			in.Opcode = string(f.body)
		case instructionShape:
			in.Shape, err = protoShape(f.body, 0)
		case instructionMetadata:
			err = b.metadata(&in, f.body)
		case instructionParameter, instructionIndex:
			in.Number = int64(f.n)
		case instructionKind:
			in.Kind = string(f.body)
		case instructionConvolution:
			err = each(f.body, func(f field) error {
				if f.num == kernelOutputFeature {
					in.Features = int64(f.n)
				}
				return nil
			})
		case instructionDot:
			err = each(f.body, func(f field) (err error) {
				if f.num == lhsContracting {
					in.Contracting, err = f.numbers(in.Contracting)
				}
				return err
			})
		case instructionTarget:
			in.Target = string(f.body)
		case instructionID:
			id = int64(f.n)
		case instructionOperands:
			operands, err = f.numbers(operands)
		case instructionCalled:
			called, err = f.numbers(called)
		case instructionSharding:
			in.Sharding, err = protoSharding(f.body, 0)
		case instructionConfig:
			in.TripCount = tripCount(string(f.body))
		case instructionInPlace:
			var a OperandAlias
			a, err = protoOperandAlias(f.body)
			in.InPlace = append(in.InPlace, a)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("instruction %q: %w", in.Name, err)
	}
	if in.Opcode != "while" {
		in.TripCount = 0
	}
	if in.Opcode == "while" && len(called) == 2 {
		called[0], called[1] = called[1], called[0] // the body is before the condition
	}
	b.list, b.ids = append(b.list, in), append(b.ids, id)
	b.operands, b.calls = append(b.operands, operands), append(b.calls, called)
	return nil
}

// metadata reads OpMetadata.
func (b *protoBody) metadata(in *Instruction, body []byte) error {
	frame := int64(0)
	err := each(body, func(f field) error {
		switch f.num {
		case metadataOpName:
			in.OpName = string(f.body)
		case metadataFile:
			in.File = string(f.body)
		case metadataLine:
			in.Line = int64(f.n)
		case metadataFrame:
			frame = int64(f.n)
		}
		return nil
	})
	if frame != 0 && in.File == "" {
		in.File, in.Line = b.frames.source(frame)
	}
	return err
}

// order puts the instructions of a computation in the order of the schedule, where there is one, and finds operands.
func (b *protoBody) order(c *Computation, sequence []int64) error {
	if sequence == nil {
		sequence = b.ids
	}
	from := make(map[int64]int, len(b.ids))
	for i, id := range b.ids {
		if _, ok := from[id]; ok {
			return fmt.Errorf("there are two instructions %d", id)
		}
		from[id] = i
	}
	if len(sequence) != len(b.ids) {
		return fmt.Errorf("the schedule has %d of %d instructions", len(sequence), len(b.ids))
	}
	called := make([][]int64, 0, len(b.ids))
	for _, id := range sequence {
		i, ok := from[id]
		if _, again := b.at[id]; !ok || again {
			return fmt.Errorf("the schedule has instruction %d, which is not there once", id)
		}
		in := b.list[i]
		for _, o := range b.operands[i] {
			place, ok := b.at[o]
			if !ok {
				return fmt.Errorf("instruction %q: operand %d is not defined before it", in.Name, o)
			}
			in.Operands = append(in.Operands, place)
		}
		b.at[id] = int32(len(c.Instructions))
		c.Instructions = append(c.Instructions, in)
		called = append(called, b.calls[i])
	}
	b.called = append(b.called, called)
	return nil
}

// link finds the called computations.
func (d *decoder) link() error {
	for k, c := range d.m.Computations {
		for i := range c.Instructions {
			for _, id := range d.called[k][i] {
				to, ok := d.computations[id]
				if !ok {
					return fmt.Errorf("computation %q: instruction %q calls computation %d, which is not there", c.Name,
						c.Instructions[i].Name, id)
				}
				c.Instructions[i].Called = append(c.Instructions[i].Called, to)
			}
		}
	}
	return nil
}

// protoShape reads ShapeProto.
func protoShape(body []byte, depth int) (Shape, error) {
	if depth > maxNesting {
		return Shape{}, fmt.Errorf("tuples nest deeper than %d", maxNesting)
	}
	var s Shape
	var dynamic []int64
	var element uint64
	err := each(body, func(f field) (err error) {
		switch f.num {
		case shapeType:
			element = f.n
		case shapeDims:
			s.Dims, err = f.numbers(s.Dims)
		case shapeTuple:
			var e Shape
			e, err = protoShape(f.body, depth+1)
			s.Tuple = append(s.Tuple, e)
		case shapeDynamic:
			dynamic, err = f.numbers(dynamic)
		case shapeLayout:
			err = each(f.body, func(f field) (err error) {
				switch f.num {
				case layoutMinorToMajor:
					s.Layout, err = f.numbers(s.Layout)
				case layoutBits:
					s.Bits = int64(min(f.n, 999))
				case layoutSpace:
					s.Space = int64(min(f.n, 999))
				}
				return err
			})
		}
		return err
	})
	if err != nil {
		return Shape{}, err
	}
	var ok bool
	if s.Type, ok = primitives[element]; !ok {
		return Shape{}, fmt.Errorf("type %d is unknown", element)
	}
	if len(s.Tuple) > 0 && !s.IsTuple() {
		return Shape{}, fmt.Errorf("a %s has elements of a tuple", s.Type)
	}
	if slices.ContainsFunc(s.Dims, func(d int64) bool { return d < 0 }) {
		return Shape{}, fmt.Errorf("shape %s has a dim without a size", &s)
	}
	if len(s.Layout) > 0 && len(s.Layout) != len(s.Dims) {
		return Shape{}, fmt.Errorf("a layout of %d dims is of shape %s", len(s.Layout), &s)
	}
	if slices.Contains(dynamic, 1) && len(dynamic) == len(s.Dims) {
		for _, d := range dynamic {
			s.Dynamic = append(s.Dynamic, d != 0)
		}
	}
	return s, nil
}

// protoOperandAlias reads OutputOperandAliasing.
func protoOperandAlias(body []byte) (a OperandAlias, err error) {
	err = each(body, func(f field) (err error) {
		switch f.num {
		case 1:
			a.Output, err = f.numbers(a.Output)
		case 2:
			a.Operand = int64(f.n)
		case 3:
			a.Index, err = f.numbers(a.Index)
		}
		return err
	})
	return a, err
}

// protoSharding writes OpSharding as the text has it.
func protoSharding(body []byte, depth int) (string, error) {
	if depth > maxNesting {
		return "", fmt.Errorf("shardings nest deeper than %d", maxNesting)
	}
	var kind uint64
	var tiles, devices, reshape, order []int64
	var parts, last []string
	replicateLast := false
	err := each(body, func(f field) (err error) {
		switch f.num {
		case 1:
			kind = f.n
		case 3:
			tiles, err = f.numbers(tiles)
		case 4:
			devices, err = f.numbers(devices)
		case 5:
			var part string
			part, err = protoSharding(f.body, depth+1)
			parts = append(parts, part)
		case 6:
			replicateLast = f.n != 0
		case 8:
			var kinds []int64
			kinds, err = f.numbers(nil)
			for _, k := range kinds {
				last = append(last, [...]string{"replicated", "maximal", "tuple", "other", "manual"}[uint64(k)%5])
			}
		case 9:
			reshape, err = f.numbers(reshape)
		case 10:
			order, err = f.numbers(order)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	switch kind {
	case 0:
		return "{replicated}", nil
	case 1:
		return fmt.Sprintf("{maximal device=%s}", joined(devices)), nil
	case 2:
		return "{" + strings.Join(parts, ", ") + "}", nil
	case 4:
		return "{manual}", nil
	}
	text := "{devices=[" + joined(tiles) + "]"
	if len(reshape) > 0 {
		text += "<=[" + joined(reshape) + "]"
		if len(order) > 1 {
			text += "T(" + joined(order) + ")"
		}
	} else {
		text += joined(devices)
	}
	if replicateLast {
		text += " last_tile_dim_replicate"
	}
	if len(last) > 0 {
		text += " last_tile_dims={" + strings.Join(last, ", ") + "}"
	}
	return text + "}", nil
}

func joined(list []int64) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(parts, ",")
}
