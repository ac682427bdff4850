package torchsnapshot_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// object is what a pickle holds: nil, bool, int64, float64, string, *items or map[string]any.
type object = any

// items is a list or a tuple; lists are changed in place, so that what shares one sees that.
type items struct{ list []object }

// arguments is how many arguments a call may have in the engines of browsers, by far.
const arguments = 10000

// errPickle is what unpickle says of anything that the page would not read.
var errPickle = errors.New("the page cannot read this pickle")

// unpickle reads a pickle by the rules of the page's reader (the function unpickle of MemoryViz.js):
// protocols 2 to 4 and its opcodes, nothing else.
func unpickle(data []byte) (result object, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPickle, r)
		}
	}()
	var stack []object
	var marks []int
	memo, memoized := map[uint32]object{}, uint32(0)
	next := func(n int) []byte {
		b := data[:n]
		data = data[n:]
		return b
	}
	pop := func() object {
		x := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		return x
	}
	above := func() []object {
		mark := marks[len(marks)-1]
		marks = marks[:len(marks)-1]
		got := append([]object(nil), stack[mark:]...)
		stack = stack[:mark]
		if len(got) > arguments {
			panic("too many items at once")
		}
		return got
	}
	set := func(d map[string]object, pairs []object) {
		for i := 0; i < len(pairs); i += 2 {
			d[pairs[i].(string)] = pairs[i+1]
		}
	}
	text := func(n int) string {
		s := next(n)
		if !utf8.Valid(s) {
			panic("not UTF-8")
		}
		return string(s)
	}
	push := func(x object) { stack = append(stack, x) }
	u32 := func() uint32 { return binary.LittleEndian.Uint32(next(4)) }
	for {
		switch code := next(1)[0]; code {
		case 0x80:
			if v := next(1)[0]; v < 2 || v > 4 {
				panic("protocol")
			}
		case 0x95:
			next(8)
		case '(':
			marks = append(marks, len(stack))
		case '}':
			push(map[string]object{})
		case ']', ')':
			push(&items{})
		case 'd':
			d := map[string]object{}
			set(d, above())
			push(d)
		case 'l', 't':
			push(&items{above()})
		case 0x85:
			push(&items{[]object{pop()}})
		case 0x86, 0x87:
			n := int(code) - 0x84
			x := &items{append([]object(nil), stack[len(stack)-n:]...)}
			stack = append(stack[:len(stack)-n], x)
		case 'a':
			x := pop()
			l := stack[len(stack)-1].(*items)
			l.list = append(l.list, x)
		case 'e':
			got := above()
			l := stack[len(stack)-1].(*items)
			l.list = append(l.list, got...)
		case 's':
			v, k := pop(), pop()
			stack[len(stack)-1].(map[string]object)[k.(string)] = v
		case 'u':
			got := above()
			set(stack[len(stack)-1].(map[string]object), got)
		case 'X':
			push(text(int(u32())))
		case 0x8c:
			push(text(int(next(1)[0])))
		case 'K':
			push(int64(next(1)[0]))
		case 'M':
			push(int64(binary.LittleEndian.Uint16(next(2))))
		case 'J':
			push(int64(int32(u32())))
		case 0x8a:
			b := next(int(next(1)[0]))
			if len(b) > 8 {
				panic("a number of more than 64 bits")
			}
			var n int64
			for i, x := range b {
				n |= int64(x) << (8 * i)
			}
			if len(b) > 0 && len(b) < 8 && b[len(b)-1] >= 128 {
				n |= -1 << (8 * len(b))
			}
			push(n)
		case 'G':
			push(math.Float64frombits(binary.BigEndian.Uint64(next(8))))
		case 0x88:
			push(true)
		case 0x89:
			push(false)
		case 'N':
			push(nil)
		case 0x94:
			memo[memoized] = stack[len(stack)-1]
			memoized++
		case 'q':
			memo[uint32(next(1)[0])] = stack[len(stack)-1]
		case 'r':
			memo[u32()] = stack[len(stack)-1]
		case 'h', 'j':
			at := uint32(0)
			if code == 'h' {
				at = uint32(next(1)[0])
			} else {
				at = u32()
			}
			x, ok := memo[at]
			if !ok {
				panic("nothing was kept under the number")
			}
			push(x)
		case '.':
			if len(stack) != 1 || len(marks) > 0 || len(data) > 0 {
				panic("something is left over")
			}
			return pop(), nil
		default:
			panic(fmt.Sprintf("opcode %#x", code))
		}
	}
}
