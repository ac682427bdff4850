package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/configs"
)

// offered returns what a shell is offered behind a command line, without descriptions, and what
// cobra tells the shell to do with it: 0 to complete files if nothing fits, 2 space or 4 files not to
// be added.
func offered(t *testing.T, line ...string) (names []string, directive string) {
	t.Helper()
	var out strings.Builder
	code := runUntil(t.Context(), &cli.Keeper{}, append([]string{"__completeNoDesc"}, line...),
		cli.Stdio{In: strings.NewReader(""), Out: &out, Err: io.Discard}, nil)
	require.Zero(t, code)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

const nothingElse, files = ":4", ":0"

func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, writeForward("."))
	for _, c := range []struct {
		line      string // the last word is what has been typed; _ for nothing
		want      []string
		directive string
	}{
		{"plan --order _", []string{"auto", "file", "ort", "memory"}, nothingElse},
		{"plan --order=m", []string{"memory"}, nothingElse},
		{"plan x.onnx -O c", []string{"csv"}, nothingElse},
		{"-O json plan example:mlp --solver _", []string{"auto", "greedy", "lns"}, nothingElse},
		{"solve --solver e", []string{"exact"}, nothingElse},
		{"run -e _", []string{"cpu", "null", "cuda", "ort"}, nothingElse},
		{"plan --device rtx40", []string{"rtx4080", "rtx4090"}, files},
		{"plan exa", load.ExampleNames(), files},
		{"plan example:ml", []string{"example:mlp"}, files},
		{"plan _", []string{}, files},
		{"plan mod", []string{}, files},
		{"verify example:mlp example:cn", []string{"example:cnn"}, files},
		{"ops LayerNormali", []string{"LayerNormalization", "LayerNormalizationGrad"}, nothingElse},
		{"ops Softmax _", []string{}, nothingElse},
		{"version _", []string{}, nothingElse},
		{"plan example:transformer --dim _", []string{"batch=", "seq="}, ":6"},
		{"plan example:transformer --dim s", []string{"seq="}, ":6"},
		{"plan example:transformer --dim batch=8,_", []string{"batch=8,seq="}, ":6"},
		{"plan forward.onnx --dim _", []string{"batch="}, ":6"},
		{"plan static.onnx --dim _", []string{}, ":6"},
		{"plan absent.onnx --dim _", []string{}, ":6"},
		{"plan - --dim _", []string{}, ":6"},
		{"plan --dim _", []string{}, ":6"},
		{"plan --budget _", []string{}, nothingElse},
		{"plan --plan _", []string{}, files},
		{"plan --save-plan p", []string{}, files},
		{"run --init _", []string{}, files},
		{"config show ve", []string{"verify", "version"}, nothingElse},
		{"config show plan --l", []string{}, nothingElse},
		{"doctor --try -- _", []string{}, files},
	} {
		words := strings.Fields(c.line)
		last := &words[len(words)-1]
		*last = strings.TrimSuffix(*last, "_")
		names, directive := offered(t, words...)
		require.ElementsMatch(t, c.want, names, c.line)
		require.Equal(t, c.directive, directive, c.line)
	}
	names, _ := offered(t, "__")
	require.Empty(t, names, "hidden verbs are not offered")
	names, _ = offered(t, "")
	require.Contains(t, names, "plan")
}

// TestChoices: what is offered for a flag is what its error says that was wanted.
func TestChoices(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, writeForward("."))
	require.NoError(t, os.WriteFile("chain.json", []byte(exitFiles["chain.json"]), 0o600))
	writeGrid(t, sweepGrid)
	const mlp, job = " example:mlp --dim batch=8 ", " example:transformer --data example:text "
	lines := map[string]string{
		"output": "plan" + mlp, "color": "plan" + mlp, "level": "plan" + mlp, "order": "plan" + mlp,
		"budget-in": "plan" + mlp + "--budget 1G", "select": "plan" + mlp + "--budget 1G",
		"solver": "plan" + mlp + "--budget 1G", "chunk": "plan" + mlp + "--budget 1G",
		"solve solver": "solve chain.json -o s.json",
		"format":       "plan" + mlp, "trace format": "trace -o x" + mlp, "backend": "run" + mlp,
		"anchor":  "apply -o x.onnx" + mlp,
		"bitwise": "verify" + mlp, "mem-pattern": "run" + mlp, "cudnn-conv-use-max-workspace": "run" + mlp,
		"cudnn-conv-algo-search": "run" + mlp, "arena-extend-strategy": "run" + mlp, "ort-opt": "run" + mlp,
		"ort-arena": "run" + mlp, "ort-execution": "run" + mlp, "by": "inspect" + mlp,
		"optimizer": "grad -o x.onnx forward.onnx", "precision": "estimate" + mlp + "--gpu 1GiB",
		"on-nan": "train" + job, "lr-scheduler": "train" + job, "data-format": "train" + job,
		"last-batch": "train" + job, "on": "sweep grid.json -o out",
	}
	wanted := regexp.MustCompile(`(?:wanted|it must be) (?:one of )?(.*)`)
	for flag, choices := range flagChoices {
		line, ok := lines[flag]
		require.True(t, ok, "no command line refuses a value of %s", flag)
		words := strings.Fields(flag)
		e := inProcess(t.Context(), nil, line+" --"+words[len(words)-1]+" nonsense")
		require.NotZero(t, e.code, line)
		m := wanted.FindStringSubmatch(e.errors)
		require.NotNil(t, m, "%s: %s", line, e.errors)
		list := strings.FieldsFunc(strings.NewReplacer(" or ", ", ").Replace(m[1]), func(r rune) bool {
			return r == ',' || r == ' ' || r == '\n'
		})
		require.ElementsMatch(t, list, choices, "--%s: %s", flag, e.errors)
	}
	// Every flag of a table is one of a verb.
	root := command((&cli.App{}))
	for flag := range flagChoices {
		words := strings.Fields(flag)
		found := root.PersistentFlags().Lookup(flag) != nil
		for _, verb := range root.Commands() {
			found = found || (len(words) == 1 || verb.Name() == words[0]) &&
				verb.Flags().Lookup(words[len(words)-1]) != nil
		}
		require.True(t, found, flag)
	}
	require.True(t, slices.IsSorted(configs.DeviceNames()))
}
