// Package cli has the parts that all verbs of the command share: the run of the program (App) with its streams,
// messages, files, time limit and status line; exit codes; the commands that answers suggest; and values of flags. It
// knows no verb.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"memopt"
	"memopt/internal/fileio"
	"memopt/internal/library"
	"memopt/planner"
	"memopt/view/report"
)

// App is one run of the program.
type App struct {
	Stdio
	Environ Environment
	Args    []string
	Global  globalFlags
	Ctx     context.Context // done when a signal asks for the end
	Keeper  *Keeper
	Files   *fileio.Ledger
	Columns int             // of the screen that the report goes to; 0: no limit
	Chart   int             // columns of that screen if it is a terminal, else 0
	Model   *memopt.Model   // that was read last, for the hint of an error; nil before
	Verb    *cobra.Command  // that runs; nil before
	ByInput map[string]bool // bindings of --dim that stand for dims of inputs, by their texts
	// Histograms are by symbol the files of sizes that --dim names.
	Histograms map[string]*planner.Histogram
	// Folder is the plans of a folder that --plan names, for train where batches have different sizes.
	Folder []FolderPlan
	ofFile map[string]string // by the range that stands for a file of sizes in --dim: its binding
	Report *ReportWriter     // where the report goes
	Flush  func() error      // writes the report out
	Status *StatusLine       // nil: there is no terminal to show it on
	Clock
}

// Env looks up a variable.
func (a *App) Env(name string) (string, bool) {
	text, ok := a.Environ[name]
	return text, ok
}

// globalFlags are the flags of every verb.
type globalFlags struct {
	Output  string
	Dims    []string
	Color   string
	Quiet   bool
	Verbose bool
	Wide    bool
	Strict  bool
	Seed    int64
	Threads int
}

// HelpWidth is the most columns that the list of a verb's flags takes, those of a terminal of
// default size; wideHelp that in a wider one.
const (
	HelpWidth = 80
	WideHelp  = 140
)

// CheckColor refuses an unknown --color.
func (a *App) CheckColor() error {
	switch a.Global.Color {
	case "auto", "always", "never":
		return nil
	}
	return Usage("--color %q: wanted auto, always or never", a.Global.Color)
}

// Warn prints a warning to the error stream unless -q is given.
func (a *App) Warn(format string, args ...any) {
	if !a.Global.Quiet {
		a.Say(a.paint("33", "warning:"), fmt.Sprintf(format, args...))
	}
}

// Note prints useful information to the error stream unless -q is given.
func (a *App) Note(format string, args ...any) {
	if !a.Global.Quiet {
		a.Say("note:", fmt.Sprintf(format, args...))
	}
}

// TellLibraries lists the C libraries that were opened, with -v, and always warns about those that
// another user could have put there.
func (a *App) TellLibraries() {
	for _, l := range library.List() {
		if l.Doubt != "" {
			a.Warn("%s was opened from %s: %s, so anything put there runs with this program's "+
				"rights", l.Name, l.Path, l.Doubt)
		} else if a.Global.Verbose {
			a.Note("%s was opened from %s", l.Name, l.Path)
		}
	}
}

func (a *App) Complain(err error) {
	a.Say(a.paint("31", "memopt:"), err.Error())
}

// Say prints one line to the error stream. Text from a model can neither add lines nor control the
// terminal.
func (a *App) Say(who, text string) {
	a.Status.Clear()
	fmt.Fprintf(a.Err, "%s %s\n", who, report.Message(text, a.Global.Verbose))
}

// paint colors text for a terminal.
func (a *App) paint(code, text string) string {
	on := a.Global.Color == "always"
	if a.Global.Color == "auto" {
		_, no := a.Env("NO_COLOR")
		f, ok := a.Err.(*os.File)
		on = ok && !no && term.IsTerminal(int(f.Fd()))
	}
	if !on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Stdio is where a command reads and writes.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
	Parent   *os.File // closes when the process that started the program ends (ParentPipe); nil: it is not told
}

// ExactModel wants one argument, the model.
func ExactModel(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return Usage("%s wants one MODEL (a path, - or example:NAME), got %d arguments", cmd.CommandPath(), len(args))
	}
	return nil
}

// ListLimit is how many stashed activations or outputs a table lists.
func (a *App) ListLimit() int {
	if a.Global.Verbose {
		return -1
	}
	return 10
}
