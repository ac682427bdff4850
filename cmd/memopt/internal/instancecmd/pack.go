package instancecmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/internal/inputfile"
	"memopt/planner/pack"
	"memopt/view/report"
)

// PackInstance is an instance as help shows it.
const PackInstance = `  id,lower,upper,size
  a,0,4,8
  b,2,6,4`

func Pack(a *cli.App) *cobra.Command {
	var out, capacity string
	var limits cli.LimitFlags
	cmd := &cobra.Command{
		Use:   "pack B.csv -o OUT.csv",
		Short: "Assign arena offsets to buffers with known live ranges",
		Long: `pack reads buffers (id, lower, upper, size: live in the half-open range of
steps [lower, upper)) and gives each an offset, so that no two buffers that are
live at the same time overlap. With --capacity it stops when they fit; without,
it looks for the smallest arena (for 20,000 buffers or more, only if
--time-limit is given: the first answer is close to the result of a search).

The format is that of google/minimalloc: CSV with a header, columns in any
order, and gaps (2-5 8-9) if buffers are free for others in between. The answer
has one column more, offset.

` + PackInstance + `

docs/instances.md has all rules.

It exits with 3 if the buffers do not fit into the capacity; the best packing
found is written all the same.`,
		Example: `  memopt pack B.csv -o OUT.csv --capacity 1048576
        offsets within the capacity
  memopt pack B.csv -o OUT.csv --time-limit 30s
        the smallest arena found within half a minute`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usage("%s wants one file of buffers (a path or -), got %d arguments",
					cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return packBuffers(a, args[0], out, capacity, cmd.Flags().Changed(cli.LimitName))
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "",
		"where to write the buffers with their offset column; - is standard output")
	cmd.Flags().StringVar(&capacity, "capacity", "",
		"largest size of the arena, for example 1048576 or 1MiB; default: as small as possible")
	limits.RegisterLimit(cmd.Flags())
	return cmd
}

// manyBuffers is a number of buffers; with more of them a search hardly improves on the greedy orders:
// it is then made only if a time limit asks for it, or if the greedy answer does not fit.
const manyBuffers = 20_000

func packBuffers(a *cli.App, path, out, capacity string, asked bool) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if out == "" {
		return cli.Usage("pack: -o OUT is missing: name the file for the offsets")
	}
	opts := pack.Options{Seed: a.Global.Seed}
	if capacity != "" {
		if opts.Capacity, err = report.ParseBytes(capacity); err != nil || opts.Capacity <= 0 {
			return cli.Usage("--capacity %q: wanted a positive size such as 1048576 or 1MiB", capacity)
		}
	}
	table, err := readBuffers(a, path)
	if err != nil {
		return err
	}
	a.Status.Say("packing")
	opts.Progress = func(p pack.Progress) {
		a.Status.Say("packing: %s, at least %s", report.Bytes(p.Height), report.Bytes(p.LowerBound))
	}
	a.Keeper.Keep() // a first packing is found at once
	ctx := a.Search
	start := time.Now()
	var r *pack.Result
	first := a.Limits.Limit == 0
	if first || len(table.Buffers) >= manyBuffers && !asked {
		r = pack.Greedy(a.Ctx, table.Buffers)
	}
	if r == nil || !first && opts.Capacity > 0 && r.Height > opts.Capacity {
		if r, err = pack.Solve(ctx, table.Buffers, opts); r == nil {
			return cli.Usage("%s: %w", path, err)
		}
	}
	return finishPack(a, format, path, out, table, r,
		report.PackView{Capacity: opts.Capacity, Buffers: len(table.Buffers), Result: r, Took: time.Since(start)}, err)
}

// finishPack checks, writes and reports a packing; cause says why the search ended early, or is
// nil.
func finishPack(a *cli.App,
	format report.Format, path, out string, table *pack.Table, r *pack.Result, view report.PackView, cause error,
) error {
	if err := pack.Check(table.Buffers, r.Offsets, 0); err != nil {
		return &cli.ExitError{Code: cli.ExitInternal, Err: fmt.Errorf("%s: the packing is wrong: %w", path, err)}
	}
	var b bytes.Buffer
	if err := table.WriteCSV(&b, r.Offsets); err != nil {
		return &cli.ExitError{Code: cli.ExitInternal, Err: err}
	}
	if err := a.WriteArtefact("--out", out, b.Bytes()); err != nil {
		return err
	}
	w := a.Out
	if out == "-" {
		w = a.Err
	}
	if err := report.Pack(w, format, &view); err != nil {
		return err
	}
	switch {
	case a.Ctx.Err() != nil:
		return &cli.ExitError{Code: cli.ExitInterrupted,
			Err: fmt.Errorf("%s: interrupted; the best packing so far is in %s", path, out)}
	case errors.Is(cause, pack.ErrInfeasible):
		return &cli.ExitError{Code: cli.ExitInfeasible,
			Err: fmt.Errorf("%s: the buffers do not fit into %d bytes: %d live at once", path, view.Capacity,
				r.LowerBound)}
	case view.Capacity > 0 && r.Height > view.Capacity:
		return &cli.ExitError{Code: cli.ExitInfeasible,
			Err: fmt.Errorf("%s: no packing within %d bytes was found in time: the best takes %d, and "+
				"at least %d are needed; try a longer --time-limit", path, view.Capacity, r.Height, r.LowerBound)}
	}
	return nil
}

func readBuffers(a *cli.App, path string) (*pack.Table, error) {
	var in io.Reader = a.In
	if path != "-" {
		f, _, err := inputfile.Open(path, load.MaxInstance)
		if err != nil {
			return nil, cli.Usage("%w", err)
		}
		defer f.Close()
		in = f
	}
	table, err := pack.ReadCSV(inputfile.Limited(in, load.MaxInstance))
	if err != nil {
		return nil, cli.FileError("%s: %w", path, err)
	}
	return table, nil
}
