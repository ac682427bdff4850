package memopt_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestREADME runs the commands of the README's console blocks one after the other and
// compares what they print with what the README shows. UPDATE_README=1 writes the real output into the
// README.
func TestREADME(t *testing.T) {
	const path = "README.md"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	dir := t.TempDir()
	bin := filepath.Join(dir, "memopt")
	out, err := exec.Command("go", "build", "-o", bin, "./cmd/memopt").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.CopyFS(filepath.Join(dir, "configs"), os.DirFS("configs")))

	real := fillConsole(t, string(text), func(args []string) string {
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		var b bytes.Buffer
		cmd.Stdout, cmd.Stderr = &b, &b
		require.NoError(t, cmd.Run(), "memopt %s: %s", strings.Join(args, " "), b.String())
		return b.String()
	})
	if os.Getenv("UPDATE_README") != "" {
		require.NoError(t, os.WriteFile(path, []byte(real), 0o644))
		return
	}
	require.Equal(t, real, string(text), "the README shows other output than memopt prints; UPDATE_README=1 go test . updates it")
}

// fillConsole replaces the output in every console block by what run returns for its commands. Long output is
// cut as the README shows it: the number of lines between markers stays the same.
func fillConsole(t *testing.T, text string, run func(args []string) string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```console"):
			inside = true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside && strings.HasPrefix(line, "$ memopt "):
			b.WriteString(line)
			b.WriteString(console(run(strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "$ memopt ")))))
			continue
		case inside:
			continue
		}
		b.WriteString(line)
	}
	require.False(t, inside, "a console block is never closed")
	return b.String()
}

// maxConsole is the number of lines that the README shows of a command's output, maxWidth of its columns.
const (
	maxConsole = 36
	maxWidth   = 150
)

// measured are the lines of a report that differ from run to run; their numbers are left out.
var (
	measured = regexp.MustCompile(`^(time of a step|process) .*`)
	number   = regexp.MustCompile(` +[0-9.]+ (ms|times|[KMG]iB)`)
)

// console cuts output to what a README should show.
func console(out string) string {
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	if len(lines) > maxConsole {
		lines = append(lines[:maxConsole], "…")
	}
	var b strings.Builder
	for _, line := range lines {
		line = strings.TrimRight(measured.ReplaceAllStringFunc(line, func(s string) string {
			return number.ReplaceAllStringFunc(s, func(n string) string { return strings.Repeat(" ", len(n)-1) + "…" })
		}), " ")
		if r := []rune(line); len(r) > maxWidth {
			line = string(r[:maxWidth-1]) + "…"
		}
		if line != "" || b.Len() > 0 {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
