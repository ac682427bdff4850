package symbolic

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of Parse.
const (
	// MaxText bounds the bytes of a text.
	MaxText = 1 << 20
	// maxNesting bounds how deep parentheses, signs and powers nest. An expression within MaxDepth
	// prints with at most three levels per atom.
	maxNesting = 8 * MaxDepth
	// maxWork bounds the terms that all operations of a text make together, those included that a
	// multiplication merges. It is a second or less of computing.
	maxWork = 1 << 20
	// powWork is about how many terms a power makes for each one of its result.
	powWork = 16
)

// ParseError says where a text is not an expression.
type ParseError struct {
	Text   string
	Offset int // in bytes, from 0
	Msg    string
	Err    error // the failure of an operation, such as ErrOverflow, or nil
}

// Error shows the text around the fault.
func (e *ParseError) Error() string {
	return fmt.Sprintf("expression %q: at byte %d: %s", abbreviate(e.Text, 200), e.Offset, e.Msg)
}

// Unwrap returns the failure of the operation.
func (e *ParseError) Unwrap() error { return e.Err }

// Parse reads the texts of [Expr.String], and other spellings: + - * ** // % and /, parentheses,
// integers, names, `any text` as a name (a backquote in it doubled), ? as unknown, floor(a),
// ceiling(a), Mod(a, b), Min(a, b, ...), Max(a, b, ...). Signs and operators bind as in Python. A
// quotient by / may have a fraction only inside floor and ceiling. Errors are *[ParseError].
func Parse(text string) (e Expr, err error) {
	p := &parser{text: text}
	defer func() {
		if f := recover(); f != nil {
			fault, ok := f.(*ParseError)
			if !ok {
				panic(f)
			}
			e, err = Expr{}, fault
		}
	}()
	if len(text) > MaxText {
		p.fail(MaxText, nil, "text has %d bytes, wanted at most %d", len(text), MaxText)
	}
	p.next()
	v := p.whole(p.sum())
	if p.tok != tokEnd {
		p.fail(p.start, nil, "want an operator or the end, got %s", p.describe())
	}
	return v, nil
}

// MustParse is Parse for texts that are known to be valid, as in tables; it panics otherwise.
func MustParse(text string) Expr {
	e, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return e
}

// parser reads a text by recursive descent and computes as it goes. A fault unwinds it as a
// panic with a *ParseError, which Parse turns into an error.
type parser struct {
	text  string
	pos   int // behind the current token
	start int // of the current token
	tok   token
	lit   string // text of the current token, unquoted
	depth int
	work  int
}

// value is a quotient; den is never constant but positive, and 1 for whole values.
type value struct {
	num, den Expr
	at       int // where it starts in the text
}

func (p *parser) fail(at int, err error, format string, args ...any) {
	panic(&ParseError{p.text, at, fmt.Sprintf(format, args...), err})
}

func (p *parser) describe() string {
	if p.tok == tokEnd {
		return "the end"
	}
	return strconv.Quote(abbreviate(p.lit, 40))
}

// check fails if e did, and counts its terms as work.
func (p *parser) check(e Expr, at int) Expr {
	if err := e.Err(); err != nil {
		p.fail(at, err, "%v", err)
	}
	p.spend(e.termCount(), at)
	return e
}

// spend counts work and fails if there is too much.
func (p *parser) spend(work, at int) {
	if p.work += work; p.work > maxWork {
		p.fail(at, ErrTooLarge, "%v", ErrTooLarge)
	}
}

// mul returns a * b.
func (p *parser) mul(a, b Expr, at int) Expr {
	p.spend(a.termCount()*b.termCount(), at)
	return p.check(a.Mul(b), at)
}

func (p *parser) is(op string) bool { return p.tok == tokOp && p.lit == op }

func (p *parser) accept(op string) bool {
	if !p.is(op) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(op string) {
	if !p.accept(op) {
		p.fail(p.start, nil, "want %q, got %s", op, p.describe())
	}
}

// enter counts a level of nesting; the caller leaves it.
func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.start, ErrTooLarge, "nested deeper than %d", maxNesting)
	}
}

func (p *parser) leave() { p.depth-- }

// whole returns a value that has no fraction.
func (p *parser) whole(v value) Expr {
	if v.den.IsConst(1) || !v.num.IsKnown() {
		return v.num
	}
	if !v.den.IsKnown() {
		return v.den
	}
	q, ok := v.num.ExactDiv(v.den)
	if !ok {
		p.fail(v.at, nil, "not an integer for all values of its symbols; write floor(a/b) or a//b")
	}
	return p.check(q, v.at)
}

// sum reads products with + and - between them. Whole ones are collected and added at once,
// so that a long sum takes linear time.
func (p *parser) sum() value {
	p.enter()
	defer p.leave()
	at := p.start
	first := p.product()
	if !p.is("+") && !p.is("-") {
		return first
	}
	var list []Expr
	total := value{Const(0), Const(1), at}
	add := func(v value) {
		if v.den.IsConst(1) {
			list = append(list, v.num)
			return
		}
		total = p.addFractions(total, v)
	}
	add(first)
	for p.is("+") || p.is("-") {
		minus := p.lit == "-"
		p.next()
		v, negated := p.operand(minus)
		if minus && !negated {
			v.num = p.check(v.num.Neg(), v.at)
		}
		add(v)
	}
	whole := value{p.check(Sum(list...), at), Const(1), at}
	if total.num.IsConst(0) {
		return whole
	}
	return p.addFractions(total, whole)
}

// operand reads the product behind a + or -. The absolute value of the most negative coefficient
// fits only together with its sign: then the product comes negated.
func (p *parser) operand(minus bool) (v value, negated bool) {
	if !minus || !p.atMinMagnitude() {
		return p.product(), false
	}
	at := p.start
	p.next()
	v = p.integer(Const(minInt64), at)
	for p.accept("*") {
		w := p.signed()
		v = p.fraction(p.mul(v.num, w.num, at), p.mul(v.den, w.den, at), at)
	}
	if p.is("/") || p.is("//") || p.is("%") || p.is("**") {
		p.fail(at, ErrOverflow, "the number does not fit 64 bits")
	}
	return v, true
}

// atMinMagnitude reports whether the current token is 1<<63.
func (p *parser) atMinMagnitude() bool {
	return p.tok == tokInt && strings.TrimLeft(p.lit, "0") == "9223372036854775808"
}

// addFractions returns v + w over a common denominator.
func (p *parser) addFractions(v, w value) value {
	if v.den.Identical(w.den) {
		v.num = p.check(v.num.Add(w.num), v.at)
		return v
	}
	vNum, wNum, den := w.den, v.den, Const(1)
	if a, ok := v.den.Const(); ok {
		if b, ok := w.den.Const(); ok { // by the least common multiple
			g := int64(GCD(magnitude(a), magnitude(b)))
			vNum, wNum, den = Const(b/g), Const(a/g), Const(g)
		}
	}
	num := p.mul(v.num, vNum, v.at).Add(p.mul(w.num, wNum, v.at))
	return value{p.check(num, v.at), p.mul(p.mul(vNum, wNum, v.at), den, v.at), v.at}
}

// product reads signed powers with * / // % between them.
func (p *parser) product() value {
	v := p.signed()
	for {
		switch {
		case p.accept("*"):
			w := p.signed()
			v = p.fraction(p.mul(v.num, w.num, v.at), p.mul(v.den, w.den, v.at), v.at)
		case p.accept("/"):
			w := p.signed()
			v = p.fraction(p.mul(v.num, w.den, v.at), p.mul(v.den, w.num, v.at), v.at)
		case p.accept("//"):
			w := p.signed()
			v = p.integer(p.mul(v.num, w.den, v.at).FloorDiv(p.mul(v.den, w.num, v.at)), v.at)
		case p.accept("%"):
			w := p.signed()
			v = p.integer(p.whole(v).Mod(p.whole(w)), v.at)
		default:
			return v
		}
	}
}

func (p *parser) integer(e Expr, at int) value { return value{p.check(e, at), Const(1), at} }

// fraction returns num/den with a positive constant denominator, if constant.
func (p *parser) fraction(num, den Expr, at int) value {
	if den.IsConst(0) {
		p.fail(at, ErrDivisionByZero, "%v", ErrDivisionByZero)
	}
	if k, ok := den.Const(); ok && k < 0 {
		num, den = num.Neg(), den.Neg()
	}
	return value{p.check(num, at), p.check(den, at), at}
}

// signed reads a power with signs in front. As in Python, -a**2 is -(a**2), and the most
// negative integer is a sign and a number that does not fit alone.
func (p *parser) signed() value {
	at := p.start
	switch {
	case p.accept("+"):
		p.enter()
		defer p.leave()
		return p.signed()
	case p.accept("-"):
		p.enter()
		defer p.leave()
		if p.atMinMagnitude() {
			p.next()
			return p.integer(Const(minInt64), at)
		}
		v := p.signed()
		return value{p.check(v.num.Neg(), at), v.den, at}
	}
	return p.power()
}

// power reads a primary with an optional exponent, a constant that is not negative.
func (p *parser) power() value {
	v := p.primary()
	if !p.is("**") {
		return v
	}
	p.enter()
	defer p.leave()
	p.next()
	at := p.start
	n, ok := p.whole(p.signed()).Const()
	if !ok || n < 0 {
		p.fail(at, nil, "an exponent must be a constant that is not negative")
	}
	v = p.fraction(v.num.Pow(uint(n)), v.den.Pow(uint(n)), v.at)
	p.spend(powWork*(v.num.termCount()+v.den.termCount()), v.at)
	return v
}

// primary reads a number, name, call or parenthesis.
func (p *parser) primary() value {
	at, lit := p.start, p.lit
	switch {
	case p.tok == tokInt:
		n, err := strconv.ParseInt(lit, 10, 64)
		if err != nil {
			p.fail(at, ErrOverflow, "%s does not fit 64 bits", abbreviate(lit, 40))
		}
		p.next()
		return p.integer(Const(n), at)
	case p.tok == tokQuoted:
		p.next()
		return p.integer(Sym(lit), at)
	case p.tok == tokName:
		p.next()
		if p.is("(") {
			return p.call(lit, at)
		}
		return p.integer(Sym(lit), at)
	case p.accept("?"):
		return p.integer(Unknown(), at)
	case p.accept("("):
		v := p.sum()
		p.expect(")")
		v.at = at
		return v
	}
	p.fail(at, nil, "want a number, a name or a parenthesis, got %s", p.describe())
	return value{}
}

// call reads the arguments of a function.
func (p *parser) call(name string, at int) value {
	p.expect("(")
	args := []value{p.sum()}
	for p.accept(",") {
		args = append(args, p.sum())
	}
	p.expect(")")
	arity := func(want int) {
		if len(args) != want {
			p.fail(at, nil, "%s takes %d argument(s), got %d", name, want, len(args))
		}
	}
	switch name {
	case "floor":
		arity(1)
		return p.integer(args[0].num.FloorDiv(args[0].den), at)
	case "ceiling":
		arity(1)
		return p.integer(args[0].num.CeilDiv(args[0].den), at)
	case "Mod":
		arity(2)
		return p.integer(p.whole(args[0]).Mod(p.whole(args[1])), at)
	case "Min", "Max":
		return p.integer(p.extremum(name, args), at)
	}
	p.fail(at, nil, "unknown function %q; known are floor, ceiling, Mod, Min and Max", name)
	return value{}
}

func (p *parser) extremum(name string, args []value) Expr {
	list := make([]Expr, len(args))
	for i, v := range args {
		list[i] = p.whole(v)
		p.spend(len(args)*list[i].termCount(), v.at) // operands are compared pairwise
	}
	if len(list) == 1 {
		return list[0]
	}
	if name == "Min" {
		return Min(list[0], list[1], list[2:]...)
	}
	return Max(list[0], list[1], list[2:]...)
}
