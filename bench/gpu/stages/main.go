package stages

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// Exit codes.
const (
	exitDone    = 0
	exitFailed  = 1 // a check failed, or something else went wrong
	exitUsage   = 2
	exitMissing = 7 // there is no GPU: memopt's own code for it
	exitStopped = 130
)

const usageText = `
usage:
  gpuverify list [NAME]                                  the stages, or those whose name is NAME or starts with NAME-
  gpuverify probe --bundle DIR [--backend NAME]          whether there is a GPU: one line and exit code 7 if not
  gpuverify stage NAME --bundle DIR --models DIR --out DIR [--backend NAME] [--toy]
  gpuverify report --out DIR                             the table of all stages' findings; exit code 1 if a check has failed
  gpuverify half MODEL OUT                               a forward model with bfloat16 in place of float32`

// Main runs a command line.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := dispatch(ctx, args, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "gpuverify:", err)
	}
	return code
}

// command parses the flags of a command; the rest are its arguments, which come first.
func command(args []string, want int) (o options, rest []string, err error) {
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		rest, args = append(rest, args[0]), args[1:]
	}
	f := flag.NewFlagSet("gpuverify", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.bundle, "bundle", ".", "")
	f.StringVar(&o.models, "models", "", "")
	f.StringVar(&o.out, "out", ".", "")
	f.StringVar(&o.backend, "backend", "cuda", "")
	f.StringVar(&o.python, "python", "python3", "")
	f.BoolVar(&o.toy, "toy", false, "")
	if err := f.Parse(args); err != nil {
		return o, nil, err
	}
	if len(rest) != want || f.NArg() > 0 {
		return o, nil, fmt.Errorf("%d arguments, wanted %d", len(rest)+f.NArg(), want)
	}
	for _, dir := range []*string{&o.bundle, &o.out} { // programs run in other folders
		if *dir, err = filepath.Abs(*dir); err != nil {
			return o, nil, err
		}
	}
	if o.models == "" {
		o.models = filepath.Join(o.bundle, "shared", "models")
	}
	o.models, err = filepath.Abs(o.models)
	return o, rest, err
}

// arguments is how many arguments each command has.
var arguments = map[string]int{"list": 0, "probe": 0, "stage": 1, "report": 0, "half": 2}

func dispatch(ctx context.Context, args []string, w io.Writer) (int, error) {
	if len(args) == 0 {
		return exitUsage, errors.New("no command" + usageText)
	}
	if args[0] == "list" && len(args) == 2 {
		return list(w, args[1])
	}
	want, known := arguments[args[0]]
	if !known {
		return exitUsage, fmt.Errorf("there is no command %q%s", args[0], usageText)
	}
	o, rest, err := command(args[1:], want)
	if err != nil {
		return exitUsage, fmt.Errorf("%s: %w%s", args[0], err, usageText)
	}
	switch args[0] {
	case "list":
		return list(w, "")
	case "probe":
		return probe(ctx, o)
	case "stage":
		err = runNamed(ctx, rest[0], o)
	case "report":
		err = writeReport(w, o.out)
	case "half":
		err = convertFile(rest[0], rest[1])
	}
	switch {
	case ctx.Err() != nil:
		return exitStopped, errors.New("stopped: the results so far are kept")
	case err != nil:
		return exitFailed, err
	}
	return exitDone, nil
}

// list prints the stages that a name stands for, all for "".
func list(w io.Writer, name string) (int, error) {
	found := false
	for _, s := range all {
		if name == "" || s.name == name || strings.HasPrefix(s.name, name+"-") {
			fmt.Fprintf(w, "%s\t%s\n", s.name, s.doc)
			found = true
		}
	}
	if !found {
		return exitUsage, fmt.Errorf("there is no stage %q; gpuverify list has them all", name)
	}
	return exitDone, nil
}

func runNamed(ctx context.Context, name string, o options) error {
	for i := range all {
		if all[i].name == name {
			return runStage(ctx, &all[i], o)
		}
	}
	return fmt.Errorf("there is no stage %q; gpuverify list has them all", name)
}

// probe takes a small step on the device: without one it repeats memopt's line.
func probe(ctx context.Context, o options) (int, error) {
	tmp, err := os.MkdirTemp("", "gpu-verify")
	if err != nil {
		return exitFailed, err
	}
	defer os.RemoveAll(tmp)
	r := &runner{options: o, ctx: ctx, tmp: tmp}
	var v runReport
	switch a := r.smallStep(&v); {
	case a.code == exitMissing:
		return exitMissing, errors.New(a.why())
	case a.code != 0:
		return exitFailed, fmt.Errorf("a small model cannot be run: %s", a.why())
	}
	return exitDone, nil
}
