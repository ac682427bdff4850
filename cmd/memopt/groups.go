package main

import (
	"github.com/spf13/cobra"

	"memopt/cmd/memopt/internal/answercmd"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/forwardcmd"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/instancecmd"
	"memopt/cmd/memopt/internal/lookcmd"
	"memopt/cmd/memopt/internal/plancmd"
	"memopt/cmd/memopt/internal/runcmd"
	"memopt/cmd/memopt/internal/sweepcmd"
	"memopt/cmd/memopt/internal/traincmd"
)

// init keeps commands in the order of the groups below: help lists them as people need them, not by
// name.
func init() { cobra.EnableCommandSorting = false }

// verbGroup is a part of the list that help prints.
type verbGroup struct {
	title string // how its list begins; a group is known by it
	verbs []*cobra.Command
}

// programGroup has the verbs about the program itself, cobra's own commands among them.
const programGroup = "The program:"

// verbGroups is every verb in its group, groups and verbs in the order of their use.
// This is the one place where a verb joins the program.
func verbGroups(a *cli.App) []verbGroup {
	return []verbGroup{
		{"Answers before a run:", []*cobra.Command{
			answercmd.Estimate(a),
			answercmd.Fit(a),
			plancmd.Plan(a),
			plancmd.Explain(a),
			answercmd.Diff(a),
			plancmd.Report(a),
			answercmd.Doctor(a),
		}},
		{"Make it fit:", []*cobra.Command{
			plancmd.Apply(a),
			traincmd.Train(a),
			traincmd.Export(a),
			gradcmd.Grad(a),
		}},
		{"A smaller forward model:", []*cobra.Command{
			forwardcmd.Optimize(a),
			forwardcmd.Quantize(a),
		}},
		{"Prove it:", []*cobra.Command{
			runcmd.Run(a),
			runcmd.Verify(a),
			answercmd.Check(a),
		}},
		{"Many of these at once:", []*cobra.Command{
			sweepcmd.Sweep(a, func() *cobra.Command { return freshCommand(a) }),
		}},
		{"Look inside:", []*cobra.Command{
			plancmd.Trace(a),
			lookcmd.Inspect(a),
			lookcmd.Ops(a),
			lookcmd.Examples(a),
			answercmd.Devices(a),
		}},
		{"Other graphs and arenas:", []*cobra.Command{
			instancecmd.Solve(a),
			instancecmd.Pack(a),
		}},
		{programGroup, []*cobra.Command{
			configCommand(a),
			manCommand(a),
			versionCommand(a),
		}},
	}
}

// freshCommand is a tree of commands of its own; no variable stands for a flag there.
func freshCommand(a *cli.App) *cobra.Command {
	b := &cli.App{Stdio: a.Stdio, Environ: cli.Environment{}, Ctx: a.Ctx, Keeper: a.Keeper}
	return command(b)
}

// addVerbs gives the program its verbs.
func addVerbs(a *cli.App, root *cobra.Command) {
	for _, g := range verbGroups(a) {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, verb := range g.verbs {
			verb.GroupID = g.title
			cli.TakeSynonyms(verb)
			completes(a, verb)
			root.AddCommand(verb)
		}
	}
	if completing(a) {
		completeFlags(a, root, root.PersistentFlags())
	}
	root.SetHelpCommandGroupID(programGroup)
	root.SetCompletionCommandGroupID(programGroup)
}
