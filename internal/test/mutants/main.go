// Command mutants measures the tests: it changes the code in one small way at a time, such as <
// into <= or a statement removed, and runs the tests that reach the changed line. A mutant lives if
// all of them pass. It prints one line a mutant and the share of those that died.
//
//	go run ./internal/test/mutants -n 300 -seed 1 ./planner/... ./answers/fit ./planner/chunk
//
// Lines are drawn evenly over all lines of the packages that can be changed, from the seed, so a
// run can be repeated. The tests of a line are found by coverage: each test runs once by itself. The
// tests of a mutant's own package run first, then those of the packages that -with names, the
// quickest first, and no further ones after the first that fails. Sources stay as they are: the
// compiler reads changed files by -overlay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// options are the command's flags.
type options struct {
	number   int           // mutants to run
	seed     uint64        // of the draw of lines
	with     string        // further packages whose tests run, separated by commas
	limit    time.Duration // time that the tests of one mutant may take together
	dir      string        // work folder
	coverage string        // folder of the coverage by test, a file a package; files there are read
	only     string        // file:line of the mutants of the draw that are tried; "": all
	parallel int           // mutants, or packages whose coverage is measured, at a time
}

func main() {
	var o options
	flag.IntVar(&o.number, "n", 100, "number of mutants")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the draw of lines")
	flag.StringVar(&o.with, "with", "", "further packages whose tests run: ./planner,./cmd/memopt")
	flag.DurationVar(&o.limit, "limit", time.Minute, "time for the tests of one mutant; slower ones are left out")
	flag.StringVar(&o.coverage, "coverage", "", "folder that keeps the coverage by test; its files are read")
	flag.StringVar(&o.only, "only", "", "of the seed's mutants, those on lines such as planner/cost.go:12")
	flag.IntVar(&o.parallel, "p", 1, "mutants at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run draws mutants of packages, and prints the fate of each and the sum of all.
func run(ctx context.Context, o options, patterns []string) error {
	if len(patterns) == 0 {
		return fmt.Errorf("which packages? go run ./internal/test/mutants ./planner/... for example")
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.dir = dir

	targets, err := list(ctx, patterns)
	if err != nil {
		return err
	}
	var testers []pkg
	if o.with != "" {
		if testers, err = list(ctx, strings.Split(o.with, ",")); err != nil {
			return err
		}
	}
	sites, err := sitesOf(targets)
	if err != nil {
		return err
	}
	reach, err := coverageOf(ctx, o, targets, testers)
	if err != nil {
		return err
	}
	c := campaign{options: o, reach: reach}
	drawn := draw(sites, rand.New(rand.NewPCG(o.seed, 0)))
	if o.only != "" {
		lines := strings.Split(o.only, ",")
		drawn = slices.DeleteFunc(drawn, func(s site) bool {
			return !slices.Contains(lines, fmt.Sprintf("%s:%d", relative(s.file), s.line))
		})
	}
	err = c.run(ctx, drawn)
	c.report()
	return err
}

// draw returns one site of every line that has any, in random order.
func draw(sites []site, rng *rand.Rand) []site {
	byLine := map[string][]site{}
	var lines []string
	for _, s := range sites {
		key := fmt.Sprintf("%s:%d", s.file, s.line)
		if byLine[key] == nil {
			lines = append(lines, key)
		}
		byLine[key] = append(byLine[key], s)
	}
	rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	drawn := make([]site, len(lines))
	for i, key := range lines {
		drawn[i] = byLine[key][rng.IntN(len(byLine[key]))]
	}
	return drawn
}

// relative returns a path as people read it in this folder.
func relative(path string) string {
	if wd, err := os.Getwd(); err == nil {
		if r, err := filepath.Rel(wd, path); err == nil {
			return r
		}
	}
	return path
}

// each calls f with 0 to n-1, up to the given number of calls at a time, and joins their errors.
func each(n, atATime int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	slots := make(chan struct{}, atATime)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
