package hlo

import (
	"fmt"
)

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
		case instructionFrontend:
			in.Placement, err = protoPlacement(f.body)
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

// protoPlacement finds placementKey in FrontendAttributes, whose entries are pairs of a key and a value.
func protoPlacement(body []byte) (out string, err error) {
	err = each(body, func(entry field) error {
		var key, value string
		err := each(entry.body, func(f field) error {
			switch f.num {
			case 1:
				key = string(f.body)
			case 2:
				value = string(f.body)
			}
			return nil
		})
		if key == placementKey {
			out = value
		}
		return err
	})
	return out, err
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
