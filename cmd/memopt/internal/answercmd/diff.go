package answercmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt"
	"memopt/answers/diff"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/cmd/memopt/internal/plancmd"
	"memopt/configs"
	"memopt/graph/examples"
	"memopt/internal/inputfile"
	"memopt/internal/timelimit"
	"memopt/recompute"
	"memopt/view/report"
)

func Diff(a *cli.App) *cobra.Command {
	var sel option.SelectionFlags
	var moves cli.MoveFlags
	var conditions []string
	var model string
	var unlike bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two models, plans or reports, and say whether a change is too much",
		Long: `diff compares two models, which it plans as the selection flags say, plan files
(plan --save-plan), plans of operators (memopt.torch.plan) or reports of verbs
(-O json), in any combination: the peak, the time, and by layer which
placements, clusters and stashed activations changed. Things are matched by
their names, so graphs may differ.

--fail-if ends with exit code 8 where a change is too much. A condition is a
field, one of > >= < <=, a number and its unit. With a sign the number is about
the change from A to B, without one about B:

  --fail-if 'peak>+2%'        the peak rises by more than 2 % of A's
  --fail-if 'overhead>+1pp'   the overhead rises by more than one point, as
                              from 3 % to 4.1 %
  --fail-if 'total>4GiB'      B takes more than that
  --fail-if 'time>+5ms'       a step takes 5 ms more

Fields are:

` + measureHelp() + `
and every number of a report, by its path in the JSON: peak.lower_bound_bytes.
-O markdown is a comment for a pull request.`,
		Example: `  memopt diff old.onnx new.onnx --dim batch=8
        the changes of the peak, and of the stashes of each layer
  memopt diff main.json plan.json --model model.onnx --fail-if 'peak>+2%' --fail-if 'overhead>+1pp'
        two plan files of a model, with all that follows from them
  memopt diff before.json after.json -O markdown
        two reports of one verb, as a comment for a pull request`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.Usage("memopt diff wants two arguments, A and B: models, plan files or JSON reports; got %d",
					len(args))
			}
			if args[0] == cli.StreamName && args[1] == cli.StreamName {
				return cli.Usage("- -: standard input can be one side only")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := report.ParseFormat(a.Global.Output)
			if err != nil {
				return cli.Usage("%w", err)
			}
			parsed := make([]diff.Condition, len(conditions))
			for i, text := range conditions {
				if parsed[i], err = diff.ParseCondition(text); err != nil {
					return cli.Usage("--fail-if %w", err)
				}
			}
			if model == cli.StreamName {
				return cli.Usage("--model -: wanted a file, which is read for each plan file")
			}
			d := &differ{App: a, sel: &sel, model: model, unlike: unlike}
			if d.moves, err = plancmd.MovesAsked(a, cmd, &moves, &sel); err != nil {
				return err
			}
			r, err := d.compare(args)
			if err != nil {
				return err
			}
			if d.last == nil {
				warnUnplanned(a, cmd.Flags())
			}
			if err := r.Check(parsed); err != nil {
				return cli.Usage("--fail-if %w", err)
			}
			if err := diff.Write(a.Out, format, r, diffRows(format, a.Global.Verbose)); err != nil {
				return err
			}
			if err := a.Next(format, d.afterDiff(args[1])); err != nil {
				return err
			}
			return failed(r)
		},
	}
	sel.RegisterGraph(cmd.Flags())
	moves.Register(cmd.Flags(), option.LinkOfDevice)
	cmd.Flags().StringVar(&model, "model", "", "the model of the plan files: they are followed, and all of their "+
		"results are compared")
	cmd.Flags().BoolVar(&unlike, "unlike", false, "compare sides with other sizes of symbols, or "+
		"other meanings of measures, too")
	cmd.Flags().StringArrayVar(&conditions, "fail-if", nil, "'FIELD>+N%': end with exit code 8 if that is so "+
		"(repeatable)")
	return cmd
}

// measureHelp lists the measures for help.
func measureHelp() string {
	var b strings.Builder
	for _, m := range diff.Measures() {
		fmt.Fprintf(&b, "  %-11s %s\n", m.Name, m.Doc)
	}
	return b.String()
}

// The most changes of a kind that are listed: in a table without -v, and in a comment, which GitHub
// limits to 65,536 characters.
const (
	diffTableRows   = 10
	diffCommentRows = 50
)

func diffRows(f report.Format, verbose bool) int {
	switch {
	case f == report.MarkdownFormat:
		return diffCommentRows
	case verbose:
		return -1
	}
	return diffTableRows
}

// failed is the error of conditions that are met.
func failed(r *diff.Result) error {
	if len(r.Failed) == 0 {
		return nil
	}
	var parts []string
	for _, f := range r.Failed {
		parts = append(parts, fmt.Sprintf("%s: %s", f.Condition, f.Why))
	}
	text := "--fail-if " + strings.Join(parts, "; ")
	if blame := r.Blame(); blame != "" {
		text += "; " + blame
	}
	return &cli.ExitError{Code: cli.ExitEarly, Err: errors.New(text)}
}

// warnUnplanned warns about flags of planning where no plan was made.
func warnUnplanned(a *cli.App, flags *pflag.FlagSet) {
	var idle []string
	flags.Visit(func(f *pflag.Flag) {
		own := f.Name == "fail-if" || f.Name == "unlike"
		if f.Name == "dim" || !own && flags.Lookup(f.Name) != nil && !isGlobal(f.Name) {
			idle = append(idle, "--"+f.Name)
		}
	})
	if len(idle) > 0 {
		a.Warn("%s: no effect where no model is planned; plan files are planned with --model MODEL",
			strings.Join(idle, ", "))
	}
}

// isGlobal reports whether a flag is one of all verbs.
func isGlobal(name string) bool {
	return slices.Contains([]string{"output", "color", "quiet", "verbose", "strict", "seed", "threads"}, name)
}

// differ reads and plans the sides of a comparison.
type differ struct {
	*cli.App
	sel    *option.SelectionFlags
	moves  *plancmd.Moves // that models which are planned may have; nil for no moves
	model  string
	unlike bool           // sizes may differ
	last   *option.Chosen // of the last model that was planned; nil where no model was
	second bool           // that model is the second side, a file of its own
}

// side is one side before anything is planned.
type side struct {
	name    string
	model   string            // to be planned; "" for a report
	stream  io.Reader         // that the model is read from; nil: model is its name
	record  *recompute.Record // of the plan file that the model follows; nil leaves it to the flags
	subject *diff.Subject     // of a report
	dims    map[string]int64  // that the side has of itself
}

func (d *differ) compare(args []string) (*diff.Result, error) {
	var sides [2]side
	for i, name := range args {
		var close func()
		var err error
		if sides[i], close, err = d.open(name); err != nil {
			return nil, err
		}
		defer close()
	}
	for i := range sides {
		err := d.within(i == 0 && sides[0].model != "" && sides[1].model != "", func() error {
			return d.plan(&sides[i], sides[1-i].dims)
		})
		if err != nil {
			return nil, err
		}
	}
	if err := diff.Like(sides[0].subject, sides[1].subject); err != nil && !d.unlike {
		return nil, cli.Usage("%w; --unlike compares them all the same", err)
	}
	r, err := diff.Compare(sides[0].subject, sides[1].subject)
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	return r, nil
}

// within plans a side, in half of the time that is left where the other one is planned as well.
func (d *differ) within(half bool, plan func() error) error {
	if !half {
		return plan()
	}
	whole := d.Search
	search, done := timelimit.Share(whole, 0.5)
	defer func() {
		done()
		d.Search = whole
	}()
	d.Search = search
	return plan()
}

// maxReport is the size of the largest plan file or report that is read: those of graphs of a
// million nodes stay below it.
const maxReport = 256 << 20

// headSize is how much of a file tells whether it is JSON.
const headSize = 64

// open finds out the kind of one side, and reads it if it is JSON. The caller calls close in the end.
func (d *differ) open(name string) (s side, close func(), err error) {
	close = func() {}
	if example, ok := strings.CutPrefix(name, memopt.ExamplePrefix); ok {
		ex, _ := examples.Lookup(example)
		return side{name: name, model: name, dims: ex.Dims}, close, nil
	}
	if name == cli.StreamName {
		s, err = d.piped(name, d.In)
		return s, close, err
	}
	f, info, err := inputfile.Open(name, inputfile.Unlimited)
	if err != nil {
		return s, close, cli.Usage("%w", err)
	}
	close = func() { f.Close() }
	if info.Mode()&fs.ModeNamedPipe != 0 {
		s, err = d.piped(name, f)
		return s, close, err
	}
	head := make([]byte, headSize)
	if n, _ := f.ReadAt(head, 0); !diff.IsJSON(head[:n]) {
		return side{name: name, model: name}, close, nil
	}
	data, err := inputfile.Read(name, maxReport)
	if err != nil {
		return s, close, cli.Usage("%w", err)
	}
	s, err = d.report(name, data)
	return s, close, err
}

// piped reads a side that can be read once.
func (d *differ) piped(name string, r io.Reader) (side, error) {
	in := bufio.NewReader(r)
	if head, _ := in.Peek(headSize); !diff.IsJSON(head) {
		return side{name: name, model: cli.StreamName, stream: in}, nil
	}
	data, err := inputfile.ReadAll(in, 0, maxReport)
	if err != nil {
		return side{}, cli.Usage("%s: %w", name, err)
	}
	return d.report(name, data)
}

// report reads a side that is JSON; a plan file is followed where its model is given.
func (d *differ) report(name string, data []byte) (side, error) {
	s, err := diff.Parse(data, name)
	if err != nil {
		return side{}, cli.Usage("%w", err)
	}
	if s.Kind != diff.FileKind || d.model == "" {
		return side{name: name, subject: s}, nil
	}
	r, err := configs.ParsePlan(data, name)
	if err != nil {
		return side{}, cli.Usage("%w", err)
	}
	return side{name: name, model: d.model, record: r, dims: r.Dims}, nil
}

// plan plans a side that is a model. It takes the sizes that the flags do not say from the side
// itself, or from the other one.
func (d *differ) plan(s *side, others map[string]int64) error {
	if s.model == "" {
		return nil
	}
	dims := maps.Clone(others)
	if dims == nil {
		dims = map[string]int64{}
	}
	maps.Copy(dims, s.dims)
	name := s.name
	if s.record != nil {
		name += " in " + d.model
	}
	how := option.Planning{Record: s.record, Reading: load.Reading{Dims: dims, Stream: s.stream}}
	if moves := d.movesOf(s); moves != nil {
		return d.planMoves(s, name, how, moves)
	}
	p, c, err := plancmd.MakePlan(d.App, s.model, d.sel, how)
	if err != nil {
		return named(s.name, err)
	}
	defer p.Of.Close()
	d.last, d.second = c, s.record == nil
	d.Note("%s: step: %s", name, c.Step.Text)
	if len(p.Unbound) > 0 {
		d.Warn("%s: no bytes are known: bind %s with %s", name, strings.Join(p.Unbound, ", "),
			d.BindFlag(c.File, p.Unbound))
	}
	s.subject, err = diff.OfPlan(p, name)
	return cli.Classify(err)
}

// movesOf are the moves that a side may have; nil for no moves.
func (d *differ) movesOf(s *side) *plancmd.Moves {
	switch {
	case s.record == nil:
		return d.moves
	case s.record.MovedRecord != nil:
		return plancmd.MovesOf(s.record)
	}
	return nil
}

// planMoves is plan for a side whose values move to the host.
func (d *differ) planMoves(s *side, name string, how option.Planning, moves *plancmd.Moves) error {
	p, c, err := plancmd.MakeMoves(d.App, s.model, d.sel, how, moves)
	if err != nil {
		return named(s.name, err)
	}
	defer p.Plan.Of.Close()
	d.last, d.second = c, s.record == nil
	d.Note("%s: step: %s", name, c.Step.Text)
	s.subject, err = diff.OfMoves(p, name)
	return cli.Classify(err)
}

// named puts the name of a side in front of an error, which keeps its code.
func named(name string, err error) error {
	var e *cli.ExitError
	if !errors.As(err, &e) || strings.Contains(e.Err.Error(), name) {
		return err
	}
	return &cli.ExitError{Code: e.Code, Err: cli.Wrap(name, e.Err)}
}

// afterDiff explains the second side, where it is a model.
func (d *differ) afterDiff(name string) *cli.NextCommand {
	if d.last == nil || !d.second || len(d.Ranges()) > 0 {
		return nil
	}
	n := &cli.NextCommand{Verb: "explain", Args: []string{name},
		Dims: d.Examples(d.last.File, cli.Unbound(d.last.File))}
	return n.About(d.last.Step)
}
