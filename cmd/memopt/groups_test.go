package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// TestEveryVerbHasAGroup: help lists verbs in groups, in the table's order, and none besides.
func TestEveryVerbHasAGroup(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"help"}, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errs}, nil), "%s",
		errs.String())
	text := out.String()
	require.NotContains(t, text, "Additional Commands")

	a := &cli.App{}
	at := strings.Index(text, "Examples:")
	listed := 0
	for _, g := range verbGroups(a) {
		require.NotEmpty(t, g.verbs, g.title)
		for _, line := range append([]string{"\n" + g.title}, lines(g)...) {
			next := strings.Index(text[at:], line+"\n")
			require.GreaterOrEqual(t, next, 0, "%q is not where the table has it in\n%s", line, text)
			at += next
		}
		listed += len(g.verbs)
	}
	seen := 0
	for _, cmd := range command(a).Commands() {
		if cmd.IsAvailableCommand() {
			seen++
			require.NotEmpty(t, cmd.GroupID, "%s: add it to verbGroups in groups.go", cmd.Name())
		}
	}
	require.Equal(t, listed, seen)
	for _, own := range []string{"completion", "help"} { // cobra's
		require.Contains(t, text[at:], "\n  "+own+" ")
	}
}

// lines are the ends of the lines of help that have a group's verbs.
func lines(g verbGroup) []string {
	var all []string
	for _, verb := range g.verbs {
		all = append(all, " "+verb.Short)
	}
	return all
}
