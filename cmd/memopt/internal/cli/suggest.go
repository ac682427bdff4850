package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"memopt/internal/nearmiss"
)

// Suggest is the part of a message that suggests the name that may have been meant, for example " (did you mean
// --budget?)"; "" if no name is similar.
func Suggest(given string, names []string) string {
	if near := nearest(given, names); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}

// nearest returns the name most similar to a misspelt one, or "". It ignores case.
func nearest(given string, names []string) string {
	for _, name := range names {
		if strings.EqualFold(name, given) {
			return name
		}
	}
	return nearmiss.Find(given, names)
}

func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Subcommand returns the visible verb or topic of a name, or nil.
func Subcommand(root *cobra.Command, name string) *cobra.Command {
	for _, cmd := range root.Commands() {
		if cmd.Name() == name && !cmd.Hidden {
			return cmd
		}
	}
	return nil
}
