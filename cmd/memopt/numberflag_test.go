package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// TestNumberFlags: every flag of a number, of every verb, refuses what lies outside its bounds, and
// its default lies within or stands for no value.
func TestNumberFlags(t *testing.T) {
	seen := map[string]bool{}
	for _, cmd := range command((&cli.App{})).Commands() {
		flags := []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()}
		for _, set := range flags {
			set.VisitAll(func(f *pflag.Flag) {
				if f.Value.Type() != "int" && f.Value.Type() != "float" && f.Value.Type() != "float64" {
					return
				}
				seen[f.Name] = true
				for _, text := range []string{"NaN", "Inf", "-Inf", "+Inf", "-1", "1e400", "", "x", "-1e-300",
					"99999999999999999999999x"} {
					err := f.Value.Set(text)
					require.Error(t, err, "memopt %s --%s %q", cmd.Name(), f.Name, text)
					require.ErrorContains(t, err, "wanted a ", "%s", f.Name)
				}
				require.Equal(t, f.DefValue, f.Value.String(), "what is refused changes nothing")
			})
		}
	}
	for _, name := range []string{"atol", "rtol", "peak-tolerance", "learning-rate", "adam-beta1", "weight-decay",
		"max-grad-norm",
		"effort", "threads", "repeat", "seeds", "pareto"} {
		require.True(t, seen[name], "%s", name)
	}
}

// TestNumberBounds: the ends of an interval belong to it or not, as its words say.
func TestNumberBounds(t *testing.T) {
	set := func(b cli.Bounds, text string) (float64, error) {
		var x float64
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		cli.NumberVar(f, &x, "x", "", 0.5, b, "")
		require.Equal(t, "0.5", f.Lookup("x").DefValue)
		err := f.Parse([]string{"--x", text})
		return x, err
	}
	x, err := set(cli.NotNegative, "0")
	require.NoError(t, err)
	require.Zero(t, x)
	x, err = set(cli.NotNegative, "1e300")
	require.NoError(t, err)
	require.Equal(t, 1e300, x)
	x, err = set(cli.ShareBelow1, "0.999")
	require.NoError(t, err)
	require.Equal(t, 0.999, x)
	x, err = set(cli.ShareBelow1, "1")
	require.ErrorContains(t, err, `"--x" flag: wanted a number of 0 or more, below 1`)
	require.Equal(t, 0.5, x)
	_, err = set(cli.Bounds{Least: 2, Most: 4}, "4")
	require.NoError(t, err)
	_, err = set(cli.Bounds{Least: 2, Most: 4}, "4.1")
	require.ErrorContains(t, err, "wanted a number from 2 to 4")
	_, err = set(cli.Bounds{Least: -1, Most: math.Inf(1)}, "-2")
	require.ErrorContains(t, err, "wanted a number of -1 or more")

	var n int
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	cli.NumberVar(f, &n, "n", "n", 1, cli.Positive, "")
	require.NoError(t, f.Parse([]string{"-n", "3"}))
	require.Equal(t, 3, n)
	require.ErrorContains(t, f.Parse([]string{"-n", "0"}), "wanted a whole number of 1 or more")
	require.ErrorContains(t, f.Parse([]string{"-n", "1.5"}), "wanted a whole number")
}

// TestNumbersAreUsage: flags and variables alike end with the code of usage and name the flag.
func TestNumbersAreUsage(t *testing.T) {
	most := cli.MaxThreads()
	for _, c := range []struct{ line, want string }{
		{"run example:mlp --atol NaN", "--atol"}, {"verify example:mlp --rtol Inf", "--rtol"},
		{"run example:mlp --peak-tolerance -1", "--peak-tolerance"},
		{"grad example:mlp -o x --optimizer sgd --lr Inf", "--learning-rate"},
		{"grad example:mlp -o x --optimizer adam --beta2 1", "--adam-beta2"},
		{fmt.Sprintf("plan example:mlp --threads %d", most+1), fmt.Sprintf("from 0 to %d", most)},
		{"run example:mlp --threads 3000000", "--threads"},
	} {
		got := inProcess(t.Context(), nil, c.line)
		require.Equal(t, cli.ExitUsage, got.code, c.line)
		require.Contains(t, got.errors, c.want, c.line)
	}
	var errs bytes.Buffer
	code := runUntil(t.Context(), &cli.Keeper{}, []string{"run", "example:mlp"},
		cli.Stdio{In: nil, Out: io.Discard, Err: &errs},
		[]string{"MEMOPT_RTOL=NaN"})
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs.String(), "MEMOPT_RTOL: ")
	require.Contains(t, errs.String(), "wanted a number of 0 or more")
}
