package answercmd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"

	"github.com/spf13/cobra"

	"memopt/answers/doctor"
	"memopt/cmd/memopt/internal/cli"
	"memopt/internal/library"
	"memopt/internal/memlimit"
	"memopt/view/report"
)

// doctorFlags are the flags of doctor, all of them about commands that it tries.
type doctorFlags struct {
	try      bool
	repeat   int
	limit    string
	memLimit string
}

func Doctor(a *cli.App) *cobra.Command {
	var df doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [--try [SETTINGS] -- CMD...]",
		Short: "Show how this machine and its environment affect memory and speed",
		Long: `doctor looks at cores, quotas and limits of memory, at huge pages, at variables
that hold libraries back, at the libraries that are there and the reasons why
others are not, and at the settings of glibc's allocator and of ONNX Runtime.
Each finding has its value, its effect, a remedy and its source. doctor changes
no setting, and exits with 0 whatever it finds.

With --try it runs a command as it is and with one variable changed at a time,
in turn, and prints the peak of resident memory and the time side by side,
medians of the runs. A setting is NAME=VALUE, or NAME= to leave a variable out;
without any, it tries the settings of the findings and those of glibc's
allocator. The command gets no input; -v shows its output.`,
		Example: `  memopt doctor
        the settings that slow this machine down or cost memory
  memopt doctor -O json
        the same for scripts: "slows" counts the findings that cost time
  memopt doctor --try -- python train.py --steps 20
        which settings take less memory, or less time
  memopt doctor --try MALLOC_ARENA_MAX=1 OMP_NUM_THREADS=4 -r 9 -- python train.py
        these two, nine runs each`,
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			if at < 0 {
				at = len(args)
			}
			if df.try {
				return try(a, &df, args[:at], args[at:])
			}
			if len(args) > 0 {
				return cli.Usage("doctor takes no argument (got %q); to try a command: memopt doctor "+
					"--try -- CMD", args[0])
			}
			return examine(a)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&df.try, "try", false, "run the command behind -- with each of the settings")
	cli.NumberVar(f, &df.repeat, "repeat", "r", 5, cli.Positive, "with --try: runs with each setting")
	f.StringVar(&df.limit, "time-limit", "10m",
		"with --try: when to end a run: 10s, 2m, or a number of seconds")
	f.StringVar(&df.memLimit, "mem-limit", "",
		"with --try: when to end a run: once its processes have more than this resident, for example 8GiB; default "+
			"the free memory")
	return cmd
}

func examine(a *cli.App) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	path, err := os.Executable()
	if err != nil {
		return &cli.ExitError{Code: cli.ExitInternal, Err: err}
	}
	m := machine(a)
	runtime := cli.OrtProgram(path)
	m.Libraries = doctor.FindLibraries(a.Ctx, &runtime)
	return m.Report(a.Out, format, m.Examine())
}

// machine is this machine with the environment of the program.
func machine(a *cli.App) *doctor.Machine {
	m := doctor.This()
	m.Env = a.Env
	return m
}

// try runs a command with each setting.
func try(a *cli.App, df *doctorFlags, settings, command []string) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if len(command) == 0 {
		return cli.Usage("doctor --try wants a command: memopt doctor --try -- CMD")
	}
	t := &doctor.Trial{Command: command, Env: a.Environ.List(), Runs: df.repeat}
	if t.Settings, err = trialSettings(a, settings); err != nil {
		return err
	}
	if t.Time, err = cli.ParseDuration("--time-limit", df.limit); err != nil {
		return err
	}
	if t.Memory, err = df.memory(); err != nil {
		return err
	}
	if a.Global.Verbose {
		a.Status.End() // the command's own output is shown
		t.Output = a.Err
	}
	t.Progress = trialProgress(a, 1+len(t.Settings))
	o, err := t.Run(a.Ctx)
	if err != nil {
		return classifyTrial(err)
	}
	a.Keeper.Keep()
	return t.Report(a.Out, format, o)
}

// trialSettings reads settings; without any it takes those that are worth a trial here. Libraries that another user
// could have put in their place are not tried unasked.
func trialSettings(a *cli.App, texts []string) ([]doctor.Setting, error) {
	var list []doctor.Setting
	for _, text := range texts {
		s, err := doctor.ParseSetting(text)
		if err != nil {
			return nil, cli.Usage("doctor --try: %w", err)
		}
		list = append(list, s)
	}
	if len(texts) > 0 {
		return list, nil
	}
	m := machine(a)
	return Trusted(m.Settings(m.Examine())), nil
}

// Trusted leaves out libraries that another user could have put in their place.
func Trusted(list []doctor.Setting) []doctor.Setting {
	return slices.DeleteFunc(list, func(s doctor.Setting) bool {
		return s.Name == "LD_PRELOAD" && s.Value != "" && library.Doubt(s.Value) != ""
	})
}

// memory reads --mem-limit; the default is the free memory.
func (df *doctorFlags) memory() (int64, error) {
	if df.memLimit == "" {
		l, _ := memlimit.Available()
		return l.Bytes, nil
	}
	n, err := report.ParseBytes(df.memLimit)
	if err != nil || n <= 0 {
		return 0, cli.Usage("--mem-limit %q: wanted a positive size such as 8GiB", df.memLimit)
	}
	return n, nil
}

// trialProgress names the run under way, in rounds of so many runs behind the first. Once a round is
// complete, there is something to show.
func trialProgress(a *cli.App, round int) func(run, runs int, setting string) {
	return func(run, runs int, setting string) {
		if run > 1+round {
			a.Keeper.Keep()
		}
		if setting == "" {
			setting = "as it is"
		}
		a.Status.Say("run %d of %d: %s", run, runs, setting)
	}
}

// classifyTrial gives an error of a trial its exit code.
func classifyTrial(err error) error {
	var failed *doctor.FailedError
	switch {
	case errors.Is(err, context.Canceled):
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New(cli.Interrupted)}
	case errors.As(err, &failed) && failed.OutOfMemory():
		return &cli.ExitError{Code: cli.ExitInfeasible, Err: err}
	case errors.As(err, &failed), errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist),
		errors.Is(err, os.ErrPermission):
		return cli.Usage("doctor --try: %w", err)
	}
	return &cli.ExitError{Code: cli.ExitInternal, Err: err}
}
