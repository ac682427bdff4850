package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// TestVariablesAreKnown: whatever variable of memopt's the code reads is in the list of those that
// mean something.
func TestVariablesAreKnown(t *testing.T) {
	known := cli.KnownVariables(command((&cli.App{})))
	read := regexp.MustCompile(`"(MEMOPT_[A-Z0-9_]+)"`)
	found := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range read.FindAllStringSubmatch(string(text), -1) {
			if found++; strings.HasPrefix(m[1], cli.TestPrefix) || m[1] == cli.VariablePrefix {
				continue
			}
			require.Contains(t, known, m[1], "%s: add it to the lists in variables.go", path)
		}
		return err
	}))
	require.Greater(t, found, 10)
	require.Contains(t, known, "MEMOPT_TIME_LIMIT")
	require.NotContains(t, known, "MEMOPT_HELP")
	require.True(t, slices.IsSorted(known))
}

func TestNewEnvironment(t *testing.T) {
	e := cli.NewEnvironment([]string{"A=1", "B=x=y", "C=", "nothing"})
	require.Equal(t, cli.Environment{"A": "1", "B": "x=y", "C": ""}, e)
	require.Equal(t, []string{"A", "B", "C"}, e.Names())
}

func TestFirstWord(t *testing.T) {
	root := command((&cli.App{}))
	for args, want := range map[string]string{
		"plan --level 1":                     "plan",
		"-O json -q plan x":                  "plan",
		"-Ojson plan":                        "plan",
		"--output json --quiet plan":         "plan",
		"--output=json plan":                 "plan",
		"--unknown value plan":               "plan",
		"-x value plan":                      "plan",
		"-qv plan":                           "plan",
		"-q -":                               "-",
		"--dim a=1,b=2 --dim c=3 plan --dim": "plan",
		"-q -- plan":                         "",
		"--version":                          "",
		"":                                   "",
	} {
		require.Equal(t, want, firstWord(root, strings.Fields(args)), args)
	}
}
