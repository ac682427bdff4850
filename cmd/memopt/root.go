package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/traincmd"
	"memopt/internal/caught"
	"memopt/internal/cleanup"
	"memopt/internal/fileio"
	"memopt/internal/mapfile"
)

// run executes a command line in an environment, in the form of os.Environ, and returns its exit
// code.
func run(args []string, io cli.Stdio, environ []string) int {
	w := &cli.Watch{Keeper: &cli.Keeper{}, Err: io.Err, Clean: cleanup.All, Exit: os.Exit, Parent: io.Parent}
	ctx, stop := w.UntilSignal(context.Background())
	defer stop()
	return runUntil(ctx, w.Keeper, args, io, environ)
}

// runUntil is run with a context that ends when the user or the system wants the program to end,
// and with a keeper that is told whether there is something to show then.
func runUntil(ctx context.Context, k *cli.Keeper, args []string, io cli.Stdio, environ []string) int {
	streams := io
	report := &cli.ReportWriter{Writer: io.Out, Keeper: k}
	out := bufio.NewWriter(report)
	io.Out = out
	a := &cli.App{Stdio: io, Environ: cli.NewEnvironment(environ), Args: args, Ctx: ctx, Keeper: k,
		Files: &fileio.Ledger{},
		Clock: cli.Clock{Began: time.Now(), Search: ctx}, Report: report, Flush: out.Flush}
	defer func() { a.StopClock() }()
	a.NoteStreams(streams)
	a.Columns, a.Chart = cli.ScreenColumns(streams.Out), cli.TerminalColumns(streams.Out)
	err := execute(a, command(a))
	a.Status.End()
	a.TellLibraries()
	if e := out.Flush(); err == nil && e != nil {
		err = cli.Usage("cannot write the report: %w", e)
	}
	switch {
	case report.Broken:
		return cli.ExitPipe // as for any program killed by a closed pipe, there is no report
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		err = &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New(cli.Interrupted)}
	case err == nil:
		return 0
	}
	var e *cli.ExitError
	if !errors.As(err, &e) {
		e = &cli.ExitError{Code: cli.ExitUsage, Err: err} // cobra's own errors are about the command line
	}
	a.Spare(streams, e.Err)
	var quiet *traincmd.QuietError
	if !errors.As(err, &quiet) && (e.Code != cli.ExitInterrupted || !k.IsTold()) {
		a.Complain(a.Hinted(e.Err))
	}
	if e.Code == cli.ExitInterrupted {
		return cli.EndCode(ctx)
	}
	return e.Code
}

// execute runs the verb that the arguments name. Even a panic, which a verb should never cause,
// ends with one line.
func execute(a *cli.App, root *cobra.Command) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a mapped file that becomes shorter (mapfile)
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if changed := mapfile.Fault(p); changed != nil {
			err = cli.Usage("%w", changed)
			return
		}
		if a.Global.Verbose {
			fmt.Fprintf(a.Err, "%s", debug.Stack())
		}
		err = &cli.ExitError{Code: cli.ExitInternal, Err: cli.InternalError(fmt.Errorf("%v", p))}
	}()
	root.SetArgs(a.Args)
	err = root.Execute()
	var panicked *caught.Error // of a goroutine
	if a.Global.Verbose && errors.As(err, &panicked) {
		fmt.Fprintf(a.Err, "%s", panicked.Stack)
	}
	return err
}

func terminalWidth() int {
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > cli.HelpWidth {
		return min(w, cli.WideHelp)
	}
	return cli.HelpWidth
}

// command builds the command tree.
func command(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "memopt",
		Short: "Make training fit in memory: plan and apply recomputation in ONNX training graphs",
		Long: `memopt reads an ONNX training graph, finds the activations that are stashed for
the backward half, shows how much recomputing them would save, rewrites the
graph to do so, and executes both graphs to prove equal numbers and the
promised peak.

A model is a path, "-" for standard input, or example:NAME for a built-in model
(memopt examples lists them).

Every flag can also be set by an environment variable: MEMOPT_THREADS=2 for
--threads 2 (see memopt help environment).`,
		Example: `  memopt plan example:transformer              the clusters that could be recomputed, and the peak
  memopt plan example:transformer --level 1    the plan that recomputes layer by layer
  memopt apply model.onnx --level 1 -o out.onnx --dim batch=8,seq=1024
  memopt verify example:mlp --level 1 --init random:1 --dim batch=64
                                               execute both graphs: equal numbers, the promised peak
  memopt inspect model.onnx                    operators, dims and sizes as formulas`,
		SilenceUsage: true, SilenceErrors: true,
		Args: noCommand,
	}
	var version bool
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if version {
			return printVersion(a)
		}
		return cmd.Help()
	}
	root.SetUsageFunc(printUsage)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	f := root.PersistentFlags()
	f.StringVarP(&a.Global.Output, "output", "O", "table", "format of the report: table, json, "+
		"csv or markdown")
	f.StringArrayVar(&a.Global.Dims, "dim", nil, "bind symbols of the model, batch=8,seq=1024, or all dims of an "+
		"input, input_ids=8x1024; plan and fit also take ranges, seq=1..1024, and files of sizes, seq=lengths.json "+
		"(repeatable)")
	f.StringVar(&a.Global.Color, "color", "auto", "when to color messages: auto, always or never")
	f.BoolVarP(&a.Global.Quiet, "quiet", "q", false, "print no warnings or hints")
	f.BoolVarP(&a.Global.Verbose, "verbose", "v", false, "print more")
	f.BoolVarP(&a.Global.Wide, "wide", "w", false, "print tables whole; else they fit the terminal, or "+
		"80 columns, and long names are cut in the middle")
	f.BoolVar(&a.Global.Strict, "strict", false, "reject a model with nodes that contradict their "+
		"operators' definitions")
	f.Int64Var(&a.Global.Seed, "seed", 0, "seed of random nodes without a seed of their own")
	cli.NumberVar(f, &a.Global.Threads, "threads", "", 0, cli.Bounds{Least: 0, Most: float64(cli.MaxThreads())},
		"threads to run on; 0: one per core")
	root.PersistentPreRunE = a.Prepare
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return wrongFlag(a, cmd, err) })
	addVerbs(a, root)
	root.AddCommand(a.ExitCodesTopic(), a.EnvironmentTopic(), a.OrtChildCommand())
	return root
}

// noCommand is the error for a word that is not a command.
func noCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			names = append(names, cmd.Name())
		}
	}
	return cli.Usage("unknown command %q%s; list the commands with memopt help", args[0], cli.Suggest(args[0], names))
}

// firstWord returns the first argument that is neither a flag nor a flag's value, or "": the verb,
// where there is one. As in cobra, the word after a flag that is not the program's own counts as
// its value.
func firstWord(root *cobra.Command, args []string) string {
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		if args[i] == "--" {
			return ""
		} else if !isFlag || name == "" {
			return args[i]
		}
		name, long := strings.CutPrefix(name, "-")
		f := root.PersistentFlags().Lookup(name)
		if !long {
			f = root.PersistentFlags().ShorthandLookup(name[:1])
		}
		if !strings.Contains(name, "=") && (long || len(name) == 1) && (f == nil || f.NoOptDefVal == "") {
			i++
		}
	}
	return ""
}

// wrongFlag is an error of the flags, with a suggestion if a similar flag exists. If the verb
// itself is wrong, its flags are not reported.
func wrongFlag(a *cli.App, cmd *cobra.Command, err error) error {
	if word := firstWord(cmd.Root(), a.Args); word != "" && !cmd.HasParent() {
		return noCommand(cmd, []string{word})
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return cli.Usage("%v", err)
	}
	return cli.Usage("%v%s; list the flags with %s --help", err, suggestFlag(cmd, unknown.GetSpecifiedName()),
		cmd.CommandPath())
}

// suggestFlag is the part of a message that suggests a flag: one of the verb whose words the given ones begin,
// as gradient-accumulation-steps for grad-accum; else the verbs that have the flag; else a similar one.
func suggestFlag(cmd *cobra.Command, given string) string {
	var names []string
	near := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		names = append(names, "--"+f.Name)
		if near == "" && abbreviates(given, f.Name) {
			near = f.Name
		}
	})
	if near != "" {
		return fmt.Sprintf(" (did you mean --%s?)", near)
	}
	var verbs []string
	for _, verb := range cmd.Root().Commands() {
		if !verb.Hidden && verb.Flags().Lookup(given) != nil {
			verbs = append(verbs, verb.Name())
		}
	}
	if len(verbs) > 0 {
		return fmt.Sprintf(" (a flag of memopt %s)", strings.Join(verbs, ", "))
	}
	return cli.Suggest("--"+given, names)
}

// abbreviates reports whether each word of a flag begins a word of another one, in order: at least two of them.
func abbreviates(given, flag string) bool {
	split := func(r rune) bool { return r == '-' || r == '_' }
	words := strings.FieldsFunc(given, split)
	at := 0
	for _, word := range strings.FieldsFunc(flag, split) {
		if at < len(words) && strings.HasPrefix(word, strings.ToLower(words[at])) {
			at++
		}
	}
	return len(words) > 1 && at == len(words)
}
