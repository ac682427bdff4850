package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// TestHelpFits: lists of flags and topics fit into the columns of a terminal as it opens, and every
// verb has an example.
func TestHelpFits(t *testing.T) {
	for _, cmd := range command((&cli.App{})).Commands() {
		if cmd.Hidden {
			continue
		}
		text, width := cmd.UsageString(), terminalWidth()+12 // pflag lets the end of an entry hang over
		if !cmd.Runnable() {
			text, width = cmd.Long, cli.HelpWidth
		} else if cmd.Flags().HasAvailableFlags() && strings.Contains(cmd.Use, " ") {
			require.NotEmpty(t, cmd.Example, cmd.Name())
		}
		if at := strings.Index(text, "\nFlags:\n"); at >= 0 {
			text = text[at:]
		}
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), width, "%s: %s",
				cmd.Name(), line)
		}
	}
}
