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

	"memopt/internal/caught"
	"memopt/internal/cleanup"
	"memopt/internal/fileio"
	"memopt/internal/mapfile"
)

// run executes a command line in an environment, in the form of os.Environ, and returns its exit
// code.
func run(args []string, io stdio, environ []string) int {
	w := &watch{keeper: &keeper{}, err: io.err, clean: cleanup.All, exit: os.Exit}
	ctx, stop := w.untilSignal(context.Background())
	defer stop()
	return runUntil(ctx, w.keeper, args, io, environ)
}

// runUntil is run with a context that ends when the user or the system wants the program to end,
// and with a keeper that is told whether there is something to show then.
func runUntil(ctx context.Context, k *keeper, args []string, io stdio, environ []string) int {
	streams := io
	report := &reportWriter{Writer: io.out, keeper: k}
	out := bufio.NewWriter(report)
	io.out = out
	a := &app{stdio: io, environ: newEnvironment(environ), args: args, ctx: ctx, keeper: k, files: &fileio.Ledger{},
		clock: clock{began: time.Now(), search: ctx}, report: report, flush: out.Flush}
	defer func() { a.stopClock() }()
	a.noteStreams(streams)
	a.columns, a.chart = screenColumns(streams.out), terminalColumns(streams.out)
	err := a.execute(a.command())
	a.status.end()
	a.tellLibraries()
	if e := out.Flush(); err == nil && e != nil {
		err = usage("cannot write the report: %w", e)
	}
	switch {
	case report.broken:
		return exitPipe // as for any program killed by a closed pipe, there is no report
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		err = &exitError{exitInterrupted, errors.New(interrupted)}
	case err == nil:
		return 0
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{code: exitUsage, err: err} // cobra's own errors are about the command line
	}
	a.spare(streams, e.err)
	var quiet *quietError
	if !errors.As(err, &quiet) && (e.code != exitInterrupted || !k.isTold()) {
		a.complain(a.hinted(e.err))
	}
	if e.code == exitInterrupted {
		return endCode(ctx)
	}
	return e.code
}

// execute runs the verb that the arguments name. Even a panic, which a verb should never cause,
// ends with one line.
func (a *app) execute(root *cobra.Command) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a mapped file that becomes shorter (mapfile)
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if changed := mapfile.Fault(p); changed != nil {
			err = usage("%w", changed)
			return
		}
		if a.global.verbose {
			fmt.Fprintf(a.err, "%s", debug.Stack())
		}
		err = &exitError{exitInternal, internalError(fmt.Errorf("%v", p))}
	}()
	root.SetArgs(a.args)
	err = root.Execute()
	var panicked *caught.Error // of a goroutine
	if a.global.verbose && errors.As(err, &panicked) {
		fmt.Fprintf(a.err, "%s", panicked.Stack)
	}
	return err
}

func terminalWidth() int {
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > helpWidth {
		return min(w, wideHelp)
	}
	return helpWidth
}

// command builds the command tree.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "memopt",
		Short: "Make training fit in memory: plan and apply recomputation in ONNX training graphs",
		Long: `memopt reads an ONNX training graph, finds the activations that are stashed for
the backward half, shows what recomputing them would save, rewrites the graph
to do so, and executes both graphs to prove equal numbers and the promised
peak.

A model is a path, "-" for standard input, or example:NAME for a built-in model
(memopt examples lists them).

Every flag can also be set by an environment variable: MEMOPT_THREADS=2 for
--threads 2 (see memopt help environment).`,
		Example: `  memopt plan example:transformer              what could be recomputed, and where the peak is
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
			return a.version()
		}
		return cmd.Help()
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ",
		fmt.Sprintf(".FlagUsagesWrapped %d ", terminalWidth())))
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	f := root.PersistentFlags()
	f.StringVarP(&a.global.output, "output", "O", "table", "format of the report: table, json, "+
		"csv or markdown")
	f.StringArrayVar(&a.global.dims, "dim", nil, "bind symbols of the model: batch=8,seq=1024 (repeatable)")
	f.StringVar(&a.global.color, "color", "auto", "when to color messages: auto, always or never")
	f.BoolVarP(&a.global.quiet, "quiet", "q", false, "print no warnings or hints")
	f.BoolVarP(&a.global.verbose, "verbose", "v", false, "print more")
	f.BoolVarP(&a.global.wide, "wide", "w", false, "print tables whole; else they fit the terminal, or "+
		"80 columns, and long names are cut in the middle")
	f.BoolVar(&a.global.strict, "strict", false, "reject a model with nodes that contradict their "+
		"operators' definitions")
	f.Int64Var(&a.global.seed, "seed", 0, "seed from which random nodes without a seed of their "+
		"own get one")
	numberVar(f, &a.global.threads, "threads", "", 0, bounds{least: 0, most: float64(maxThreads())},
		"threads to run on; 0: one per core")
	root.PersistentPreRunE = a.prepare
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return a.wrongFlag(cmd, err) })
	a.addVerbs(root)
	root.AddCommand(a.exitCodesTopic(), a.environmentTopic(), a.ortChildCommand())
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
	return usage("unknown command %q%s; list the commands with memopt help", args[0], suggest(args[0], names))
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
func (a *app) wrongFlag(cmd *cobra.Command, err error) error {
	if word := firstWord(cmd.Root(), a.args); word != "" && !cmd.HasParent() {
		return noCommand(cmd, []string{word})
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usage("%v", err)
	}
	return usage("%v%s; list the flags with %s --help", err, suggestFlag(cmd, unknown.GetSpecifiedName()),
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
	return suggest("--"+given, names)
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
