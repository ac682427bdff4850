package diff

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"memopt/hint"
	"memopt/internal/nearmiss"
	"memopt/view/report"
)

// Condition is when a comparison is to fail: FIELD OPERATOR [SIGN] NUMBER [UNIT], such as
// "peak>+2%". With a sign it is about the change from a to b, without one about b.
type Condition struct {
	Text  string // as it was written
	Field string // a measure, or the path of a field

	operator string
	signed   bool
	number   *big.Rat // with its sign
	unit     string   // "%", "pp", "ms", "s", a size's, or ""
	bytes    bool     // the number is bytes, from a size
}

// grammar is the form of conditions, for messages.
const grammar = "wanted FIELD, one of > >= < <=, a sign if the change from A to B is meant, a number, and %, " +
	"pp, ms, s or a unit of bytes: 'peak>+2%', 'overhead>+1pp', 'peak>4GiB'"

// limitForm is the text behind the operator.
var limitForm = regexp.MustCompile(`^([+-]?)\s*(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]{0,3}|%)$`)

// ParseCondition reads a condition. Whether there is such a field is for [Result.Check] to say.
func ParseCondition(text string) (Condition, error) {
	c := Condition{Text: text}
	at := strings.LastIndexAny(text, "<>")
	if at < 0 {
		return c, fmt.Errorf("%q: has no operator; %s", text, grammar)
	}
	c.Field = strings.TrimSpace(text[:at])
	c.operator = text[at : at+1]
	rest := text[at+1:]
	if strings.HasPrefix(rest, "=") {
		c.operator, rest = c.operator+"=", rest[1:]
	}
	if strings.TrimRight(c.Field, "<>=") == "" || strings.HasSuffix(c.Field, "=") {
		return c, fmt.Errorf("%q: names no field; %s", text, grammar)
	}
	m := limitForm.FindStringSubmatch(strings.TrimSpace(rest))
	if m == nil {
		return c, fmt.Errorf("%q: cannot read %q; %s", text, strings.TrimSpace(rest), grammar)
	}
	c.signed, c.unit = m[1] != "", strings.ToLower(m[3])
	if err := c.scale(m[2]); err != nil {
		return c, fmt.Errorf("%q: %w; %s", text, err, grammar)
	}
	if m[1] == "-" {
		c.number.Neg(c.number)
	}
	return c, nil
}

// scale reads the number in the unit of the values that it is compared with.
func (c *Condition) scale(digits string) error {
	c.number, _ = new(big.Rat).SetString(digits)
	switch c.unit {
	case "", "ms":
	case "s":
		c.number.Mul(c.number, big.NewRat(1000, 1))
	case "%", "pp":
		c.number.Quo(c.number, big.NewRat(100, 1))
		if c.unit == "pp" && !c.signed {
			return fmt.Errorf("pp are points of a change: write a sign, as in +1pp")
		}
	default:
		n, err := report.ParseBytes(digits + c.unit)
		if err != nil {
			return err
		}
		c.number.SetInt64(n)
		c.bytes = true
	}
	return nil
}

// Failure is a condition that is met.
type Failure struct {
	Condition string
	Field     string
	Pair      Pair
	Why       string // "peak rises from 4.00 MiB to 5.00 MiB (+25.00 %)"
}

// Check adds the conditions that are met to Result.Failed, in their order. The error is about the
// first that cannot be checked: its field is not there, is no number, has no such unit, or is
// unknown on a side that counts.
func (r *Result) Check(conditions []Condition) error {
	for i := range conditions {
		c := &conditions[i]
		p, err := r.lookup(c)
		if err != nil {
			return fmt.Errorf("%q: %w", c.Text, err)
		}
		if c.met(p) {
			r.Failed = append(r.Failed, Failure{c.Text, c.Field, p, sentence(p)})
		}
	}
	return nil
}

// lookup finds the values of a condition's field, and checks that they are known.
func (r *Result) lookup(c *Condition) (Pair, error) {
	p, ok := r.pair(c.Field)
	if !ok {
		text := fmt.Sprintf("neither %s (%s) nor %s (%s) has a field %q", r.A.Name, r.A.Schema, r.B.Name, r.B.Schema,
			c.Field)
		if near := nearmiss.Find(c.Field, r.names()); near != "" {
			text += fmt.Sprintf(" (did you mean %q?)", near)
		}
		var list []string
		for _, p := range r.Measures {
			list = append(list, p.Name)
		}
		return p, fmt.Errorf("%s; there are %s, and the paths of their JSON", text, strings.Join(list, ", "))
	}
	for _, side := range []struct {
		of     *Subject
		v      Value
		counts bool
	}{{r.A, p.A, c.signed}, {r.B, p.B, true}} {
		switch {
		case side.counts && !side.v.Known:
			return p, fmt.Errorf("%s of %s is unknown, so the condition cannot be checked: bind all symbols with "+
				"%v, or compare reports that have it", c.Field, side.of.Name, hint.Dims)
		case side.counts && side.v.Number == nil:
			return p, fmt.Errorf("%s of %s is %.80q and no number", c.Field, side.of.Name, side.v.Text)
		}
	}
	return p, c.fits(p.Unit)
}

// pair is a measure or a field.
func (r *Result) pair(name string) (Pair, bool) {
	for _, p := range r.Measures {
		if p.Name == name {
			return p, true
		}
	}
	for _, m := range measures {
		if m.Name == name && (r.A.mayHave(name) || r.B.mayHave(name)) {
			return Pair{Name: name, Unit: m.Unit}, true
		}
	}
	a, inA := r.A.field(name)
	b, inB := r.B.field(name)
	return Pair{name, unitOf(name), a, b}, inA || inB
}

// names lists the fields for conditions.
func (r *Result) names() []string {
	var names []string
	for _, p := range r.Measures {
		names = append(names, p.Name)
	}
	for _, s := range []*Subject{r.A, r.B} {
		for _, f := range s.fields {
			if f.value.Number != nil {
				names = append(names, f.path)
			}
		}
	}
	return names
}

// fits wants the condition's unit to be one of the field's.
func (c *Condition) fits(u Unit) error {
	ok, want := false, ""
	switch u {
	case Bytes:
		ok, want = c.bytes || c.unit == "" || c.unit == "%" && c.signed, "a size, or +N% of its change"
	case Millis:
		ok, want = c.unit == "ms" || c.unit == "s" || c.unit == "%" && c.signed, "ms or s, or +N% of its change"
	case Share:
		ok, want = c.unit == "%" || c.unit == "pp" || c.unit == "", "% for its value, +Npp for its change"
	default:
		ok, want = c.unit == "" || c.unit == "%" && c.signed, "a plain number, or +N% of its change"
	}
	if ok {
		return nil
	}
	is := map[Unit]string{Bytes: "in bytes", Millis: "in milliseconds", Share: "a share", NoUnit: "a plain number"}[u]
	return fmt.Errorf("%s is %s: wanted %s", c.Field, is, want)
}

// met evaluates the condition.
func (c *Condition) met(p Pair) bool {
	x := p.B.Number
	if c.signed {
		x = new(big.Rat).Sub(p.B.Number, p.A.Number)
		if c.unit == "%" {
			if p.A.Number.Sign() == 0 {
				return c.fromZero(x.Sign())
			}
			x.Quo(x, new(big.Rat).Abs(p.A.Number))
		}
	}
	return c.holds(x.Cmp(c.number))
}

// fromZero is the condition on a relative change from 0, which exceeds every bound unless the new
// value is 0, too.
func (c *Condition) fromZero(sign int) bool {
	if sign == 0 {
		return c.holds(-c.number.Sign())
	}
	return c.holds(sign)
}

// holds applies the operator to how the value compares with the number.
func (c *Condition) holds(order int) bool {
	switch c.operator {
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	case "<":
		return order < 0
	}
	return order <= 0
}
