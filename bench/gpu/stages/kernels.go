package stages

import (
	"bufio"
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
)

// testProgram is a program of go test -c, with the folder of its package, which it runs in.
type testProgram struct{ name, dir string }

// testPrograms are those of the bundle.
var testPrograms = []testProgram{
	{"cuda.test", "executor/cuda"},
	{"driver.test", "executor/cuda/driver"},
}

// needsSources are tests that compile the kernels' sources, which the bundle does not have.
const needsSources = "^TestPTX$"

// tests runs a test program, on the GPU if that is the device.
func (r *runner) tests(p testProgram, wrapper []string, args ...string) *answer {
	var env []string
	if r.backend == "cuda" {
		env = []string{"MEMOPT_TEST_GPU=1"}
	}
	line := append(append([]string{}, wrapper...), filepath.Join(r.bundle, "bin", p.name), "-test.v",
		"-test.timeout=390s", "-test.skip", needsSources)
	line = append(line, args...)
	return r.exec(filepath.Join(r.bundle, "tests", p.dir), env, line[0], line[1:]...)
}

// tally is the output of go test -v: the outcomes of the tests that are not parts of others, and
// why tests were skipped.
type tally struct {
	passed, cases int
	failed        []string
	skips         int
	skipped       []string // skipped tests with their reasons, one for each reason
}

// count reads the output of a test program.
func count(out []byte) *tally {
	t := new(tally)
	var last string // the line before: of a skipped test, the reason stands after its outcome or before it
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		line := lines.Text()
		text := strings.TrimSpace(line)
		name, _, _ := strings.Cut(
			strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(text, "--- PASS: "), "--- FAIL: "), "--- SKIP: "),
			" ")
		whole := !strings.HasPrefix(line, " ")
		switch {
		case strings.HasPrefix(text, "--- PASS: ") && whole:
			t.passed++
		case strings.HasPrefix(text, "--- PASS: "):
			t.cases++
		case strings.HasPrefix(text, "--- FAIL: "):
			t.failed = append(t.failed, name)
		case strings.HasPrefix(text, "--- SKIP: "):
			t.skip(name, last)
		}
		if text != "" && !strings.HasPrefix(text, "=== ") {
			last = text
		}
	}
	return t
}

// skip notes a skipped test. A reason starts with its place in the source; one reason may occur at
// many.
func (t *tally) skip(name, reason string) {
	t.skips++
	if _, text, ok := strings.Cut(reason, ": "); ok {
		reason = text
	}
	for i, s := range t.skipped {
		if names, ok := strings.CutSuffix(s, ": "+reason); ok {
			t.skipped[i] = names + ", " + name + ": " + reason
			return
		}
	}
	t.skipped = append(t.skipped, name+": "+reason)
}

// runKernels runs all tests in the bundle's programs.
func runKernels(r *runner) {
	for _, p := range testPrograms {
		r.judgeTests(p.dir, r.tests(p, nil))
	}
}

// judgeTests records the results of a test program.
func (r *runner) judgeTests(check string, a *answer) {
	t := count(a.stdout)
	figures := []Figure{{"passed", float64(t.passed), "tests"}, {"with", float64(t.cases), "cases"},
		{"skipped", float64(t.skips), "tests"}}
	switch {
	case len(t.failed) > 0:
		r.row(check, Fail, fmt.Sprintf("%d failed, of them %s", len(t.failed), t.failed[0]), figures...)
	case a.code != 0:
		r.row(check, Fail, a.why(), figures...)
	case t.passed == 0:
		r.row(check, Fail, "no test has passed", figures...)
	default:
		r.row(check, Pass, "", figures...)
	}
	for _, s := range t.skipped {
		r.row(check+": skipped tests", NotAvailable, s)
	}
}

// sanitized are the tests that compute-sanitizer watches: each kernel is in one of them.
const sanitized = "^(TestSelfTest|TestCases)$"

// sanitizer returns the checks of a tool of compute-sanitizer.
func sanitizer(tool string) func(*runner) {
	return func(r *runner) {
		const found = 99 // the exit code that the tool is asked for
		line := []string{"compute-sanitizer", "--tool", tool, "--error-exitcode", fmt.Sprint(found)}
		if tool == "memcheck" {
			// libraries make some failing calls on purpose, to probe for features
			line = append(line, "--report-api-errors", "no")
		}
		a := r.tests(testPrograms[0], line, "-test.run", sanitized)
		check := "compute-sanitizer " + tool
		switch {
		case a.code == -1 && strings.Contains(a.stderr, "executable file not found"):
			r.row(check, NotAvailable, a.why())
		case a.code == found:
			r.row(check, Fail, firstError(a.stdout))
		default:
			r.judgeTests(check, a)
		}
	}
}

// firstError is the first line of compute-sanitizer's output with an error.
func firstError(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(line, "========= "); ok && !strings.HasPrefix(text, "COMPUTE-SANITIZER") &&
			strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
	}
	return "it found errors"
}
