package hlo

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// scanner reads tokens of the text.
type scanner struct {
	data []byte
	pos  int
}

// space skips blanks, line ends and comments.
func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			s.pos++
		case c == '/' && bytes.HasPrefix(s.data[s.pos:], []byte("/*")):
			end := bytes.Index(s.data[s.pos+2:], []byte("*/"))
			if end < 0 {
				s.pos = len(s.data)
				return
			}
			s.pos += end + 4
		case c == '/' && bytes.HasPrefix(s.data[s.pos:], []byte("//")):
			s.line()
		default:
			return
		}
	}
}

// line is the rest of the line, without its end.
func (s *scanner) line() string {
	rest := s.data[s.pos:]
	end := bytes.IndexByte(rest, '\n')
	if end < 0 {
		s.pos = len(s.data)
		return string(rest)
	}
	s.pos += end + 1
	return string(rest[:end])
}

func (s *scanner) peek() byte {
	s.space()
	if s.pos == len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

// accept skips a token if it is next.
func (s *scanner) accept(token string) bool {
	s.space()
	if !bytes.HasPrefix(s.data[s.pos:], []byte(token)) {
		return false
	}
	s.pos += len(token)
	return true
}

func (s *scanner) want(token string) error {
	if s.accept(token) {
		return nil
	}
	return fmt.Errorf("found %s, wanted %q", s.found(), token)
}

// found is the next text, for errors.
func (s *scanner) found() string {
	if s.peek() == 0 && s.pos == len(s.data) {
		return "the end of the file"
	}
	return strconv.Quote(string(s.data[s.pos:min(s.pos+12, len(s.data))]))
}

// isName reports whether names have a byte.
func isName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '-' ||
		c == ':' || c >= 0x80
}

// name is an identifier, with % before it or without.
func (s *scanner) name() (string, error) {
	s.accept("%")
	s.space()
	start := s.pos
	for s.pos < len(s.data) && isName(s.data[s.pos]) {
		if bytes.HasPrefix(s.data[s.pos:], []byte("->")) {
			break
		}
		s.pos++
	}
	if s.pos == start {
		return "", fmt.Errorf("found %s, wanted a name", s.found())
	}
	return string(s.data[start:s.pos]), nil
}

// word is a name that is next, or "", without moving on.
func (s *scanner) word() string {
	s.space()
	at := s.pos
	defer func() { s.pos = at }()
	w, err := s.name()
	if err != nil {
		return ""
	}
	return w
}

func (s *scanner) number() (int64, error) {
	s.space()
	start := s.pos
	if s.pos < len(s.data) && s.data[s.pos] == '-' {
		s.pos++
	}
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	n, err := strconv.ParseInt(string(s.data[start:s.pos]), 10, 64)
	if err != nil {
		s.pos = start
		return 0, fmt.Errorf("found %s, wanted a number", s.found())
	}
	return n, nil
}

// quoted reads a string in double quotes, with C's escapes.
func (s *scanner) quoted() (string, error) {
	if err := s.want(`"`); err != nil {
		return "", err
	}
	var b strings.Builder
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		s.pos++
		switch {
		case c == '"':
			return b.String(), nil
		case c == '\\' && s.pos < len(s.data):
			b.WriteByte(unescape(s.data[s.pos]))
			s.pos++
		default:
			b.WriteByte(c)
		}
	}
	return "", fmt.Errorf("a string has no end")
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	}
	return c
}

// closing has the end of each bracket.
var closing = map[byte]byte{'{': '}', '(': ')', '[': ']'}

// maxNesting bounds brackets in brackets, and tuples in tuples.
const maxNesting = 100

// value skips the value of an attribute, up to a comma or the end of the line outside brackets, and returns its text.
func (s *scanner) value() (string, error) {
	s.space()
	start := s.pos
	var open []byte
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case '"':
			if _, err := s.quoted(); err != nil {
				return "", err
			}
			continue
		case '{', '(', '[':
			if len(open) == maxNesting {
				return "", fmt.Errorf("brackets nest deeper than %d", maxNesting)
			}
			open = append(open, closing[c])
		case '}', ')', ']':
			if len(open) == 0 {
				return string(s.data[start:s.pos]), nil
			}
			if open[len(open)-1] != c {
				return "", fmt.Errorf("found %q, wanted %q", c, open[len(open)-1])
			}
			open = open[:len(open)-1]
		case ',', '\n':
			if len(open) == 0 {
				return string(s.data[start:s.pos]), nil
			}
		}
		s.pos++
	}
	if len(open) > 0 {
		return "", fmt.Errorf("a bracket is not closed: wanted %q", open[len(open)-1])
	}
	return string(s.data[start:s.pos]), nil
}

// shape reads a shape: f32[8,<=256]{1,0:T(8,128)E(4)S(5)}, (f32[], s32[4]), token[].
func (s *scanner) shape(depth int) (Shape, error) {
	if depth > maxNesting {
		return Shape{}, fmt.Errorf("tuples nest deeper than %d", maxNesting)
	}
	if s.accept("(") {
		out := Shape{Type: "tuple"}
		for !s.accept(")") {
			if len(out.Tuple) > 0 {
				if err := s.want(","); err != nil {
					return Shape{}, err
				}
			}
			e, err := s.shape(depth + 1)
			if err != nil {
				return Shape{}, err
			}
			out.Tuple = append(out.Tuple, e)
		}
		return out, nil
	}
	name, err := s.name()
	if err != nil {
		return Shape{}, err
	}
	out := Shape{Type: name}
	if err := s.want("["); err != nil {
		return Shape{}, err
	}
	if err := s.dims(&out); err != nil {
		return Shape{}, err
	}
	if _, ok := bits[out.Type]; !ok {
		return Shape{}, fmt.Errorf("type %q is unknown", out.Type)
	}
	if s.pos < len(s.data) && s.data[s.pos] == '{' {
		err = s.layout(&out)
	}
	return out, err
}

// dims reads the dims behind "[".
func (s *scanner) dims(out *Shape) error {
	for !s.accept("]") {
		if len(out.Dims) > 0 {
			if err := s.want(","); err != nil {
				return err
			}
		}
		unbounded := false
		if s.accept("<=") {
			if out.Dynamic == nil {
				out.Dynamic = make([]bool, len(out.Dims))
			}
			out.Dynamic = append(out.Dynamic, true)
		} else if unbounded = s.accept("?"); unbounded {
			return fmt.Errorf("a dim without a bound (?) has no size: compile for known sizes")
		} else if out.Dynamic != nil {
			out.Dynamic = append(out.Dynamic, false)
		}
		d, err := s.number()
		if err != nil {
			return err
		}
		if d < 0 {
			return fmt.Errorf("a dim is %d", d)
		}
		out.Dims = append(out.Dims, d)
	}
	return nil
}

// layout reads {1,0:T(8,128)(2,1)E(4)S(5)}.
func (s *scanner) layout(out *Shape) error {
	start := s.pos
	if err := s.skip(); err != nil {
		return err
	}
	text := string(s.data[start:s.pos])
	l := &scanner{data: s.data[start:s.pos]}
	l.accept("{")
	for c := l.peek(); '0' <= c && c <= '9'; c = l.peek() {
		d, err := l.number()
		if err != nil {
			return err
		}
		out.Layout = append(out.Layout, d)
		l.accept(",")
	}
	if len(out.Layout) != len(out.Dims) && len(out.Layout) > 0 {
		return fmt.Errorf("layout %s is not of %d dims", text, len(out.Dims))
	}
	if i := strings.Index(text, "E("); i >= 0 {
		out.Bits = leading(text[i+2:])
	}
	if i := strings.Index(text, "S("); i >= 0 {
		out.Space = leading(text[i+2:])
	}
	return nil
}

// leading is the number that a text begins with; 0 without one, and beyond three digits.
func leading(text string) int64 {
	end := 0
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	if end > 3 {
		return 0
	}
	n, _ := strconv.ParseInt(text[:end], 10, 64)
	return n
}

// skip skips a string, brackets, or the text up to a blank.
func (s *scanner) skip() error {
	switch c := s.peek(); c {
	case '"':
		_, err := s.quoted()
		return err
	case '{', '[', '(':
		depth := 0
		for s.pos < len(s.data) {
			switch s.data[s.pos] {
			case '"':
				if _, err := s.quoted(); err != nil {
					return err
				}
				continue
			case '{', '[', '(':
				depth++
			case '}', ']', ')':
				depth--
			}
			s.pos++
			if depth == 0 {
				return nil
			}
		}
		return fmt.Errorf("a bracket is not closed: wanted %q", closing[c])
	}
	for s.pos < len(s.data) && s.data[s.pos] != ' ' && s.data[s.pos] != '}' {
		s.pos++
	}
	return nil
}
