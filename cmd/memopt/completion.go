package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt"
	"memopt/autograd"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/lookcmd"
	"memopt/cmd/memopt/internal/option"
	"memopt/cmd/memopt/internal/plancmd"
	"memopt/cmd/memopt/internal/sweepcmd"
	"memopt/configs"
	"memopt/executor"
	"memopt/graph/precision"
	"memopt/planner"
	"memopt/train/data"
	"memopt/train/schedule"
	"memopt/view/report"
)

// onOff are the values of flags that switch.
var onOff = []string{"on", "off"}

// flagChoices are the values that a flag takes, for completion: those of a verb's own before those
// of all verbs that have the flag. A test holds them to the flags' own checks.
var flagChoices = map[string][]string{
	"output":                       names(report.Formats),
	"color":                        {"auto", "always", "never"},
	"level":                        {"0", "1", "2"},
	"order":                        names(planner.OrderChoices),
	"budget-in":                    {"auto", "memopt", cli.OrtName, "ortmodule"},
	"select":                       {"nodes", "clusters", option.ModulesName},
	"chunk":                        option.ChunkModes,
	"solver":                       {"auto", "greedy", "lns"},
	"solve solver":                 {"auto", "greedy", "lns", "exact", "chain"},
	"format":                       {"memopt", "deeploy"},
	"trace format":                 plancmd.TraceFormats,
	"backend":                      {"cpu", "null", "cuda", cli.OrtName},
	"on":                           sweepcmd.SweepPlaces,
	"anchor":                       onOff,
	"bitwise":                      onOff,
	"mem-pattern":                  onOff,
	"cudnn-conv-use-max-workspace": onOff,
	"cudnn-conv-algo-search":       {"exhaustive", "heuristic", "default"},
	"arena-extend-strategy": {executor.NextPowerOfTwo.String(),
		executor.SameAsRequested.String()},
	"ort-opt":       {"disable", "basic", "extended", "all"},
	"ort-arena":     {"on", "exact", "off"},
	"ort-execution": {"sequential", "parallel"},
	"by":            {"op", "node", "layer", "category"},
	"optimizer":     append(slices.Clone(autograd.OptimizerKinds), "none"),
	"precision":     names(precision.Precisions),
	"on-nan":        {"stop", "skip"},
	"lr-scheduler":  schedule.Kinds,
	"data-format":   append([]string{"auto"}, data.Formats()...),
	"last-batch":    {"keep", "drop", "pad"},
}

// names returns named texts as texts.
func names[T ~string](list []T) []string {
	var all []string
	for _, name := range list {
		all = append(all, string(name))
	}
	return all
}

// completing reports whether a shell asks for completions. Only then are flags given completions:
// cobra keeps these for as long as the program runs.
func completing(a *cli.App) bool {
	return len(a.Args) > 0 &&
		(a.Args[0] == cobra.ShellCompRequestCmd || a.Args[0] == cobra.ShellCompNoDescRequestCmd)
}

// completes gives a verb and its flags their completions. Flags that name files
// keep the shell's completion, as models among arguments do; other texts get no completion.
func completes(a *cli.App, verb *cobra.Command) {
	if verb.ValidArgsFunction == nil && !verb.DisableFlagParsing {
		verb.ValidArgsFunction = func(verb *cobra.Command, args []string, begun string) ([]string,
			cobra.ShellCompDirective) {
			return completeArgument(a, verb, args, begun)
		}
	}
	if completing(a) {
		completeFlags(a, verb, verb.LocalNonPersistentFlags())
	}
}

func completeFlags(a *cli.App, verb *cobra.Command, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if complete := flagCompletion(a, verb, f); complete != nil {
			if err := verb.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
				panic(err) // a flag has one completion: this is a mistake in the program
			}
		}
	})
}

// flagCompletion returns the completion of a flag's values; nil leaves them to the shell, which completes file names.
func flagCompletion(a *cli.App, verb *cobra.Command, f *pflag.Flag) cobra.CompletionFunc {
	choices, ok := flagChoices[verb.Name()+" "+f.Name]
	if !ok {
		choices, ok = flagChoices[f.Name]
	}
	switch {
	case ok:
		return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return beginning(choices, begun), cobra.ShellCompDirectiveNoFileComp
		}
	case f.Name == "dim":
		return func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return completeDims(a, args, begun)
		}
	case f.Name == "device":
		return completeDevices
	case f.Name == "vary":
		return func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return completeVaried(a, args, begun)
		}
	case slices.Contains(cli.InputFlags, f.Name), slices.Contains(cli.OutputFlags, f.Name),
		slices.Contains(cli.PathFlags, f.Name):
		return nil
	}
	return cobra.NoFileCompletions
}

// beginning returns the names with the typed prefix.
func beginning(names []string, begun string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !strings.HasPrefix(name, begun)
	})
}

// completeArgument completes a verb's argument, if it takes one: a built-in model beside files, or an operator.
func completeArgument(a *cli.App,
	verb *cobra.Command, args []string, begun string,
) ([]string, cobra.ShellCompDirective) {
	switch what := cli.ReadsFiles[verb.Name()]; {
	case verb.Name() == "ops" && len(args) == 0:
		return slices.Compact(beginning(lookcmd.OperatorNames(), begun)), cobra.ShellCompDirectiveNoFileComp
	case strings.HasSuffix(what, " model") && begun != "":
		// Without a prefix, or without a match, the shell offers files.
		return beginning(load.ExampleNames(), begun), cobra.ShellCompDirectiveDefault
	case what == "" && !slices.Contains(takesCommand, verb.Name()):
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// takesCommand are the verbs that run another command.
var takesCommand = []string{"doctor"}

// completeDims offers the symbols of the model that the command line names, behind those that are
// bound already.
func completeDims(a *cli.App, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	at := strings.LastIndexByte(begun, ',') + 1
	var names []string
	for _, symbol := range symbolsOf(a, args) {
		if bound := "," + begun[:at]; !strings.Contains(bound, ","+symbol+"=") {
			names = append(names, begun[:at]+symbol+"=")
		}
	}
	return beginning(names, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeVaried offers the values of --vary: symbols, or the device.
func completeVaried(a *cli.App, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return beginning(append(symbolsOf(a, args), "device"), begun), cobra.ShellCompDirectiveNoFileComp
}

// symbolsOf lists the symbols of the model that the first argument names: an empty list without one, or if
// it cannot be read.
func symbolsOf(a *cli.App, args []string) []string {
	if len(args) == 0 || args[0] == cli.StreamName {
		return nil
	}
	m, err := load.Open(args[0], nil, memopt.Options{Warn: func(string) {}})
	if err != nil {
		return nil
	}
	defer m.Close()
	return m.Symbols()
}

// completeDevices offers the built-in profiles; a file is one, too.
func completeDevices(
	_ *cobra.Command, _ []string, begun string,
) ([]string, cobra.ShellCompDirective) {
	return beginning(configs.DeviceNames(), begun), cobra.ShellCompDirectiveDefault
}

// completeVerbs offers the verbs that have settings.
func completeVerbs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, verb := range cmd.Root().Commands() {
		if verb.GroupID != "" && verb.Runnable() {
			names = append(names, verb.Name()+"\t"+verb.Short)
		}
	}
	return beginning(names, begun), cobra.ShellCompDirectiveNoFileComp
}
