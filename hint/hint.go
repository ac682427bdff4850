// Package hint has the advice that errors, warnings and reports give about options, as values. The
// library shows an option by the name of its field ("Dims seq=256"), and a program shows the same
// advice in its own words, as cmd/memopt does in flags ("--dim seq=256").
package hint

import "strings"

// Use is the advice to set an option.
type Use struct {
	Option Option
	Value  string // for example "seq=256"; "" names the option without a value
}

// With is the advice to give an option a value.
func (o Option) With(value string) Use { return Use{o, value} }

// String is the advice in the library's words, for example "Dims seq=256".
func (u Use) String() string { return strings.TrimSpace(u.Option.String() + " " + u.Value) }

// Style words advice for the readers of a program. nil uses the library's words.
type Style func(Use) string

// Use returns one piece of advice.
func (s Style) Use(u Use) string {
	if s == nil {
		return u.String()
	}
	return s(u)
}
