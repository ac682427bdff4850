package hlo

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ReadText reads a module from its text. The error says the line.
func ReadText(data []byte) (*Module, error) {
	p := &parser{scanner: scanner{data: data}, m: &Module{Partitions: 1, Replicas: 1, Entry: -1},
		computations: map[string]int32{}}
	err := p.module()
	if err == nil {
		if err = p.link(); err == nil {
			err = p.m.verify()
		}
		if err != nil {
			return nil, err
		}
		return p.m, nil
	}
	return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(p.pos, len(data))], []byte{'\n'}), err)
}

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

// parser reads a module.
type parser struct {
	scanner
	m            *Module
	computations map[string]int32
	calls        []call
	frames       frames
	entry        bool // a computation says ENTRY
}

// call is a computation that an instruction names.
type call struct {
	from, at int32
	place    int
	name     string
}

// frames are the tables of a module that say where instructions come from; all numbers begin with 1.
type frames struct {
	files     map[int64]string
	locations map[int64][2]int64 // file and line
	frames    map[int64]int64    // location
}

// source is the file and line of a frame.
func (f *frames) source(id int64) (string, int64) {
	at, ok := f.locations[f.frames[id]]
	if !ok {
		return "", 0
	}
	return f.files[at[0]], at[1]
}

func (p *parser) module() error {
	if err := p.want("HloModule"); err != nil {
		return fmt.Errorf("is no HLO text: %w", err)
	}
	var err error
	if p.m.Name, err = p.name(); err != nil {
		return err
	}
	for p.accept(",") {
		key, err := p.name()
		if err != nil {
			return err
		}
		if err := p.want("="); err != nil {
			return err
		}
		text, err := p.value()
		if err != nil {
			return err
		}
		if err := p.attribute(key, text); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	p.frames = frames{map[int64]string{}, map[int64][2]int64{}, map[int64]int64{}}
	for p.peek() != 0 {
		if ok, err := p.table(); ok || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := p.computation(); err != nil {
			return err
		}
	}
	if !p.entry && len(p.m.Computations) == 1 {
		p.m.Entry = 0
	}
	return nil
}

// attribute reads an attribute of the module.
func (p *parser) attribute(key, text string) error {
	s := &scanner{data: []byte(text)}
	var err error
	switch key {
	case "is_scheduled":
		p.m.Scheduled = text == "true"
	case "num_partitions":
		p.m.Partitions, err = s.number()
	case "replica_count":
		p.m.Replicas, err = s.number()
	case "input_output_alias":
		p.m.Aliases, err = s.aliases()
	}
	return err
}

// aliases reads { {0}: (0, {}, may-alias), {1}: (3, {1}, must-alias) }.
func (s *scanner) aliases() (out []Alias, err error) {
	if err := s.want("{"); err != nil {
		return nil, err
	}
	for !s.accept("}") {
		if len(out) > 0 {
			if err := s.want(","); err != nil {
				return nil, err
			}
		}
		var a Alias
		if a.Output, err = s.index(); err != nil {
			return nil, err
		}
		if err := s.want(":"); err != nil {
			return nil, err
		}
		if a.Parameter, a.Index, err = s.operandIndex(); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// operandIndex reads (3, {1}, may-alias) or (3, {1}).
func (s *scanner) operandIndex() (n int64, index []int64, err error) {
	if err := s.want("("); err != nil {
		return 0, nil, err
	}
	if n, err = s.number(); err != nil {
		return 0, nil, err
	}
	if err := s.want(","); err != nil {
		return 0, nil, err
	}
	if index, err = s.index(); err != nil {
		return 0, nil, err
	}
	if s.accept(",") {
		if _, err := s.name(); err != nil {
			return 0, nil, err
		}
	}
	return n, index, s.want(")")
}

// index reads {1, 0}.
func (s *scanner) index() (out []int64, err error) {
	if err := s.want("{"); err != nil {
		return nil, err
	}
	for !s.accept("}") {
		if len(out) > 0 {
			if err := s.want(","); err != nil {
				return nil, err
			}
		}
		n, err := s.number()
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// table reads a table of places in the source, if one is next.
func (p *parser) table() (bool, error) {
	title := p.word()
	switch title {
	case "FileNames", "FunctionNames", "FileLocations", "StackFrames":
	default:
		return false, nil
	}
	if _, err := p.name(); err != nil {
		return true, err
	}
	for c := p.peek(); '0' <= c && c <= '9'; c = p.peek() {
		id, err := p.number()
		if err != nil {
			return true, err
		}
		switch title {
		case "FileNames":
			if p.frames.files[id], err = p.quoted(); err != nil {
				return true, err
			}
			continue
		case "FileLocations":
			row := fields(p.line())
			p.frames.locations[id] = [2]int64{row["file_name_id"], row["line"]}
		case "StackFrames":
			p.frames.frames[id] = fields(p.line())["file_location_id"]
		default:
			p.line()
		}
	}
	return true, nil
}

// fields reads {a=1 b=2}; fields that are no numbers are left out.
func fields(text string) map[string]int64 {
	out := map[string]int64{}
	for word := range strings.FieldsSeq(strings.Trim(text, " \t\r{}")) {
		if key, value, ok := strings.Cut(word, "="); ok {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				out[key] = n
			}
		}
	}
	return out
}

// computation reads [ENTRY] %name (parameters) -> result { instructions }.
func (p *parser) computation() error {
	entry := p.word() == "ENTRY"
	if entry {
		p.accept("ENTRY")
		if p.entry {
			return fmt.Errorf("there are two ENTRY computations")
		}
		p.entry = true
	}
	name, err := p.name()
	if err != nil {
		return err
	}
	if _, ok := p.computations[name]; ok {
		return fmt.Errorf("there are two computations %q", name)
	}
	if p.peek() == '(' {
		if _, err := p.shapeList(); err != nil {
			return err
		}
		if err := p.want("->"); err != nil {
			return err
		}
		if _, err := p.shape(0); err != nil {
			return err
		}
	}
	if err := p.attributes(func(string, string) error { return nil }); err != nil {
		return err
	}
	if err := p.want("{"); err != nil {
		return err
	}
	c := &Computation{Name: name, Root: -1}
	b := &body{parser: p, c: c, at: map[string]int32{}}
	for !p.accept("}") {
		if err := b.instruction(); err != nil {
			return fmt.Errorf("computation %q: %w", name, err)
		}
	}
	if c.Root < 0 {
		c.Root = int32(len(c.Instructions) - 1)
	}
	place := int32(len(p.m.Computations))
	p.computations[name] = place
	p.m.Computations = append(p.m.Computations, c)
	if entry {
		p.m.Entry = place
	}
	return p.attributes(func(string, string) error { return nil })
}

// shapeList skips (name: shape, ...).
func (p *parser) shapeList() (string, error) {
	start := p.pos
	depth := 0
	for p.pos < len(p.data) {
		c := p.data[p.pos]
		p.pos++
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return string(p.data[start:p.pos]), nil
			}
		}
	}
	return "", fmt.Errorf("a bracket is not closed: wanted ')'")
}

// attributes reads ", key=value" as often as it comes.
func (p *parser) attributes(use func(key, text string) error) error {
	for p.accept(",") {
		key, err := p.name()
		if err != nil {
			return err
		}
		if err := p.want("="); err != nil {
			return err
		}
		text, err := p.value()
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if err := use(key, text); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

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

// metadata reads {op_type="..." op_name="..." source_file="..." source_line=1 stack_frame_id=5}.
func (b *body) metadata(in *Instruction, text string) error {
	s := &scanner{data: []byte(text)}
	if err := s.want("{"); err != nil {
		return err
	}
	for !s.accept("}") {
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

// link finds the computations that instructions name.
func (p *parser) link() error {
	for _, k := range p.calls {
		to, ok := p.computations[k.name]
		c := p.m.Computations[k.from]
		if !ok {
			return fmt.Errorf("computation %q: instruction %q calls %q, which is not there", c.Name,
				c.Instructions[k.at].Name, k.name)
		}
		c.Instructions[k.at].Called[k.place] = to
	}
	return nil
}
