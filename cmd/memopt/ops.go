package main

import (
	"github.com/spf13/cobra"

	"memopt/graph/op"
	"memopt/report"
)

func (a *app) opsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ops [NAME]",
		Short: "Say what memopt knows of each operator",
		Long: `ops prints the rows of the operator table: versions, whether the output is a
view or may be written in place, the recompute class, and at which probe level
ONNX Runtime recomputes it.`,
		Example: `  memopt ops
        all operators
  memopt ops Softmax
        one operator, in every domain that has it`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			format, err := report.ParseFormat(a.global.output)
			if err != nil {
				return usage("%w", err)
			}
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			rows := op.Named(name)
			if len(rows) == 0 {
				return usage("ops %s: the table has no such operator; memopt ops lists them", name)
			}
			return report.Ops(a.out, format, rows)
		},
	}
}
