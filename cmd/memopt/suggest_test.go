package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// TestSuggestedFlags: a flag of another verb is named with its verbs, words that are cut short find the flag, and
// former spellings are taken.
func TestSuggestedFlags(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"plan example:mlp --grad-accum 2", "did you mean --gradient-accumulation-steps?"},
		{"plan example:mlp --learning_rate 2", "did you mean --learning-rate?"},
		{"plan example:mlp --max-norm 2", "did you mean --max-grad-norm?"},
		{"fit example:mlp --budget 1GiB", "a flag of memopt plan, explain, diff, report, apply, "},
		{"fit example:mlp --warmup-steps 1", "a flag of memopt train"},
		{"estimate example:mlp --optimiser sgd", "did you mean --optimizer?"},
	} {
		got := inProcess(t.Context(), nil, c.line)
		require.Equal(t, cli.ExitUsage, got.code, c.line)
		require.Contains(t, got.errors, c.want, c.line)
	}
	require.False(t, abbreviates("max", "max-grad-norm"), "one word says too little")
	require.False(t, abbreviates("norm-max", "max-grad-norm"))
}

// TestSynonyms: a former spelling means the same as the present one, on the command line and as a variable.
func TestSynonyms(t *testing.T) {
	exitFolder(t)
	line := "plan forward.onnx --dim batch=4 --optimizer adamw -q -O json "
	now := inProcess(t.Context(), nil, line+"--learning-rate 0.1 --max-grad-norm 1 --freeze fc1* --adam-beta1 0.5")
	require.Zero(t, now.code, now.errors)
	old := inProcess(t.Context(), nil, line+"--lr 0.1 --clip-norm 1 --no-grad fc1* --beta1 0.5")
	require.Equal(t, now, old)
	other := inProcess(t.Context(), nil, line)
	require.NotEqual(t, now.out, other.out, "the flags matter")
	for name := range cli.Synonyms {
		require.Contains(t, cli.KnownVariables(command((&cli.App{}))), cli.FlagVariable(name))
	}
}
