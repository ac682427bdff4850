package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// printUsage writes how a command is used, its flags wrapped to the terminal. It is a function, and no template of
// cobra's: a program with text/template keeps all exported methods of all types, 1.8 MB of this one.
func printUsage(cmd *cobra.Command) error {
	var b strings.Builder
	section := func(title string, lines ...string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n\n%s\n%s", title, strings.Join(lines, "\n"))
		}
	}
	b.WriteString("Usage:")
	if cmd.Runnable() {
		b.WriteString("\n  " + cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n  " + cmd.CommandPath() + " [command]")
	}
	if cmd.HasExample() {
		section("Examples:", cmd.Example)
	}
	for _, g := range cmd.Groups() {
		section(g.Title, listed(cmd, g.ID)...)
	}
	others := "Additional Commands:"
	if len(cmd.Groups()) == 0 {
		others = "Available Commands:"
	}
	section(others, listed(cmd, "")...)
	if cmd.HasAvailableLocalFlags() {
		section("Flags:", wrapped(cmd.LocalFlags()))
	}
	if cmd.HasAvailableInheritedFlags() {
		section("Global Flags:", wrapped(cmd.InheritedFlags()))
	}
	section("Additional help topics:", topics(cmd)...)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\nUse \"%s [command] --help\" for more information about a command.", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String()+"\n")
	return err
}

// listed are the commands of a group, by their names.
func listed(cmd *cobra.Command, group string) (lines []string) {
	for _, c := range cmd.Commands() {
		if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
			lines = append(lines, fmt.Sprintf("  %-*s %s", c.NamePadding(), c.Name(), c.Short))
		}
	}
	return lines
}

// topics are the commands that are a text alone.
func topics(cmd *cobra.Command) (lines []string) {
	if !cmd.HasHelpSubCommands() {
		return nil
	}
	for _, c := range cmd.Commands() {
		if c.IsAdditionalHelpTopicCommand() {
			lines = append(lines, fmt.Sprintf("  %-*s %s", c.CommandPathPadding(), c.CommandPath(), c.Short))
		}
	}
	return lines
}

func wrapped(flags *pflag.FlagSet) string {
	return strings.TrimRight(flags.FlagUsagesWrapped(terminalWidth()), " \n")
}
