package main

import "github.com/spf13/cobra"

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
func (a *app) verbGroups() []verbGroup {
	return []verbGroup{
		{"Answers before a run:", []*cobra.Command{
			a.estimateCommand(),
			a.fitCommand(),
			a.planCommand(),
			a.explainCommand(),
			a.diffCommand(),
			a.reportCommand(),
			a.doctorCommand(),
		}},
		{"Make it fit:", []*cobra.Command{
			a.applyCommand(),
			a.trainCommand(),
			a.exportCommand(),
			a.gradCommand(),
		}},
		{"A smaller forward model:", []*cobra.Command{
			a.optimizeCommand(),
			a.quantizeCommand(),
		}},
		{"Prove it:", []*cobra.Command{
			a.runCommand(),
			a.verifyCommand(),
		}},
		{"Many of these at once:", []*cobra.Command{
			a.sweepCommand(func() *cobra.Command { return a.freshCommand() }),
		}},
		{"Look inside:", []*cobra.Command{
			a.traceCommand(),
			a.inspectCommand(),
			a.opsCommand(),
			a.examplesCommand(),
			a.devicesCommand(),
		}},
		{"Other graphs and arenas:", []*cobra.Command{
			a.solveCommand(),
			a.packCommand(),
		}},
		{programGroup, []*cobra.Command{
			a.configCommand(),
			a.manCommand(),
			a.versionCommand(),
		}},
	}
}

// freshCommand is a tree of commands of its own, in which no variable stands for a flag.
func (a *app) freshCommand() *cobra.Command {
	b := &app{stdio: a.stdio, environ: environment{}, ctx: a.ctx, keeper: a.keeper}
	return b.command()
}

// addVerbs gives the program its verbs.
func (a *app) addVerbs(root *cobra.Command) {
	for _, g := range a.verbGroups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, verb := range g.verbs {
			verb.GroupID = g.title
			takeSynonyms(verb)
			a.completes(verb)
			root.AddCommand(verb)
		}
	}
	if a.completing() {
		a.completeFlags(root, root.PersistentFlags())
	}
	root.SetHelpCommandGroupID(programGroup)
	root.SetCompletionCommandGroupID(programGroup)
}
