package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// TestManPages: every verb and topic has a page with all of its flags, whatever is written is a text
// or a request that man knows, and the bytes are always the same.
func TestManPages(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"a", "b"} {
		e := inProcess(t.Context(), nil, "man -o "+dir)
		require.Zero(t, e.code, e.errors)
		require.Empty(t, e.out)
	}
	root := command((&cli.App{}))
	root.InitDefaultCompletionCmd()
	pages := documented(root)
	require.Greater(t, len(pages), 15)
	for _, cmd := range pages {
		path := filepath.Join("man"+manSection(cmd), manName(cmd)+"."+manSection(cmd))
		data, err := os.ReadFile(filepath.Join("a", path))
		require.NoError(t, err)
		again, err := os.ReadFile(filepath.Join("b", path))
		require.NoError(t, err)
		require.Equal(t, data, again)
		text := string(data)
		require.Contains(t, text, `\- `+roff(cmd.Short))
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				require.Contains(t, text, `\fB`+roff("--"+f.Name)+`\fR`, path)
			}
		})
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			request, _, _ := strings.Cut(line, " ")
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				require.Contains(t, []string{".TH", ".SH", ".PP", ".TP", ".nf", ".fi"}, request, "%s: %s", path, line)
			}
		}
	}
	for _, path := range []string{"a/man1/memopt.1", "a/man1/memopt-plan.1", "a/man1/memopt-config-show.1",
		"a/man7/memopt-exit-codes.7", "a/man7/memopt-environment.7"} {
		require.FileExists(t, path)
	}
	require.NoFileExists(t, "a/man1/memopt-"+cli.OrtChildVerb+".1")
}

// TestManOnStandardOutput prints one page.
func TestManOnStandardOutput(t *testing.T) {
	e := inProcess(t.Context(), nil, "man plan")
	require.Zero(t, e.code)
	require.True(t, strings.HasPrefix(e.out, `.TH "MEMOPT\-PLAN" "1" ""`), e.out)
	e = inProcess(t.Context(), nil, "man")
	require.Contains(t, e.out, `\fBmemopt plan\fR`)
	e = inProcess(t.Context(), nil, "man pln")
	require.Equal(t, cli.ExitUsage, e.code)
	require.Contains(t, e.errors, "did you mean plan?")
	e = inProcess(t.Context(), nil, "man "+cli.OrtChildVerb)
	require.Equal(t, cli.ExitUsage, e.code)
	e = inProcess(t.Context(), nil, "man plan -o x")
	require.Equal(t, cli.ExitUsage, e.code)
	require.Contains(t, e.errors, "cannot be combined")
}

func TestRoff(t *testing.T) {
	require.Equal(t, `a\-b \(aqc\(aq`+"\n"+`\&.x \e \(ti`, roff("a-b 'c'\n.x \\ ~"))
	require.Equal(t, `\(aqx \[u2026]`, roff("'x …"))
	require.Equal(t, `"a \(dqb\(dq"`, roffArgument(`a "b"`))
}

// TestPagesRead: groff, where it is there, has nothing to complain of and shows what was written.
func TestPagesRead(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err == nil {
		err = exec.Command(groff, "-man", "-Tutf8").Run()
	}
	if err != nil {
		return // the tests above hold the pages to the requests that they may have
	}
	for _, cmd := range documented(command((&cli.App{}))) {
		run := exec.Command(groff, "-man", "-Tutf8", "-ww", "-P-cbou")
		run.Stdin = strings.NewReader(manPage(cmd))
		var out, errs strings.Builder
		run.Stdout, run.Stderr = &out, &errs
		require.NoError(t, run.Run())
		require.Empty(t, errs.String(), manName(cmd))
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				require.Contains(t, out.String(), "--"+f.Name, manName(cmd))
			}
		})
	}
}
