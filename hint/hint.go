// Package hint has the advice that errors, warnings and reports give about options, as values. The
// library shows an option by the name of its field ("Dims seq=256"), and a program shows the same
// advice in its own words, as cmd/memopt does in flags ("--dim seq=256").
package hint

import "strings"

// Words is the text of a piece of advice in the language of the program, for example "--dim seq=256". nil
// stands for the library's words. A program sets it once, in an init function, before any text is made.
var Words func(Use) string

// Use is the advice to set an option.
type Use struct {
	Option Option
	Value  string // for example "seq=256"; "" names the option without a value
}

// With is the advice to give an option a value.
func (o Option) With(value string) Use { return Use{o, value} }

// String is the option in the program's words: "Dims" in the library, for example.
func (o Option) String() string { return o.With("").String() }

// String is the advice in the program's words: "Dims seq=256" in the library, for example.
func (u Use) String() string {
	if Words != nil {
		return Words(u)
	}
	return strings.TrimSpace(names[u.Option] + " " + u.Value)
}
