package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"memopt"
	"memopt/hint"
	"memopt/internal/fileio"
	"memopt/internal/library"
	"memopt/view/report"
)

// app is one run of the program.
type app struct {
	stdio
	environ environment
	args    []string
	global  globalFlags
	ctx     context.Context // done when a signal asks for the end
	keeper  *keeper
	files   *fileio.Ledger
	columns int            // of the screen that the report goes to; 0: no limit
	chart   int            // columns of that screen if it is a terminal, else 0
	model   *memopt.Model  // that was read last, for the hint of an error; nil before
	verb    *cobra.Command // that runs; nil before
	report  *reportWriter  // where the report goes
	flush   func() error   // writes the report out
	status  *statusLine    // nil: there is no terminal to show it on
	clock
}

// env looks up a variable.
func (a *app) env(name string) (string, bool) {
	text, ok := a.environ[name]
	return text, ok
}

// globalFlags are the flags of every verb.
type globalFlags struct {
	output  string
	dims    []string
	color   string
	quiet   bool
	verbose bool
	wide    bool
	strict  bool
	seed    int64
	threads int
}

// helpWidth is the most columns that the list of a verb's flags takes, those of a terminal of
// default size; wideHelp that in a wider one.
const (
	helpWidth = 80
	wideHelp  = 140
)

func (a *app) checkColor() error {
	switch a.global.color {
	case "auto", "always", "never":
		return nil
	}
	return usage("--color %q: wanted auto, always or never", a.global.color)
}

// warn prints a warning to the error stream unless -q is given.
func (a *app) warn(format string, args ...any) {
	if !a.global.quiet {
		a.say(a.paint("33", "warning:"), hint.Style(flags).Sprintf(format, args...))
	}
}

// note prints useful information to the error stream unless -q is given.
func (a *app) note(format string, args ...any) {
	if !a.global.quiet {
		a.say("note:", hint.Style(flags).Sprintf(format, args...))
	}
}

// tellLibraries lists the C libraries that were opened, with -v, and always warns about those that
// another user could have put there.
func (a *app) tellLibraries() {
	for _, l := range library.List() {
		if l.Doubt != "" {
			a.warn("%s was opened from %s: %s, so anything put there runs with this program's "+
				"rights", l.Name, l.Path, l.Doubt)
		} else if a.global.verbose {
			a.note("%s was opened from %s", l.Name, l.Path)
		}
	}
}

func (a *app) complain(err error) {
	a.say(a.paint("31", "memopt:"), hint.Style(flags).Error(err))
}

// say prints one line to the error stream. Text from a model can neither add lines nor control the
// terminal.
func (a *app) say(who, text string) {
	a.status.clear()
	fmt.Fprintf(a.err, "%s %s\n", who, report.Message(text, a.global.verbose))
}

// paint colors text for a terminal.
func (a *app) paint(code, text string) string {
	on := a.global.color == "always"
	if a.global.color == "auto" {
		_, no := a.env("NO_COLOR")
		f, ok := a.err.(*os.File)
		on = ok && !no && term.IsTerminal(int(f.Fd()))
	}
	if !on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// stdio is where a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// exactModel wants one argument, the model.
func exactModel(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("%s wants one MODEL (a path, - or example:NAME), got %d arguments", cmd.CommandPath(), len(args))
	}
	return nil
}

// listLimit is how many stashed activations or outputs a table lists.
func (a *app) listLimit() int {
	if a.global.verbose {
		return -1
	}
	return 10
}
