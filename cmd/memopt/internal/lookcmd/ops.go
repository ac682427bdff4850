package lookcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"memopt/autograd"
	"memopt/cmd/memopt/internal/cli"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda"
	"memopt/graph/op"
	"memopt/view/report"
)

// missingKernel says why an operator has no CPU kernel; "": it has one, or runs without.
func missingKernel(info *op.Info) string {
	if executor.RunsItself(info.Kind) {
		return ""
	}
	return cpu.Of(info.Kind).Why
}

// hostOnCUDA says why the host runs an operator with -e cuda; "": the device does.
func hostOnCUDA(info *op.Info) string { return cuda.OnHost(info.Kind) }

// gradientOf says how autograd treats an operator.
func gradientOf(info *op.Info) string {
	row := autograd.Of(info.Kind)
	switch {
	case row.None != "":
		return "none: " + row.None
	case row.Why != "":
		return "no rule: " + row.Why
	case row.Expand != nil:
		return "through its function body" + operandNotes(row)
	}
	return "rule" + operandNotes(row)
}

// operandNotes says which inputs have no gradient though they may be floats, and which have one that the
// rule does not make.
func operandNotes(row *autograd.Row) string {
	var notes []string
	for _, o := range row.Operands {
		switch {
		case o.None != "":
			notes = append(notes, fmt.Sprintf("input %d has no gradient: %s", o.Slot, o.None))
		case o.Why != "":
			notes = append(notes, fmt.Sprintf("input %d has a gradient that is not made: %s", o.Slot, o.Why))
		}
	}
	if len(notes) == 0 {
		return ""
	}
	return ": " + strings.Join(notes, "; ")
}

// OperatorNames lists the operators of the table.
func OperatorNames() []string {
	var names []string
	for _, info := range op.Named("") {
		names = append(names, info.Name)
	}
	return names
}

func Ops(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "ops [NAME]",
		Short: "Show memopt's knowledge of each operator",
		Long: `ops prints the rows of the operator tables: versions, the recompute class,
whether the output is a view or may be written in place, whether the CPU
executor has a kernel (or why not), whether the CUDA device has one (or why the
host runs it instead), whether it can be differentiated, and the probe level
with which ONNX Runtime recomputes it. For a single operator it also explains
where its nodes run with -e cuda.`,
		Example: `  memopt ops
        all operators
  memopt ops Softmax
        one operator, in every domain that has it`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			format, err := report.ParseFormat(a.Global.Output)
			if err != nil {
				return cli.Usage("%w", err)
			}
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			rows := op.Named(name)
			if len(rows) == 0 {
				return cli.Usage("ops %s: the table has no such operator%s; list them with memopt ops",
					name, cli.Suggest(name, OperatorNames()))
			}
			return report.Ops(a.Out, format, rows,
				report.OpFacts{CPU: missingKernel, CUDA: hostOnCUDA, Gradient: gradientOf, Words: name != ""})
		},
	}
}
