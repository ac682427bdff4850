package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// shellWords splits a command as a shell does: at blanks, with texts in apostrophes whole.
func shellWords(t *testing.T, line string) (words []string) {
	word, quoted, begun := "", false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\'':
			quoted = false
		case quoted:
			word += string(c)
		case c == '\'':
			quoted, begun = true, true
		case c == '\\':
			i++
			word, begun = word+string(line[i]), true
		case c == ' ' && begun:
			words, word, begun = append(words, word), "", false
		case c != ' ':
			require.NotContains(t, "$*?[]<>|&;()\"#~!{}`", string(c), "a shell reads it otherwise: %s", line)
			word, begun = word+string(c), true
		}
	}
	require.False(t, quoted, line)
	return append(words, word)
}

// suggested is the command in the last line of an answer; nil: there is none.
func suggested(t *testing.T, out string) []string {
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	text, found := strings.CutPrefix(lines[len(lines)-1], "next: memopt ")
	if !found {
		require.NotContains(t, out, "next: ")
		return nil
	}
	return shellWords(t, text)
}

// inProcessArgs runs a command line of words.
func inProcessArgs(args []string) ended {
	var out, errs bytes.Buffer
	code := runUntil(context.Background(), &cli.Keeper{}, args, cli.Stdio{In: nil, Out: &out, Err: &errs}, nil)
	return ended{code, out.String(), errs.String()}
}

// TestNext: the command that an answer ends with runs as it is.
func TestNext(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, writeForward("."))
	require.NoError(t, os.Rename("forward.onnx", "it's a net.onnx"))
	net := "it's a net.onnx|--dim|batch=2"
	opt := "-o|it's a net.opt.onnx"
	for _, c := range []struct{ line, want string }{
		{"inspect|it's a net.onnx", "plan|" + net},
		{"plan|it's a net.onnx", "plan|" + net},
		{"plan|" + net + "|--level|1", "apply|" + net + "|--level|1|" + opt},
		{"plan|" + net + "|--level|1|--save-plan|p.json", "apply|" + net + "|--plan|p.json|" + opt},
		{"plan|" + net + "|--budget|1MiB|--time-limit|0|--keep|*r|--keep|h|--optimizer|sgd",
			"apply|" + net + "|--budget|1MiB|--keep|*r|--keep|h|--optimizer|sgd|--time-limit|0s|" + opt},
		{"plan|" + net + "|--budget|1KiB", "plan|" + net},
		{"plan|" + net + "|--budget|1%|--optimizer|sgd", "plan|" + net + "|--optimizer|sgd"},
		{"plan|" + net, ""},
		{"explain|" + net + "|--level|1|--top|3",
			"apply|" + net + "|--level|1|--optimizer|adamw|--outputs|loss|" + opt},
		{"explain|" + net, ""},
		{"report|" + net + "|--level|1|-o|page.html|--pareto|0",
			"apply|" + net + "|--level|1|--optimizer|adamw|--outputs|loss|" + opt},
		{"apply|" + net + "|--level|1|-o|out.onnx|--freeze|fc1.*",
			"verify|" + net + "|--freeze|fc1.*|--level|1|--init|random:1"},
		{"verify|" + net + "|--level|1|--init|random:2", ""},
		{"run|" + net + "|--level|0|--init|random:2|--threads|1", ""},
		{"grad|it's a net.onnx|-o|step.onnx", "plan|step.onnx|--dim|batch=2"},
		{"estimate|" + net + "|--optimizer|none", "fit|" + net + "|--optimizer|none|--vary|device"},
		{"estimate|" + net + "|--gpu|1MiB|--reserve|0",
			"fit|it's a net.onnx|--gpu|1MiB|--reserve|0|--vary|batch"},
		{"fit|it's a net.onnx|--gpu|1MiB|--reserve|0|--vary|batch|--time-limit|0", ""},
		{"fit|it's a net.onnx|--gpu|1KiB|--reserve|0|--vary|batch|--time-limit|0", ""},
		{"fit|" + net + "|--vary|device|--time-limit|0", ""},
		{"diff|other.onnx|" + net, "explain|" + net + "|--optimizer|none|--outputs|*"},
		{"optimize|other.onnx|-o|small.onnx", "inspect|small.onnx"},
		{"examples", ""},
		{"train|example:transformer|--data|example:text|--max-steps|1|--batch|2|--dim|seq=16|--dry-run",
			"train|example:transformer|--dim|seq=16|--batch|2|--data|example:text|--max-steps|1"},
	} {
		args := strings.Split(c.line, "|")
		end := inProcessArgs(args)
		next := suggested(t, end.out)
		require.NotNil(t, next, "%s\n%s%s", c.line, end.out, end.errors)
		if c.want != "" {
			require.Equal(t, strings.Split(c.want, "|"), next, c.line)
		}
		end = inProcessArgs(next)
		require.Zero(t, end.code, "%q\n%s", next, end.errors)
	}
	for _, silent := range []string{"plan|other.onnx|-q", "plan|other.onnx|-O|json", "plan|other.onnx|-O|csv",
		"apply|other.onnx|--level|1|-o|-"} {
		require.NotContains(t, inProcessArgs(strings.Split(silent, "|")).out, "next: ", silent)
	}
	_, err := os.Stat("it's a net.opt.onnx")
	require.NoError(t, err)
}
