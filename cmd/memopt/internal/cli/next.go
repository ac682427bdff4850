package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/view/report"
)

// NextCommand is a command that an answer suggests: a verb with those flags of the present command that the verb has
// too, and with some of its own.
type NextCommand struct {
	Verb string
	Args []string // models and files
	// dims bind symbols in place of the present bindings; free are symbols that are bound no longer.
	Dims map[string]int64
	Free []string
	Set  [][2]string  // flags with their values, in place of the present ones
	Drop []string     // present flags that are left out
	Bare bool         // no present flags, but bindings: the command is about another file
	made *report.Step // the step of the present answer; nil without one
}

// ofAnswer are flags about the answer itself, which have no meaning for the next one.
var ofAnswer = []string{"output", "quiet", "verbose", "wide", "color", "help", "top", "by", "text", "details",
	"no-chart", "plot", "save-config", "save-plan", "format", "pareto", "dry-run", "check", "profile", "phases",
	"save-outputs", "vary", "max-overhead", "run", "baseline", "module-map", "dim", "loss-scale", "external-data"}

// OfSelection are the flags that select recomputed values.
var OfSelection = []string{"level", "config", "probe", "plan", "budget", "budget-for", "budget-in", "gpu", "reserve",
	"select", "solver", "effort", "time-limit", "require-optimal", "chunk", "keep", "recompute", "link", "host-budget"}

// Next writes the command to type after an answer as the last line of a table, whole: a line that is broken cannot be
// pasted. nil: there is none. None is written either where the command would read a stream again, or where a name of
// the model could steer a terminal.
func (a *App) Next(format report.Format, n *NextCommand) error {
	if n == nil || format != report.TableFormat || a.Global.Quiet || a.Ctx.Err() != nil || a.Verb == nil ||
		slices.Contains(n.Args, StreamName) {
		return nil
	}
	text := "memopt " + n.Verb
	for _, word := range n.words(a) {
		text += " " + shellWord(word)
	}
	if report.Plain(text) != text {
		return nil
	}
	gap := ""
	if a.Flush(); !a.Report.blank() {
		gap = "\n"
	}
	_, err := fmt.Fprintf(a.Out, "%snext: %s\n", gap, text)
	return err
}

// About names the step of the present answer.
func (n *NextCommand) About(step *report.Step) *NextCommand {
	if n != nil {
		n.made = step
	}
	return n
}

// words are the arguments and flags of the command.
func (n *NextCommand) words(a *App) (words []string) {
	for _, arg := range n.Args {
		if strings.HasPrefix(arg, "-") {
			arg = "./" + arg
		}
		words = append(words, arg)
	}
	if text := a.dimsWith(n.Dims, n.Free); text != "" {
		words = append(words, "--dim", text)
	}
	verb := a.Verb
	for _, c := range a.Verb.Root().Commands() {
		if c.Name() == n.Verb {
			verb = c
		}
	}
	verb.Flags().VisitAll(func(f *pflag.Flag) {
		if !n.Bare && !n.replaces(f.Name) && !slices.Contains(ofAnswer, f.Name) && (f.Name != "out" || verb == a.Verb) {
			words = append(words, a.carried(f, n.made)...)
		}
	})
	set := slices.Clone(n.Set)
	slices.SortStableFunc(set, func(x, y [2]string) int { // the file that is written comes last
		return cmp.Compare(strings.Index(x[0], "out"), strings.Index(y[0], "out"))
	})
	for _, f := range set {
		if f[1] == "" {
			words = append(words, "--"+f[0])
			continue
		}
		words = append(words, flagWords(f[0], f[1])...)
	}
	return words
}

// replaces reports whether the command sets or drops the present flag itself.
func (n *NextCommand) replaces(flag string) bool {
	return slices.Contains(n.Drop, flag) ||
		slices.ContainsFunc(n.Set, func(f [2]string) bool { return f[0] == flag })
}

// carried are the words of a flag of the suggested verb: of its value in the present command, where that was given or
// where it is another default. Verbs differ in the defaults of the two flags that say which step is made.
func (a *App) carried(to *pflag.Flag, made *report.Step) []string {
	from := a.Verb.Flags().Lookup(to.Name)
	step := slices.Contains([]string{"outputs", "optimizer"}, to.Name)
	switch {
	case step && made != nil && made.Made && (from == nil || from.Value.String() != to.DefValue):
		return stepWords(from, to)
	case from == nil || !from.Changed:
		return nil
	}
	return valueWords(from)
}

// stepWords are the words of --outputs or --optimizer where its default is another one.
func stepWords(from, to *pflag.Flag) []string {
	if from == nil || len(valueWords(from)) == 0 {
		if to.Name == "outputs" {
			return []string{"--outputs", "*"}
		}
		return []string{"--optimizer", NoOptimizer}
	}
	return valueWords(from)
}

// valueWords are the words of a flag with its value; an empty value has no words.
func valueWords(f *pflag.Flag) (words []string) {
	text := f.Value.String()
	many, isMany := f.Value.(pflag.SliceValue)
	switch {
	case f.Value.Type() == "stringSlice":
		text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	case isMany:
		for _, one := range many.GetSlice() {
			words = append(words, flagWords(f.Name, one)...)
		}
		return words
	case f.Value.Type() == "bool" && text == "true":
		return []string{"--" + f.Name}
	case f.NoOptDefVal != "":
		return []string{"--" + f.Name + "=" + text}
	}
	if text == "" {
		return nil
	}
	return flagWords(f.Name, text)
}

// flagWords are a flag and its value, as one word where the value could be taken for a flag.
func flagWords(name, value string) []string {
	if name == "out" {
		return []string{"-o", value}
	}
	if value == "" || strings.HasPrefix(value, "-") {
		return []string{"--" + name + "=" + value}
	}
	return []string{"--" + name, value}
}

// dimsWith is the value of --dim with the present bindings and more; free are symbols that it leaves out.
func (a *App) dimsWith(more map[string]int64, free []string) string {
	list, _ := ParseBindings(a.Global.Dims)
	var parts []string
	for _, b := range list {
		if _, again := more[b.Symbol]; again || slices.Contains(free, b.Symbol) {
			continue
		}
		parts = append(parts, a.givenText(&b))
	}
	names := make([]string, 0, len(more))
	for name := range more {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s=%d", name, more[name]))
	}
	return strings.Join(parts, ",")
}

// Examples are sizes for symbols of a model: the end of a range that --dim gives, else an example from the file.
func (a *App) Examples(m *memopt.Model, symbols []string) map[string]int64 {
	if len(symbols) == 0 {
		return nil
	}
	sizes, ranges := map[string]int64{}, a.Ranges()
	for name, size := range m.ExampleSizes(symbols) {
		sizes[name] = size.Value
		if r, ranged := ranges[name]; ranged {
			sizes[name] = r.Hi
		}
	}
	return sizes
}

// FileLike is a name for a file that is made of a model: its own with another ending, in this folder.
func FileLike(model, ending string) string {
	name := model[strings.LastIndexByte(model, ':')+1:]
	name = filepath.Base(name)
	return cmp.Or(strings.TrimSuffix(name, filepath.Ext(name)), "model") + ending
}

// Applied is the command that writes the file of the present selection.
func Applied(model string) *NextCommand {
	return &NextCommand{Verb: "apply", Args: []string{model}, Set: [][2]string{{"out", FileLike(model, ".opt.onnx")}}}
}

// Proved is the command that executes a model with the present selection, and compares.
func (a *App) Proved(model string, m *memopt.Model) *NextCommand {
	n := &NextCommand{Verb: "verify", Args: []string{model}, Dims: a.Examples(m, Unbound(m))}
	if a.Verb.Flags().Lookup("init") == nil {
		n.Set = append(n.Set, [2]string{"init", "random:1"})
	}
	return n
}

// Unbound are the symbols of a model that have no size.
func Unbound(m *memopt.Model) (symbols []string) {
	for _, s := range m.Symbols() {
		if _, bound := m.Dims[s]; !bound {
			symbols = append(symbols, s)
		}
	}
	return symbols
}

// NoOptimizer is the value of --optimizer for a step of gradients alone.
const NoOptimizer = "none"
