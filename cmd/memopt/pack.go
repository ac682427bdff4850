package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"memopt/internal/inputfile"
	"memopt/planner/pack"
	"memopt/view/report"
)

// packInstance is an instance as help shows it.
const packInstance = `  id,lower,upper,size
  a,0,4,8
  b,2,6,4`

func (a *app) packCommand() *cobra.Command {
	var out, capacity string
	var limits limitFlags
	cmd := &cobra.Command{
		Use:   "pack B.csv -o OUT.csv",
		Short: "Assign arena offsets to buffers with known live ranges",
		Long: `pack reads buffers (id, lower, upper, size: live in the half-open range of
steps [lower, upper)) and gives each an offset, so that no two buffers that are
live at the same time overlap. With --capacity it stops when they fit; without,
it looks for the smallest arena (for 20,000 buffers or more, only if
--time-limit is given: the first answer is close to what a search finds).

The format is that of google/minimalloc: CSV with a header, columns in any
order, and gaps (2-5 8-9) if buffers are free for others in between. The answer
has one column more, offset.

` + packInstance + `

docs/instances.md has all rules.

It exits with 3 if the buffers do not fit into the capacity; the best packing
found is written all the same.`,
		Example: `  memopt pack B.csv -o OUT.csv --capacity 1048576
        offsets within the capacity
  memopt pack B.csv -o OUT.csv --time-limit 30s
        the smallest arena found within half a minute`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("%s wants one file of buffers (a path or -), got %d arguments",
					cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.pack(args[0], out, capacity, cmd.Flags().Changed(limitName))
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "",
		"where to write the buffers with their offset column; - is standard output")
	cmd.Flags().StringVar(&capacity, "capacity", "",
		"largest size of the arena, for example 1048576 or 1MiB; none: as small as possible")
	limits.registerLimit(cmd.Flags())
	return cmd
}

// manyBuffers is a number of buffers; with more of them a search hardly improves on the greedy orders:
// it is then made only if a time limit asks for it, or if the greedy answer does not fit.
const manyBuffers = 20_000

func (a *app) pack(path, out, capacity string, asked bool) error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	if out == "" {
		return usage("pack: -o OUT is missing: name the file for the offsets")
	}
	opts := pack.Options{Seed: a.global.seed}
	if capacity != "" {
		if opts.Capacity, err = report.ParseBytes(capacity); err != nil || opts.Capacity <= 0 {
			return usage("--capacity %q: wanted a positive size such as 1048576 or 1MiB", capacity)
		}
	}
	table, err := a.readBuffers(path)
	if err != nil {
		return err
	}
	a.status.say("packing")
	opts.Progress = func(p pack.Progress) {
		a.status.say("packing: %s, at least %s", report.Bytes(p.Height), report.Bytes(p.LowerBound))
	}
	a.keeper.keep() // a first packing is found at once
	ctx := a.search
	start := time.Now()
	var r *pack.Result
	first := a.limits.limit == 0
	if first || len(table.Buffers) >= manyBuffers && !asked {
		r = pack.Greedy(a.ctx, table.Buffers)
	}
	if r == nil || !first && opts.Capacity > 0 && r.Height > opts.Capacity {
		if r, err = pack.Solve(ctx, table.Buffers, opts); r == nil {
			return usage("%s: %w", path, err)
		}
	}
	return a.finishPack(format, path, out, table, r,
		report.PackView{Capacity: opts.Capacity, Buffers: len(table.Buffers), Result: r, Took: time.Since(start)}, err)
}

// finishPack checks, writes and reports a packing; cause says why the search ended early, or is
// nil.
func (a *app) finishPack(
	format report.Format, path, out string, table *pack.Table, r *pack.Result, view report.PackView, cause error,
) error {
	if err := pack.Check(table.Buffers, r.Offsets, 0); err != nil {
		return &exitError{exitInternal, fmt.Errorf("%s: the packing is wrong: %w", path, err)}
	}
	var b bytes.Buffer
	if err := table.WriteCSV(&b, r.Offsets); err != nil {
		return &exitError{exitInternal, err}
	}
	if err := a.writeArtefact("--out", out, b.Bytes()); err != nil {
		return err
	}
	w := a.out
	if out == "-" {
		w = a.err
	}
	if err := report.Pack(w, format, &view); err != nil {
		return err
	}
	switch {
	case a.ctx.Err() != nil:
		return &exitError{exitInterrupted, fmt.Errorf("%s: interrupted; the best packing so far is in %s", path, out)}
	case errors.Is(cause, pack.ErrInfeasible):
		return &exitError{exitInfeasible,
			fmt.Errorf("%s: the buffers do not fit into %d bytes: %d live at once", path, view.Capacity, r.LowerBound)}
	case view.Capacity > 0 && r.Height > view.Capacity:
		return &exitError{exitInfeasible,
			fmt.Errorf("%s: no packing within %d bytes was found in time: the best takes %d, and "+
				"at least %d are needed; try a longer --time-limit", path, view.Capacity, r.Height, r.LowerBound)}
	}
	return nil
}

func (a *app) readBuffers(path string) (*pack.Table, error) {
	var in io.Reader = a.in
	if path != "-" {
		f, _, err := inputfile.Open(path, maxInstance)
		if err != nil {
			return nil, usage("%w", err)
		}
		defer f.Close()
		in = f
	}
	table, err := pack.ReadCSV(inputfile.Limited(in, maxInstance))
	if err != nil {
		return nil, fileError("%s: %w", path, err)
	}
	return table, nil
}
