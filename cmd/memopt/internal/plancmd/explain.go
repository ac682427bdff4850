package plancmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/answers/explain"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/view/report"
)

func Explain(a *cli.App) *cobra.Command {
	var sel option.SelectionFlags
	var move cli.MoveFlags
	view := explain.View{}
	cmd := &cobra.Command{
		Use:   "explain MODEL [NAME]",
		Short: "Say why memory is live at the peak, and how to lower it",
		Long: `explain lists the values that are live when the memory of a step is at its
worst: for every value, the node that makes it, the node that holds it, and why
it is or is not recomputed. All rows together are the peak. For the largest
ones it tries changes that would lower the peak, one at a time, and prints the
peak of each.

NAME is the name of a value, a node or a layer, or a glob of these: then only
their values are explained, those too that are not live at the peak.

The flags that select recomputed values say which plan is explained; without
them it is the graph as it is. With --link and --host-budget, or a plan file
whose values move, it also lists the values that are on the host then, and
says how long a step waits for copies.

Instead of a MODEL, it takes a snapshot of PyTorch's allocator, as
torch.cuda.memory._dump_snapshot writes it: then it says which lines of the
program held the memory when it ran out, or when the most was in use, and
replays the events to find out which change helps.`,
		Example: `  memopt explain model.onnx --dim batch=8,seq=1024
        the values that are live at the peak, and changes that would lower it
  memopt explain model.onnx --dim batch=8,seq=1024 --by layer
        the same, summed up by layer
  memopt explain model.onnx --level 1 '/model/layers.3/*'
        the live values of a layer at the peak of the plan of level 1
  memopt explain model.onnx --budget 60% --link 25GB/s --host-budget 64GiB
        which values are kept, recomputed and moved to the host
  memopt explain model.onnx --budget 60% '/lm_head/MatMul_output_0' -O json
        why a value is live, for scripts
  memopt explain snapshot.pickle
        what held the memory of a program of PyTorch when it ran out`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return cli.Usage("%s wants a MODEL (a path, - or example:NAME) and at most one NAME, got %d arguments",
					cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if isSnapshot(args[0]) {
				return explainSnapshot(a, cmd, args, view.Top)
			}
			o, err := MovesAsked(a, cmd, &move, &sel)
			if err != nil {
				return err
			}
			return explainModel(a, args, &sel, o, view)
		},
	}
	sel.RegisterJob(cmd.Flags())
	move.Register(cmd.Flags(), option.LinkOfDevice)
	cmd.Flags().StringVar(&view.By, "by", explain.ByValue, "a row for each: "+strings.Join(explain.Groupings, ", "))
	cli.NumberVar(cmd.Flags(), &view.Top, "top", "", 10, cli.NotNegative,
		"how many rows to print, and of how many of the largest values to try fixes; 0 is all")
	return cmd
}

// explainModel prints why memory is live at the peak of a plan, with moves where o is not nil.
func explainModel(a *cli.App, args []string, sel *option.SelectionFlags, o *Moves, view explain.View) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if !slices.Contains(explain.Groupings, view.By) {
		return cli.Usage("--by %q: wanted one of %s", view.By, strings.Join(explain.Groupings, ", "))
	}
	options := explain.Options{Top: view.Top}
	if len(args) == 2 {
		options.Name = args[1]
	}
	if view.By != explain.ByValue && format != report.JSONFormat {
		options.Top = -1 // no row has room for fixes
	}
	if o != nil {
		p, c, err := MakeMoves(a, args[0], sel, option.Planning{}, o)
		if err != nil {
			return err
		}
		defer p.Plan.Of.Close()
		view.Step = c.Step
		return explained(a, args[0], sel, format, p.Whole(), view, func() (*explain.Result, error) {
			return explain.OfMoving(a.Search, p, options)
		})
	}
	if err := sel.Step.Check(); err != nil {
		return err
	}
	m, err := load.Model(a, args[0], load.Reading{States: sel.States, Ranged: !sel.BudgetFlags.Asks()})
	if err != nil {
		return err
	}
	unsized := load.Sizeless(m)
	p, c, err := planLoaded(a, m, args[0], sel, option.Planning{Shown: unsized})
	if err != nil {
		return err
	}
	defer p.Of.Close()
	if unsized && len(p.Unbound) > 0 {
		return Formulas(a, format, args[0], p, c)
	}
	view.Step = c.Step
	return explained(a, args[0], sel, format, p, view, func() (*explain.Result, error) {
		return explain.Explain(a.Search, p, options)
	})
}

// explained prints the explanation of a plan.
func explained(a *cli.App, name string, sel *option.SelectionFlags, format report.Format, p *memopt.Plan,
	view explain.View, explanation func() (*explain.Result, error)) (err error) {
	if view.Reserved, err = sel.Reserved(a, p); err != nil {
		return err
	}
	a.Status.Say("trying changes that would lower the peak")
	r, err := explanation()
	if err != nil {
		return cli.Classify(cli.Wrap(name, err))
	}
	if err := explain.Report(a.Out, format, r, view); err != nil {
		return err
	}
	return a.Next(format, afterExplain(name, r).About(view.Step))
}

// afterExplain plans with the change that lowers the peak most; without such a change it looks for a device.
func afterExplain(name string, r *explain.Result) *cli.NextCommand {
	if r.Moving != nil || r.Plan.Options.Enabled() {
		return cli.Applied(name)
	}
	n := &cli.NextCommand{Verb: "plan", Args: []string{name}}
	most := int64(0)
	if r.Order != nil && r.Order.Saves > most {
		most, n.Set = r.Order.Saves, [][2]string{{"order", "memory"}}
	}
	for _, v := range r.Values {
		for _, f := range v.Fixes {
			if f.What == explain.Recompute && f.Saves > most {
				most, n.Set = f.Saves, [][2]string{{"recompute", v.Name}}
			}
		}
	}
	if most == 0 {
		return &cli.NextCommand{Verb: "fit", Args: []string{name}, Set: [][2]string{{"vary", option.DeviceName}},
			Drop: cli.OfSelection}
	}
	return n
}
