package memopt_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocs runs the commands of the console blocks of the README and of the pages in docs one after the other and
// compares what they print with what the pages show. UPDATE_README=1 writes the real output into the pages.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	dir := t.TempDir()
	bin := filepath.Join(dir, "memopt")
	out, err := exec.Command("go", "build", "-o", bin, "./cmd/memopt").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.CopyFS(filepath.Join(dir, "configs"), os.DirFS("configs")))
	forward, err := os.ReadFile("cmd/memopt/testdata/pytorch/gpt2/model.onnx") // a forward model with weights
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gpt2.onnx"), forward, 0o666))
	writePrograms(t, dir)

	verified := map[string]string{} // what verify printed of an example, for all pages that show it
	for _, path := range append(pages, "README.md") {
		t.Run(path, func(t *testing.T) { checkPage(t, bin, dir, path, verified) })
	}
}

// writePrograms writes steps that JAX compiled: one, and another with two policies of jax.checkpoint.
func writePrograms(t *testing.T, dir string) {
	z, err := zip.OpenReader("graph/hlo/testdata/steps.zip")
	require.NoError(t, err)
	defer z.Close()
	for name, as := range map[string]string{
		"mlp_sgd_donated": "step", "scan_mlp_remat": "old", "scan_mlp_dots": "new",
	} {
		data, err := fs.ReadFile(z, name+".hlo")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, as+".hlo"), data, 0o666))
	}
}

// checkPage runs the commands of one page in a folder, but for those that verified has.
func checkPage(t *testing.T, bin, dir, path string, verified map[string]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	files := shownFile.FindAllStringSubmatch(string(text), -1)
	for _, f := range files {
		if !strings.Contains(string(text), " -o "+f[1]) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, f[1]), []byte(f[2]), 0o666))
		}
	}
	real := fillConsole(t, string(text), func(args []string) string {
		line := strings.Join(args, " ")
		if printed, ok := verified[line]; ok {
			return printed
		}
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		if slices.Contains(comparing, args[0]) {
			cmd.Env = append(os.Environ(), "MEMOPT_OPENBLAS=off", "MEMOPT_DNNL=off")
		}
		var b bytes.Buffer
		cmd.Stdout, cmd.Stderr = &b, &b
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); !slices.Contains(answers, code) {
			require.NoError(t, err, "%s: memopt %s: %s", path, line, b.String())
		}
		if strings.HasPrefix(line, "verify example:") {
			verified[line] = b.String()
		}
		return b.String()
	})
	for _, f := range files {
		have, err := os.ReadFile(filepath.Join(dir, f[1]))
		require.NoError(t, err)
		real = strings.Replace(real, f[0], strings.TrimSuffix(f[0], f[2]+"```\n")+string(have)+"```\n", 1)
	}
	if os.Getenv("UPDATE_README") != "" {
		require.NoError(t, os.WriteFile(path, []byte(real), 0o644))
		return
	}
	require.Equal(t, real, string(text),
		"%s shows other output than memopt prints; UPDATE_README=1 go test . updates it", path)
}

// shownFile is a file in a page: its name, then its contents. Those that no command writes with -o
// are there for the commands to read; those that one writes must be what it writes.
var shownFile = regexp.MustCompile("(?ms)^`([\\w.]+)`:\n\n```\\w+\n(.*?)^```\n")

// comparing are the verbs that print by how much numbers differ. They run without the libraries that
// add in another order on another processor.
var comparing = []string{"optimize", "quantize"}

// answers are the exit codes of commands whose output is an answer: yes; it does not fit; a claim of a
// plan is false; a condition is met.
var answers = []int{0, 3, 4, 8}

// consoleStart opens a block of commands and their output. A number behind the word shows that many
// lines of each output and leaves the rest out: "```console 3".
var consoleStart = regexp.MustCompile("^```console(?: ([0-9]+))?\\n$")

// fillConsole replaces the output in every console block by what run returns for its commands. Long
// output is cut as the README shows it: the number of lines between markers stays the same.
func fillConsole(t *testing.T, text string, run func(args []string) string) string {
	var b strings.Builder
	inside := false
	shown := maxConsole
	for line := range strings.Lines(text) {
		start := consoleStart.FindStringSubmatch(line)
		switch {
		case start != nil:
			inside, shown = true, maxConsole
			if start[1] != "" {
				var err error
				shown, err = strconv.Atoi(start[1])
				require.NoError(t, err)
			}
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside && strings.HasPrefix(line, "$ memopt "):
			b.WriteString(line)
			b.WriteString(console(run(strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "$ memopt "))), shown))
			continue
		case inside:
			continue
		}
		b.WriteString(line)
	}
	require.False(t, inside, "a console block is never closed")
	return b.String()
}

// maxConsole is the number of lines that a page shows of a command's output where its block does not
// say another, maxWidth of its columns.
const (
	maxConsole = 48
	maxWidth   = 150
)

// measured are the rows of a report that differ from run to run; their numbers are left out.
var (
	measured = []string{"found by", "time of a step", "slowdown", "process", "time", "loss"}
	number   = regexp.MustCompile(`[0-9]+(\.[0-9]+)? (ms|times|[KMG]iB|B)|[0-9]+\.[0-9]+`)
	rule     = regexp.MustCompile(`^-+(  -+)+$`)
)

// console cuts output to the number of lines that a page shows.
func console(out string, shown int) string {
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	for i := 1; i < len(lines); i++ {
		if rule.MatchString(lines[i]) {
			end := i + 1
			for end < len(lines) && lines[end] != "" {
				end++
			}
			if slices.ContainsFunc(lines[i:end], isMeasured) {
				withoutNumbers(lines[i-1 : end])
			}
		}
	}
	if len(lines) > shown {
		lines = append(lines[:shown], "…")
	}
	var b strings.Builder
	for _, line := range lines {
		line = strings.TrimRight(line, " ")
		if r := []rune(line); len(r) > maxWidth {
			line = string(r[:maxWidth-1]) + "…"
		}
		if line != "" || b.Len() > 0 {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// isMeasured reports whether a line is a measured row.
func isMeasured(line string) bool {
	return slices.ContainsFunc(measured, func(what string) bool { return strings.HasPrefix(line, what+"  ") })
}

// withoutNumbers leaves measured numbers out of a table, whose second line is the rule below its
// header, and sets its columns anew: how wide they are must not depend on a number that is not
// shown.
func withoutNumbers(lines []string) {
	rows := make([][]string, len(lines))
	columns := strings.Split(lines[1], "  ")
	right := make([]bool, len(columns))
	start := 0
	for c, dashes := range columns {
		for i, line := range lines {
			cell := []rune(line)
			cell = cell[min(start, len(cell)):min(start+len(dashes), len(cell))]
			text := strings.TrimSpace(string(cell))
			right[c] = right[c] || text != "" && strings.HasPrefix(string(cell), " ")
			if c > 0 && isMeasured(line) {
				text = number.ReplaceAllString(text, "…")
			}
			rows[i] = append(rows[i], text)
		}
		start += len(dashes) + 2
	}
	for c := range right {
		width := 0
		for i, row := range rows {
			if i != 1 {
				width = max(width, len([]rune(row[c])))
			}
		}
		rows[1][c] = strings.Repeat("-", width)
		for _, row := range rows {
			pad := strings.Repeat(" ", width-len([]rune(row[c])))
			if right[c] {
				row[c] = pad + row[c]
			} else {
				row[c] += pad
			}
		}
	}
	for i, row := range rows {
		lines[i] = strings.TrimRight(strings.Join(row, "  "), " ")
	}
}

// TestConsole: what a README shows is the same however wide the numbers are that a machine
// measures, and a table without such is as it was printed.
func TestConsole(t *testing.T) {
	const slow = `Equal.

what                  baseline       planned
------------------  ----------  ------------  -----------------------------------------------------------------
measured arena      375.23 MiB    300.16 MiB  as planned, to the byte
process                 980 B     300.25 MiB  VmHWM - VmRSS before the first step
time of a step      3642.10 ms  131072.08 ms  medians of 3 steps
slowdown            2397.00 ms    3107.00 ms  1.296 times: the median of 5 paired ratios (0.706 to 11.212)
`
	const fast = `Equal.

what                  baseline     planned
------------------  ----------  ----------  ------------------------------------------------------------
measured arena      375.23 MiB  300.16 MiB  as planned, to the byte
process             375.23 MiB  300.25 MiB  VmHWM - VmRSS before the first step
time of a step         3.10 ms     2.08 ms  medians of 3 steps
slowdown               3.00 ms     2.00 ms  0.296 times: the median of 5 paired ratios (0.706 to 1.212)
`
	const want = `Equal.

what              baseline     planned
--------------  ----------  ----------  -----------------------------------------
measured arena  375.23 MiB  300.16 MiB  as planned, to the byte
process                  …           …  VmHWM - VmRSS before the first step
time of a step           …           …  medians of 3 steps
slowdown                 …           …  …: the median of 5 paired ratios (… to …)
`
	require.Equal(t, want, console(slow, maxConsole))
	require.Equal(t, want, console(fast, maxConsole))
	const plain = "Sizes\n  Bytes  Value  Op\n-------  -----  --------\n     12  a\n1234567  b      1.25 GiB\nand 2 " +
		"more  so  it  goes, 1.25 GiB\n"
	require.Equal(t, plain, console(plain, maxConsole))
	require.Equal(t, "Sizes\n…\n", console(plain, 1))
}
