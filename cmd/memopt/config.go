package main

import (
	"cmp"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt/cmd/memopt/internal/cli"
	"memopt/configs"
	"memopt/view/report"
)

func configCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show every setting's value and where it comes from",
		Long:  "config shows the values of memopt's flags: memopt config show.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usage("%s needs a command: memopt config show [VERB]",
				cmd.CommandPath())
		},
	}
	cmd.AddCommand(configShowCommand(a))
	return cmd
}

func configShowCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "show [VERB] [FLAGS]",
		Short: "Show every flag's value and where it comes from",
		Long: `config show lists every flag of a verb, or of all verbs, with the value that it
has and where that comes from: the flag itself, where it stands behind the
verb; a variable of its name, such as MEMOPT_THREADS; a variable of
ORTModule's; or the default. A flag beats its variable, that beats ORTModule's,
and that the default. Settings that differ from the default come first.
Variables that are set and stand for no flag follow (see memopt help
environment).

The command runs no verb and reads no file.`,
		Example: `  memopt config show
        all settings of all verbs
  memopt config show plan --level 1
        the settings of "memopt plan --level 1", here and now`,
		DisableFlagsInUseLine: true,
		DisableFlagParsing:    true, // the flags are those of the verb that is asked about
		ValidArgsFunction:     completeVerbs,
		PersistentPreRunE:     func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			verb, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			return configShow(a, cmd, verb, rest)
		},
	}
}

// configShow shows the settings of a verb, of all verbs if it is the root, with the arguments behind it on
// the command line.
func configShow(a *cli.App, show, verb *cobra.Command, args []string) error {
	if !verb.HasParent() {
		if word := firstWord(verb, args); word != "" {
			return noCommand(verb, []string{word})
		}
	} else if !verb.Runnable() || verb.DisableFlagParsing {
		return cli.Usage("config show %s: it has no settings", verb.Name())
	}
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return show.Help()
	}
	if err := verb.ParseFlags(args); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return wrongFlag(a, verb, err)
	}
	given := map[string]bool{}
	verb.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if err := a.TakeVariables(verb); err != nil {
		return err
	}
	if err := a.CheckColor(); err != nil {
		return err
	}
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	a.WarnVariables(verb.Root())
	name, list := verb.Name(), verbSettings(a, verb, given)
	if !verb.HasParent() {
		name, list = "", allSettings(a, verb, given)
	}
	return report.Config(a.Out, format, name, append(list, otherVariables(a)...))
}

// allSettings lists the flags of all verbs, by name; those of one name whose values differ, one
// after the other.
func allSettings(a *cli.App, root *cobra.Command, given map[string]bool) []report.Setting {
	list := verbSettings(a, root, given)
	global := len(list)
	var faults []string
	for _, verb := range root.Commands() {
		if !verb.IsAvailableCommand() {
			continue
		}
		if err := a.TakeVariables(verb); err != nil {
			if !slices.Contains(faults, err.Error()) {
				faults = append(faults, err.Error())
				a.Warn("%v: verbs with that flag refuse it", err)
			}
		}
		for _, s := range ownSettings(a, verb) {
			at := slices.IndexFunc(list[global:], func(have report.Setting) bool {
				return have.Flag == s.Flag && have.Value == s.Value && have.From == s.From
			})
			if at < 0 {
				list = append(list, s)
				continue
			}
			list[global+at].Verbs = append(list[global+at].Verbs, verb.Name())
		}
	}
	slices.SortStableFunc(list[global:], func(x, y report.Setting) int {
		return cmp.Compare(x.Flag,
			y.Flag)
	})
	return list
}

// ownSettings lists the flags that are a verb's own, as variables set them.
func ownSettings(a *cli.App, verb *cobra.Command) []report.Setting {
	var list []report.Setting
	verb.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if cli.HasVariable(f) {
			s := settingOf(a, verb, f, nil)
			s.Verbs = []string{verb.Name()}
			list = append(list, s)
		}
	})
	return list
}

// verbSettings lists all flags of a verb, global ones included; given are those on the command line.
func verbSettings(a *cli.App, verb *cobra.Command, given map[string]bool) []report.Setting {
	list := []report.Setting{}
	verb.Flags().VisitAll(func(f *pflag.Flag) {
		if !cli.HasVariable(f) || f.Hidden {
			return
		}
		s := settingOf(a, verb, f, given)
		if s.Verbs = []string{}; verb.HasParent() &&
			verb.Root().PersistentFlags().Lookup(f.Name) == nil {
			s.Verbs = []string{verb.Name()}
		}
		list = append(list, s)
	})
	return list
}

// settingOf returns the value of a verb's flag and its source.
func settingOf(a *cli.App, verb *cobra.Command, f *pflag.Flag, given map[string]bool) report.Setting {
	s := report.Setting{Flag: f.Name, Value: f.Value.String(), From: report.FromDefault,
		Variable: cli.FlagVariable(f.Name)}
	text, _ := a.Env(s.Variable)
	switch {
	case given[f.Name]:
		s.From = report.FromFlag
	case text != "":
		s.Value, s.From = text, report.FromVariable
	default:
		if name, value := ortModule(a, verb, f.Name); name != "" {
			s.Value, s.From, s.Variable = value, report.FromORTModule, name
		}
	}
	return s
}

// ortModule returns the variable of ORTModule's that sets a flag of a verb, and its value; ""
// for other flags.
func ortModule(a *cli.App, verb *cobra.Command, flag string) (name, value string) {
	f := verb.Flags()
	if f.Lookup("level") == nil || f.Lookup("config") == nil {
		return "", ""
	}
	for _, over := range []string{"plan", "budget", "budget-for", "pareto"} {
		if f.Changed(over) {
			return "", "" // these choose the recomputed nodes
		}
	}
	switch {
	case flag == "level" && !f.Changed("config"):
		name = configs.LevelVariable
	case flag == "config":
		name = configs.ConfigVariable
	}
	if value, _ = a.Env(name); value == "" {
		return "", ""
	}
	return name, value
}

// otherVariables lists the variables that are set and stand for no flag.
func otherVariables(a *cli.App) []report.Setting {
	var list []report.Setting
	for _, v := range cli.Variables {
		text, _ := a.Env(v.Name)
		if text != "" && v.Name != configs.LevelVariable && v.Name != configs.ConfigVariable {
			list = append(list, report.Setting{Value: text, From: report.FromVariable,
				Variable: v.Name,
				Verbs:    []string{}})
		}
	}
	return list
}
