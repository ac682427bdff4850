package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A pkg has the fields of go list for a package.
type pkg struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// list returns the packages that patterns name.
func list(ctx context.Context, patterns []string) ([]pkg, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var packages []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// A test is one that was run by itself: the time it took, and the code that it reached.
type test struct {
	Package, Dir, Name string
	Seconds            float64
	Blocks             map[string][][2]int // by "import/path/file.go": first and last line of each block
}

// reaches reports whether the test runs a line.
func (t test) reaches(file string, line int) bool {
	for _, b := range t.Blocks[file] {
		if b[0] <= line && line <= b[1] {
			return true
		}
	}
	return false
}

// coverageOf returns the tests of the packages, and the code that each reaches.
func coverageOf(ctx context.Context, o options, targets, testers []pkg) ([]test, error) {
	var covered []string
	for _, p := range targets {
		covered = append(covered, p.ImportPath)
	}
	var packages []pkg
	for _, p := range append(targets, testers...) {
		known := slices.ContainsFunc(packages, func(q pkg) bool { return q.ImportPath == p.ImportPath })
		if !known && len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			packages = append(packages, p)
		}
	}
	found := make([][]test, len(packages))
	err := each(len(packages), max(1, o.parallel), func(i int) (err error) {
		found[i], err = keptCoverage(ctx, o, packages[i], strings.Join(covered, ","))
		return err
	})
	return slices.Concat(found...), err
}

// keptCoverage reads the coverage of a package's tests from the folder that the options name, and
// writes it there. Tests that are new since then run; without a file, all.
func keptCoverage(ctx context.Context, o options, p pkg, covered string) ([]test, error) {
	if o.coverage == "" {
		return coverageBy(ctx, o, p, covered, nil)
	}
	path := filepath.Join(o.coverage, strings.ReplaceAll(p.ImportPath, "/", "-")+".json")
	var known []test
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(data, &known); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !newer(p, path) {
			return known, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	tests, err := coverageBy(ctx, o, p, covered, known)
	if err != nil {
		return nil, err
	}
	if data, err = json.Marshal(tests); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.coverage, 0o777); err != nil {
		return nil, err
	}
	return tests, os.WriteFile(path, data, 0o666)
}

// newer reports whether a test file of a package has changed since a file was written.
func newer(p pkg, path string) bool {
	written, err := os.Stat(path)
	return err == nil && slices.ContainsFunc(slices.Concat(p.TestGoFiles, p.XTestGoFiles), func(name string) bool {
		f, err := os.Stat(filepath.Join(p.Dir, name))
		return err == nil && f.ModTime().After(written.ModTime())
	})
}

// coverageBy runs each test of a package that is not among those that are known.
func coverageBy(ctx context.Context, o options, p pkg, covered string, known []test) ([]test, error) {
	dir, err := os.MkdirTemp(o.dir, "covering-")
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(dir, "covering.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-cover", "-coverpkg="+covered,
		"-o", bin, p.ImportPath)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", p.ImportPath, err, out)
	}
	names := exec.CommandContext(ctx, bin, "-test.list", "^(Test|Example|Fuzz)")
	names.Dir = p.Dir
	out, err := names.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
	}
	var tests []test
	for _, name := range strings.Fields(string(out)) {
		if i := slices.IndexFunc(known, func(t test) bool { return t.Name == name }); i >= 0 {
			tests = append(tests, known[i])
			continue
		}
		profile := filepath.Join(dir, "profile")
		cmd := exec.CommandContext(ctx, bin, "-test.run", "^"+regexp.QuoteMeta(name)+"$", "-test.coverprofile", profile)
		cmd.Dir = p.Dir
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s %s fails as it is and is left out: %v\n%s", p.ImportPath, name, err, out)
			continue
		}
		t := test{Package: p.ImportPath, Dir: p.Dir, Name: name, Seconds: time.Since(began).Seconds()}
		if t.Blocks, err = readProfile(profile); err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return tests, nil
}

// profileLine is a line of a coverage profile: file:line.column,line.column statements count.
var profileLine = regexp.MustCompile(`^(.+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)

// readProfile returns the blocks of a coverage profile that were run.
func readProfile(path string) (map[string][][2]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	blocks := map[string][][2]int{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		m := profileLine.FindStringSubmatch(s.Text())
		if m == nil || m[4] == "0" {
			continue
		}
		first, _ := strconv.Atoi(m[2]) // digits, by the expression
		last, _ := strconv.Atoi(m[3])
		blocks[m[1]] = append(blocks[m[1]], [2]int{first, last})
	}
	return blocks, s.Err()
}
