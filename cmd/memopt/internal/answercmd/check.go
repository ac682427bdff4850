package answercmd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"memopt/check"
	"memopt/check/planfile"
	"memopt/check/streams"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/configs"
	"memopt/internal/inputfile"
	"memopt/view/report"
)

func Check(a *cli.App) *cobra.Command {
	var trace string
	var save scheduleFlags
	var step gradcmd.StepFlags
	var states []string
	cmd := &cobra.Command{
		Use:   "check PLAN MODEL",
		Short: "Check a plan by itself: steps, peak, cost, bound, and no race between copies",
		Long: `check follows a plan step by step, without any code of the planner, and tells
whether its claims are true. PLAN is an answer of memopt solve, MODEL the
instance that it is for; or PLAN is a plan file (plan --save-plan), MODEL the
model, and the flags for its training step are those that it was planned with.

Each input must be live when it is read, each value freed once and not too
early, each node computed, and a node that must not be computed again computed
once. Peak, cost, makespan, overhead and bounds must be those that the plan
states. Where values move to the host, no memory may be used while a copy of it
or into it is under way: waits alone count, not how long copies happen to take,
so a missing wait is found even where it does no harm in one run.

--trace looks for races in a trace of a run, in Chrome's format, where the
threads are streams and the args of events name the buffers that they read,
write and free, and the events that they wait for.

It exits with 4 if a claim of the plan is false, and lists the faults with
their steps. docs/check.md explains their kinds.`,
		Example: `  memopt check schedule.json instance.json
        the numbers of a schedule, or its faults
  memopt check schedule.json instance.json -O json
        the same for a program
  memopt check plan.json model.onnx
        a plan file of memopt plan --save-plan
  memopt check --trace run.json
        the races of a run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if trace != "" && len(args) > 0 {
				return cli.Usage("%s --trace is about a trace alone: leave %s out", cmd.CommandPath(), args[0])
			}
			if trace == "" && len(args) != 2 {
				return cli.Usage("%s wants a PLAN and the MODEL that it is for, got %d arguments", cmd.CommandPath(),
					len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if trace != "" {
				return checkTrace(a, trace)
			}
			return checkPlan(a, args[0], args[1], &step, states, &save)
		},
	}
	step.RegisterGraph(cmd.Flags())
	cmd.Flags().StringArrayVar(&states, "state", nil, "IN=OUT: the output is the next value of this input (repeatable)")
	cmd.Flags().StringVar(&save.steps, "save-steps", "", "of a plan file whose values move: write its steps, as "+
		"solve's answers have them, for other checkers such as check.py")
	cmd.Flags().StringVar(&save.instance, "save-instance", "", "write the instance that --save-steps are of")
	cmd.Flags().StringVar(&trace, "trace", "", "look for races in this trace of a run (Chrome's format), - is a stream")
	return cmd
}

// scheduleFlags name the files for a plan file's schedule; "" writes no file.
type scheduleFlags struct{ steps, instance string }

// write writes the schedule.
func (f *scheduleFlags) write(a *cli.App, plan string, s *planfile.Schedule) error {
	if f.steps == "" && f.instance == "" {
		return nil
	}
	if s == nil {
		return cli.Usage("--save-steps, --save-instance: %s has no schedule: wanted a plan file whose values move, "+
			"and whose nodes and times fit the model", plan)
	}
	if f.steps != "" {
		if err := a.WriteArtefact("--save-steps", f.steps, s.Steps); err != nil {
			return err
		}
	}
	if f.instance == "" {
		return nil
	}
	return a.WriteArtefact("--save-instance", f.instance, s.Instance)
}

// checkTrace looks for races in a trace.
func checkTrace(a *cli.App, path string) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	a.Status.Say("reading %s", path)
	f, err := openInput(a, path)
	if err != nil {
		return err
	}
	defer f.Close()
	races, operations, err := streams.Trace(inputfile.Limited(f, load.MaxInstance))
	if err != nil {
		return cli.FileError("%s: %w", path, err)
	}
	if operations == 0 && len(races) == 0 {
		return cli.Usage("%s: no event names buffers: wanted args with reads, writes or frees (docs/check.md)", path)
	}
	r := &check.Report{Schema: check.Schema, Valid: len(races) == 0, Steps: operations, Proved: []string{},
		Faults: []check.Fault{}}
	for i := range races {
		r.Faults = append(r.Faults, check.Fault{Kind: races[i].Kind, Step: &races[i].Event, Value: races[i].Buffer,
			Message: races[i].Message})
	}
	if r.Valid {
		r.Proved = append(r.Proved, "copies")
	}
	return finishCheck(a, format, path, r)
}

func checkPlan(a *cli.App, plan, model string, step *gradcmd.StepFlags, states []string,
	save *scheduleFlags) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	a.Status.Say("checking %s", plan)
	f, err := openInput(a, plan)
	if err != nil {
		return err
	}
	defer f.Close()
	p := bufio.NewReaderSize(inputfile.Limited(f, load.MaxInstance), 1<<12)
	if begins, _ := p.Peek(1 << 12); bytes.Contains(begins, []byte(`"memopt.recompute/`)) {
		r, schedule, err := checkPlanFile(a, p, plan, model, step, states)
		if err != nil {
			return err
		}
		if err := save.write(a, plan, schedule); err != nil {
			return err
		}
		return finishCheck(a, format, plan+": the claims of the plan are false", r)
	}
	if err := save.write(a, plan, nil); err != nil {
		return err
	}
	m, err := openInput(a, model)
	if err != nil {
		return err
	}
	defer m.Close()
	r, err := check.Answer(p, inputfile.Limited(m, load.MaxInstance))
	if err != nil {
		return cli.FileError("%s, %s: %w", plan, model, err)
	}
	return finishCheck(a, format, plan+": the claims of the plan are false", r)
}

// checkPlanFile checks a plan file against a model.
func checkPlanFile(a *cli.App, p io.Reader, plan, name string, f *gradcmd.StepFlags, states []string) (*check.Report,
	*planfile.Schedule, error) {
	text, err := io.ReadAll(p)
	if err != nil {
		return nil, nil, cli.FileError("%s: %w", plan, err)
	}
	record, err := configs.ParsePlan(text, plan)
	if err != nil {
		return nil, nil, cli.FileError("%w", err)
	}
	m, err := load.Model(a, name, load.Reading{States: states, Dims: record.Dims})
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	made, _, err := gradcmd.MakeStep(a, m, f, false)
	if err != nil {
		return nil, nil, err
	}
	r, schedule, err := planfile.Check(made.Model, m.StructureSHA256, made.Dims, record)
	if errors.Is(err, planfile.ErrOther) {
		return nil, nil, cli.Usage("%s: %w", plan, err)
	} else if err != nil {
		return nil, nil, cli.Classify(cli.Wrap(name, err))
	}
	return r, schedule, nil
}

// finishCheck writes the outcome of a check, which is an error where there are faults.
func finishCheck(a *cli.App, format report.Format, where string, r *check.Report) error {
	if err := sayChecked(a.Out, format, r); err != nil {
		return err
	}
	if r.Valid {
		return nil
	}
	return &cli.ExitError{Code: cli.ExitDiffers, Err: fmt.Errorf("%s: %d %s", where, len(r.Faults),
		cli.Plural(len(r.Faults), "fault", "faults"))}
}

// openInput opens a file, or standard input.
func openInput(a *cli.App, path string) (io.ReadCloser, error) {
	if path == cli.StreamName {
		return io.NopCloser(a.In), nil
	}
	f, _, err := inputfile.Open(path, load.MaxInstance)
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	return f, nil
}

// sayChecked writes the outcome of a check.
func sayChecked(w io.Writer, format report.Format, r *check.Report) error {
	if format == report.JSONFormat {
		return report.WriteJSON(w, r)
	}
	if !r.Valid {
		t := &report.Table{Header: []string{"step", "fault", "message"}, Right: []bool{true},
			Fit: []report.Fit{report.Whole, report.Whole, report.Wrap}}
		for _, f := range r.Faults {
			step := ""
			if f.Step != nil {
				step = fmt.Sprint(*f.Step)
			}
			t.Add(step, f.Kind, f.Message)
		}
		return t.WriteAs(w, format)
	}
	t := &report.Table{Header: []string{"item", "value", ""}, Right: []bool{false, true, false},
		Fit: []report.Fit{report.Wrap, report.Whole, report.Wrap}}
	t.Add("steps", fmt.Sprint(r.Steps), "no fault")
	if !slices.Contains(r.Proved, "steps") { // of a trace
		t.Add("proved", strings.Join(r.Proved, ", "), "")
		return t.WriteAs(w, format)
	}
	t.Add("peak", report.Bytes(int64(r.Peak)), "")
	if r.HostPeak > 0 {
		t.Add("host peak", report.Bytes(int64(r.HostPeak)), "")
	}
	note := ""
	switch {
	case r.BoundProved != nil:
		note = fmt.Sprintf("proved to be at least %.2f %%", 100**r.BoundProved)
	case r.Bound != nil:
		note = fmt.Sprintf("at least %.2f %%, says the plan", 100**r.Bound)
	}
	t.Add("overhead", fmt.Sprintf("%.2f %%", 100*r.Overhead), note)
	t.Add("proved", strings.Join(r.Proved, ", "), "")
	return t.WriteAs(w, format)
}
