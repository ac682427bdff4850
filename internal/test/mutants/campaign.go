package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A campaign tries mutants and counts.
type campaign struct {
	options
	reach []test
	mu    sync.Mutex // for the fields below
	died  int
	lived []string // a line each
}

// fates of a mutant.
const (
	lived      = "lived"
	killed     = "killed"
	timedOut   = "killed by time"
	notCovered = "not covered"
	broken     = "does not compile"
)

// run tries sites until the wanted number of mutants is reached. Each worker has its own sites and its
// share of the number, so that the mutants of a seed do not depend on how fast the workers are.
func (c *campaign) run(ctx context.Context, sites []site) error {
	workers := max(1, c.parallel)
	return each(workers, workers, func(w int) error {
		dir := filepath.Join(c.dir, strconv.Itoa(w))
		if err := os.Mkdir(dir, 0o777); err != nil {
			return err
		}
		left := (c.number + workers - 1 - w) / workers
		for i := w; i < len(sites) && left > 0; i += workers {
			counts, err := c.try(ctx, sites[i], dir)
			if err != nil || ctx.Err() != nil {
				return err
			}
			if counts {
				left--
			}
		}
		return nil
	})
}

// try runs the tests that reach a mutant, and prints its fate. A mutant that does not compile does not count.
func (c *campaign) try(ctx context.Context, s site, dir string) (counts bool, err error) {
	overlay, err := writeOverlay(s, dir)
	if err != nil {
		return false, err
	}
	fate, by, err := c.fate(ctx, s, overlay, dir)
	if err != nil || ctx.Err() != nil || fate == broken {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	line := fmt.Sprintf("%s:%d: %s: %s", relative(s.file), s.line, s.what, fate)
	if by != "" {
		line += " by " + by
	}
	switch fate {
	case killed, timedOut:
		c.died++
	default:
		c.lived = append(c.lived, line)
	}
	fmt.Printf("%d/%d %s\n", c.died, c.died+len(c.lived), line)
	return true, nil
}

// writeOverlay writes the changed file, and the file that tells the compiler of it.
func writeOverlay(s site, dir string) (string, error) {
	text, err := os.ReadFile(s.file)
	if err != nil {
		return "", err
	}
	changed := slices.Concat(text[:s.from], []byte(s.replacement), text[s.to:])
	source := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(source, changed, 0o666); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {s.file: source}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o666)
}

// fate runs the tests of a mutant and returns its fate and the test that killed it.
func (c *campaign) fate(ctx context.Context, s site, overlay, dir string) (fate, by string, err error) {
	reach := c.tests(s)
	if len(reach) == 0 {
		return c.build(ctx, overlay, s)
	}
	left := c.limit.Seconds()
	built := ""
	bin := filepath.Join(dir, "mutant.test")
	for _, t := range reach {
		if t.Seconds > left {
			continue // a quicker one of another package may come
		}
		left -= t.Seconds
		if built != t.Package {
			cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", bin, t.Package)
			if cmd.Run() != nil {
				return broken, "", nil
			}
			built = t.Package
		}
		limited, cancel := context.WithTimeout(ctx, time.Duration((10+5*t.Seconds)*float64(time.Second)))
		cmd := exec.CommandContext(limited, bin, "-test.run", "^"+regexp.QuoteMeta(t.Name)+"$")
		cmd.Dir, cmd.WaitDelay = t.Dir, time.Second
		err := cmd.Run()
		late := limited.Err() != nil
		cancel()
		switch {
		case late && ctx.Err() == nil:
			return timedOut, t.Name, nil
		case err != nil:
			return killed, t.Name, nil
		}
	}
	return lived, "", nil
}

// build compiles a mutant that no test reaches.
func (c *campaign) build(ctx context.Context, overlay string, s site) (fate, by string, err error) {
	if exec.CommandContext(ctx, "go", "build", "-overlay", overlay, s.pkg).Run() != nil {
		return broken, "", nil
	}
	return notCovered, "", nil
}

// tests returns the tests that reach a site: those of its package first, then package by package, the quickest first.
func (c *campaign) tests(s site) []test {
	name := path.Join(s.pkg, filepath.Base(s.file))
	var reach []test
	for _, t := range c.reach {
		if t.reaches(name, s.reached) {
			reach = append(reach, t)
		}
	}
	cost := map[string]float64{}
	for _, t := range reach {
		cost[t.Package] += t.Seconds
	}
	slices.SortStableFunc(reach, func(a, b test) int {
		switch {
		case a.Package != b.Package && (a.Package == s.pkg || b.Package == s.pkg):
			if a.Package == s.pkg {
				return -1
			}
			return 1
		case a.Package != b.Package && cost[a.Package] != cost[b.Package]:
			if cost[a.Package] < cost[b.Package] {
				return -1
			}
			return 1
		case a.Seconds < b.Seconds:
			return -1
		case a.Seconds > b.Seconds:
			return 1
		}
		return 0
	})
	return reach
}

// report prints the sum, and the mutants that lived once more.
func (c *campaign) report() {
	total := c.died + len(c.lived)
	if total == 0 {
		fmt.Println("no mutants")
		return
	}
	fmt.Printf("\n%d of %d mutants died: %.1f %%. Alive:\n", c.died, total, 100*float64(c.died)/float64(total))
	slices.Sort(c.lived)
	for _, l := range c.lived {
		fmt.Println("  " + l)
	}
}
