package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/hint"
)

// TestFlagOf: each option that the library advises about has a flag, which a verb really has; where
// the words name a verb, that one has it.
func TestFlagOf(t *testing.T) {
	root := command((&cli.App{}))
	for o := range hint.NumOptions {
		words := strings.Fields(o.String())
		require.NotEmpty(t, words, "%v has no flag", o)
		verb := ""
		if len(words) > 1 {
			verb = words[len(words)-2]
		}
		require.True(t, hasFlag(root, verb, words[len(words)-1]), "%v: no verb %s has the flag %v", o, verb, words)
	}
	require.False(t, hasFlag(root, "", "--no-such-flag"))
	require.False(t, hasFlag(root, "inspect", "--budget"))
}

// hasFlag reports whether a verb, or any verb where verb is "", has a flag.
func hasFlag(c *cobra.Command, verb, flag string) bool {
	if verb == "" || c.Name() == verb {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			if name, long := strings.CutPrefix(flag, "--"); long && set.Lookup(name) != nil ||
				!long && set.ShorthandLookup(flag[1:]) != nil {
				return true
			}
		}
	}
	return slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return hasFlag(sub, verb, flag) })
}
