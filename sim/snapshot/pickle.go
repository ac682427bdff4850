package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// list is a list or a tuple of a pickle; a list that is appended to is changed in place.
type list struct{ items []any }

// dict is a dict whose keys are texts; other keys, which snapshots do not ask for, are left out.
type dict map[string]any

// none stands for None.
type none struct{}

// IsPickle reports whether a file begins as a pickle of protocol 2 to 5.
func IsPickle(head []byte) bool {
	return len(head) > 1 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5
}

// refused are the opcodes that make objects of other programs, by name.
var refused = map[byte]string{'c': "GLOBAL", 0x93: "STACK_GLOBAL", 'R': "REDUCE", 'b': "BUILD", 'i': "INST", 'o': "OBJ",
	0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 'P': "PERSID", 'Q': "BINPERSID",
	0x8f: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER",
	0x98: "READONLY_BUFFER"}

// errShort says that a pickle ends in the middle.
var errShort = errors.New("the pickle ends too early")

// pickle reads a pickle of plain data: dicts, lists, tuples, texts, bytes, numbers, truth values and None. Time and
// memory are in proportion to its bytes.
type pickle struct {
	data  []byte
	at    int
	stack []any
	marks []int
	memo  []any
}

// unpickle reads a pickle. Opcodes that would call code are an error that names them.
func unpickle(data []byte) (any, error) {
	p := &pickle{data: data}
	for {
		code, err := p.next(1)
		if err != nil {
			return nil, err
		}
		if code[0] == '.' {
			return p.pop()
		}
		if err := p.do(code[0]); err != nil {
			return nil, fmt.Errorf("byte %d of the pickle: %w", p.at, err)
		}
	}
}

// next are the next n bytes.
func (p *pickle) next(n uint64) ([]byte, error) {
	if n > uint64(len(p.data)-p.at) {
		return nil, errShort
	}
	b := p.data[p.at : p.at+int(n)]
	p.at += int(n)
	return b, nil
}

// number is a number of so many bytes.
func (p *pickle) number(bytes uint64) (n uint64, err error) {
	b, err := p.next(bytes)
	for i, x := range b {
		n |= uint64(x) << (8 * i)
	}
	return n, err
}

// sized are the bytes behind their number, which has so many bytes itself.
func (p *pickle) sized(bytes uint64) ([]byte, error) {
	n, err := p.number(bytes)
	if err != nil {
		return nil, err
	}
	return p.next(n)
}

func (p *pickle) push(x any) error {
	p.stack = append(p.stack, x)
	return nil
}

func (p *pickle) pop() (any, error) {
	if len(p.stack) == 0 || len(p.marks) > 0 && p.marks[len(p.marks)-1] == len(p.stack) {
		return nil, errors.New("the stack is empty")
	}
	x := p.stack[len(p.stack)-1]
	p.stack = p.stack[:len(p.stack)-1]
	return x, nil
}

// above takes all that lies above the last mark.
func (p *pickle) above() ([]any, error) {
	if len(p.marks) == 0 {
		return nil, errors.New("there is no mark")
	}
	at := p.marks[len(p.marks)-1]
	p.marks = p.marks[:len(p.marks)-1]
	x := append([]any(nil), p.stack[at:]...)
	p.stack = p.stack[:at]
	return x, nil
}

// text pushes a text.
func (p *pickle) text(bytes uint64) error {
	b, err := p.sized(bytes)
	if err == nil && !utf8.Valid(b) {
		return errors.New("a text is no UTF-8")
	}
	if err != nil {
		return err
	}
	return p.push(string(b))
}

// long pushes a whole number of so many bytes.
func (p *pickle) long(bytes uint64) error {
	b, err := p.sized(bytes)
	switch {
	case err != nil:
		return err
	case len(b) > 8 && !(len(b) == 9 && b[8] == 0):
		return fmt.Errorf("a number of %d bytes: wanted 8 at most", len(b))
	}
	n := uint64(0)
	for i, x := range b[:min(len(b), 8)] {
		n |= uint64(x) << (8 * i)
	}
	if len(b) > 0 && len(b) < 8 && b[len(b)-1] >= 128 {
		n |= math.MaxUint64 << (8 * len(b))
	}
	return p.push(int64(n))
}

// tuple makes a tuple of the last n objects.
func (p *pickle) tuple(n int) error {
	x := make([]any, n)
	for i := range x {
		var err error
		if x[n-1-i], err = p.pop(); err != nil {
			return err
		}
	}
	return p.push(&list{x})
}

// put keeps the last object under a number. Numbers are at most those of objects so far.
func (p *pickle) put(n uint64) error {
	if n > uint64(p.at) {
		return fmt.Errorf("an object gets number %d", n)
	}
	x, err := p.pop()
	if err != nil {
		return err
	}
	for uint64(len(p.memo)) <= n {
		p.memo = append(p.memo, nil)
	}
	p.memo[n] = x
	return p.push(x)
}

// get pushes a kept object.
func (p *pickle) get(n uint64) error {
	if n >= uint64(len(p.memo)) || p.memo[n] == nil {
		return fmt.Errorf("no object has number %d", n)
	}
	return p.push(p.memo[n])
}

// numbered calls a function with a number of so many bytes.
func (p *pickle) numbered(bytes uint64, f func(uint64) error) error {
	n, err := p.number(bytes)
	if err != nil {
		return err
	}
	return f(n)
}

// extend adds objects to the list, or pairs to the dict, on the stack.
func (p *pickle) extend(x []any, pairs bool) error {
	on, err := p.pop()
	if err != nil {
		return err
	}
	switch c := on.(type) {
	case *list:
		if pairs {
			return errors.New("a list gets keys")
		}
		c.items = append(c.items, x...)
	case dict:
		if !pairs || len(x)%2 != 0 {
			return errors.New("a dict gets no pairs")
		}
		for i := 0; i < len(x); i += 2 {
			if key, ok := x[i].(string); ok {
				c[key] = x[i+1]
			}
		}
	default:
		return errors.New("neither a list nor a dict grows")
	}
	return p.push(on)
}

// grown is extend with all that lies above the mark.
func (p *pickle) grown(pairs bool) error {
	x, err := p.above()
	if err != nil {
		return err
	}
	return p.extend(x, pairs)
}

// do runs an opcode.
func (p *pickle) do(code byte) error {
	switch code {
	case 0x80: // PROTO
		v, err := p.number(1)
		if err == nil && (v < 2 || v > 5) {
			return fmt.Errorf("is of protocol %d: wanted 2 to 5", v)
		}
		return err
	case 0x95: // FRAME
		_, err := p.next(8)
		return err
	case '(':
		p.marks = append(p.marks, len(p.stack))
		return nil
	case '0': // POP
		_, err := p.pop()
		return err
	case '1': // POP_MARK
		_, err := p.above()
		return err
	case 'N':
		return p.push(none{})
	case 0x88, 0x89:
		return p.push(code == 0x88)
	case 'G':
		b, err := p.next(8)
		if err != nil {
			return err
		}
		return p.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	case 'K':
		return p.numbered(1, func(n uint64) error { return p.push(int64(n)) })
	case 'M':
		return p.numbered(2, func(n uint64) error { return p.push(int64(n)) })
	case 'J':
		return p.numbered(4, func(n uint64) error { return p.push(int64(int32(n))) })
	case 0x8a:
		return p.long(1)
	case 0x8b:
		return p.long(4)
	case 'X':
		return p.text(4)
	case 0x8c:
		return p.text(1)
	case 0x8d:
		return p.text(8)
	case 'C', 'B', 0x8e: // bytes
		b, err := p.sized(map[byte]uint64{'C': 1, 'B': 4, 0x8e: 8}[code])
		if err != nil {
			return err
		}
		return p.push(b)
	}
	return p.compound(code)
}

// compound is do for opcodes of lists, dicts and the memo.
func (p *pickle) compound(code byte) error {
	switch code {
	case ']', ')':
		return p.push(&list{})
	case '}':
		return p.push(dict{})
	case 'l', 't': // LIST, TUPLE
		x, err := p.above()
		if err != nil {
			return err
		}
		return p.push(&list{x})
	case 'd': // DICT
		x, err := p.above()
		if err != nil {
			return err
		}
		p.stack = append(p.stack, dict{})
		return p.extend(x, true)
	case 0x85, 0x86, 0x87:
		return p.tuple(int(code) - 0x84)
	case 'a':
		x, err := p.pop()
		if err != nil {
			return err
		}
		return p.extend([]any{x}, false)
	case 's':
		v, err := p.pop()
		if err != nil {
			return err
		}
		k, err := p.pop()
		if err != nil {
			return err
		}
		return p.extend([]any{k, v}, true)
	case 'e':
		return p.grown(false)
	case 'u':
		return p.grown(true)
	case 'q':
		return p.numbered(1, p.put)
	case 'r':
		return p.numbered(4, p.put)
	case 0x94:
		return p.put(uint64(len(p.memo)))
	case 'h':
		return p.numbered(1, p.get)
	case 'j':
		return p.numbered(4, p.get)
	}
	if name := refused[code]; name != "" {
		return fmt.Errorf("opcode %s makes an object of a program: a snapshot holds plain data alone", name)
	}
	return fmt.Errorf("opcode %#x is not known", code)
}
