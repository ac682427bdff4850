package hlo

import (
	"errors"
	"fmt"
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
	moduleDonors       = 18
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
	instructionFrontend    = 68
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
		case moduleDonors:
			err = d.donors(f.body)
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

// donors reads HloBufferDonorProto.
func (d *decoder) donors(body []byte) error {
	return each(body, func(f field) error {
		var donor Donor
		err := each(f.body, func(f field) (err error) {
			switch f.num {
			case 1:
				donor.Parameter = int64(f.n)
			case 2:
				donor.Index, err = f.numbers(donor.Index)
			}
			return err
		})
		d.m.Donors = append(d.m.Donors, donor)
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
