package hlo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// body reads the instructions of a computation.
type body struct {
	*parser
	c  *Computation
	at map[string]int32
}

func (b *body) instruction() error {
	root := b.word() == "ROOT"
	if root {
		b.accept("ROOT")
	}
	name, err := b.name()
	if err != nil {
		return err
	}
	if _, ok := b.at[name]; ok {
		return fmt.Errorf("there are two instructions %q", name)
	}
	in := Instruction{Name: name}
	if err := b.contents(&in); err != nil {
		return fmt.Errorf("instruction %q: %w", name, err)
	}
	place := int32(len(b.c.Instructions))
	b.at[name] = place
	if root {
		b.c.Root = place
	}
	b.c.Instructions = append(b.c.Instructions, in)
	return nil
}

// contents reads = shape opcode(operands), attributes.
func (b *body) contents(in *Instruction) (err error) {
	if err := b.want("="); err != nil {
		return err
	}
	if in.Shape, err = b.shape(0); err != nil {
		return err
	}
	if in.Opcode, err = b.name(); err != nil {
		return err
	}
	if err := b.want("("); err != nil {
		return err
	}
	switch in.Opcode {
	case "constant":
		err = b.literal()
	case "parameter":
		if in.Number, err = b.number(); err == nil {
			err = b.want(")")
		}
	default:
		err = b.operands(in)
	}
	if err != nil {
		return err
	}
	return b.attributes(func(key, text string) error { return b.attribute(in, key, text) })
}

// literal skips the contents of a constant, with the closing bracket.
func (b *body) literal() error {
	for {
		if _, err := b.value(); err != nil {
			return err
		}
		switch b.peek() {
		case ')':
			b.pos++
			return nil
		case ',':
			b.pos++
		default:
			return fmt.Errorf("found %s, wanted ')'", b.found())
		}
	}
}

// operands reads the operands and the closing bracket: names, with their shapes before them or without.
func (b *body) operands(in *Instruction) error {
	for first := true; !b.accept(")"); first = false {
		if !first {
			if err := b.want(","); err != nil {
				return err
			}
		}
		if c := b.peek(); c == '(' {
			if _, err := b.shape(0); err != nil {
				return err
			}
		}
		name, err := b.name()
		if err != nil {
			return err
		}
		if b.pos < len(b.data) && b.data[b.pos] == '[' {
			b.pos -= len(name)
			if _, err := b.shape(0); err != nil {
				return err
			}
			if name, err = b.name(); err != nil {
				return err
			}
		}
		place, ok := b.at[name]
		if !ok {
			return fmt.Errorf("operand %q is not defined before it", name)
		}
		in.Operands = append(in.Operands, place)
	}
	return nil
}

// attribute reads an attribute of an instruction.
func (b *body) attribute(in *Instruction, key, text string) (err error) {
	s := &scanner{data: []byte(text)}
	switch key {
	case "calls", "to_apply", "body", "condition", "branch_computations", "true_computation", "false_computation",
		"called_computations":
		return b.called(in, key, text)
	case "kind":
		in.Kind = text
	case "index":
		in.Number, err = s.number()
	case "lhs_contracting_dims":
		in.Contracting, err = s.index()
	case "dim_labels":
		// For example b01f_01io->b01f: the kernel's labels are behind the first _.
		_, kernel, _ := strings.Cut(text, "_")
		kernel, _, _ = strings.Cut(kernel, "->")
		in.Features = int64(max(0, strings.IndexByte(kernel, 'o')))
	case "custom_call_target":
		in.Target, err = s.quoted()
	case "sharding":
		in.Sharding = text
	case "frontend_attributes":
		in.Placement = placement(text)
	case "output_to_operand_aliasing":
		var list []Alias
		if list, err = s.aliases(); err == nil {
			for _, a := range list {
				in.InPlace = append(in.InPlace, OperandAlias{a.Output, a.Parameter, a.Index})
			}
		}
	case "metadata":
		err = b.metadata(in, text)
	case "backend_config":
		if in.Opcode == "while" {
			in.TripCount = tripCount(text)
		}
	}
	return err
}

// called notes the computations that an attribute names. A while has its condition before its body.
func (b *body) called(in *Instruction, key, text string) error {
	s := &scanner{data: []byte(text)}
	list := s.accept("{")
	for first := true; ; first = false {
		if list && s.accept("}") || !list && !first {
			break
		}
		if !first {
			if err := s.want(","); err != nil {
				return err
			}
		}
		name, err := s.name()
		if err != nil {
			return err
		}
		place := len(in.Called)
		if key == "condition" && len(in.Called) > 1 {
			return fmt.Errorf("is no instruction's only condition")
		}
		if key == "condition" {
			place = 0
			in.Called = slices.Insert(in.Called, 0, -1)
			for i := len(b.calls) - 1; i >= 0 && b.calls[i].from == int32(len(b.m.Computations)) &&
				b.calls[i].at == int32(len(b.c.Instructions)); i-- {
				b.calls[i].place++
			}
		} else {
			in.Called = append(in.Called, -1)
		}
		b.calls = append(b.calls, call{int32(len(b.m.Computations)), int32(len(b.c.Instructions)), place, name})
	}
	return nil
}

// tripCount reads "known_trip_count":{"n":"8"}; 0 where it is not there.
func tripCount(text string) int64 {
	const key = `"known_trip_count":{"n":"`
	_, rest, ok := strings.Cut(text, key)
	if !ok {
		// The whole configuration may be a quoted string.
		if _, rest, ok = strings.Cut(text, strings.ReplaceAll(key, `"`, `\"`)); !ok {
			return 0
		}
	}
	digits := strings.TrimRight(rest[:min(len(rest), 20)], "\x00")
	end := 0
	for end < len(digits) && '0' <= digits[end] && digits[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(digits[:end], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// placement reads _xla_buffer_placement="pinned_host" among the attributes that a frontend gave; "" without it.
func placement(text string) string {
	_, rest, ok := strings.Cut(text, placementKey+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// placementKey is the frontend's attribute with the memory space that a value is to lie in
// (xla/service/host_offload_utils.h of openxla/xla).
const placementKey = "_xla_buffer_placement"

// metadata reads {op_type="..." op_name="..." source_file="..." source_line=1 stack_frame_id=5}.
func (b *body) metadata(in *Instruction, text string) error {
	s := &scanner{data: []byte(text)}
	if err := s.want("{"); err != nil {
		return err
	}
	for !s.accept("}") {
		s.accept(",")
		key, err := s.name()
		if err != nil {
			return err
		}
		if err := s.want("="); err != nil {
			return err
		}
		switch key {
		case "op_name":
			in.OpName, err = s.quoted()
		case "source_file":
			in.File, err = s.quoted()
		case "source_line":
			in.Line, err = s.number()
		case "stack_frame_id":
			var id int64
			if id, err = s.number(); err == nil && in.File == "" {
				in.File, in.Line = b.frames.source(id)
			}
		default:
			err = s.skip()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
