package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
)

// TestBudgetSearch: what the flags of a search come to. With a limit of 0 the first plan that fits
// TestEffort: without --effort, a fifth of the time is spent on work that is counted; without time the
// first answer is asked for.
func TestEffort(t *testing.T) {
	for args, want := range map[string]struct {
		effort float64
		limit  time.Duration
	}{
		"":                              {2, 10 * time.Second},
		"--time-limit 2m":               {24, 2 * time.Minute},
		"--time-limit 3":                {0.6, 3 * time.Second},
		"--time-limit 0":                {0, 0},
		"--time-limit 0s":               {0, 0},
		"--effort 5":                    {5, 10 * time.Second},
		"--effort 5 --time-limit 0":     {0, 0},
		"--effort 0 --time-limit 1s":    {0.2, time.Second},
		"--effort 0.5 --time-limit 20s": {0.5, 20 * time.Second},
	} {
		var b option.BudgetFlags
		flags := pflag.NewFlagSet("plan", pflag.ContinueOnError)
		b.Register(flags)
		require.NoError(t, flags.Parse(strings.Fields(args)))
		a := &cli.App{Stdio: cli.Stdio{In: nil, Out: io.Discard, Err: io.Discard}}
		got, err := b.Search(a)
		require.NoError(t, err, args)
		require.Equal(t, want.effort, got.Effort, args)
		require.Equal(t, want.limit, b.Limit, args)
	}
	for _, wrong := range []string{"-1s", "soon", "", "1e400", "10 s"} {
		var l cli.LimitFlags
		flags := pflag.NewFlagSet("plan", pflag.ContinueOnError)
		l.Register(flags)
		require.ErrorContains(t, flags.Set(cli.LimitName, wrong), "wanted a duration such as 10s, 2m or 30, or 0",
			wrong)
	}
}

// TestShareLike: a fraction in place of a budget is meant as a share.
func TestShareLike(t *testing.T) {
	for text, want := range map[string]string{"0.5": "50%", " 0.625 ": "62.5%", "1": "50%", "0": "50%", "-0.5": "50%",
		"lots": "50%", "1.5": "50%", "0.333333": "33.33%"} {
		require.Equal(t, want, option.ShareLike(text), text)
	}
}
