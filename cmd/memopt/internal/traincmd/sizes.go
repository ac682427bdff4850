package traincmd

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/planner"
	"memopt/symbolic"
	"memopt/train"
	"memopt/train/data"
)

const (
	// mostSizes is how many sizes the batches of a job may have. Each has a session of its own, which takes some MB of
	// the host and a part of a second at the start.
	mostSizes = 32
	// mostBands is how many plans a budget has for them, as in plan.
	mostBands = 5
)

// ragged is the symbol whose size differs from batch to batch, and its range; "" without one.
type ragged struct {
	symbol string
	symbolic.Range
}

// takeSizes takes a range of --dim, or that of the plans in a folder, as the sizes of batches. The model is bound to
// the largest.
func (t *training) takeSizes() error {
	ranges := t.Ranges()
	if len(ranges) == 0 && len(t.Folder) > 0 {
		first, last := t.Folder[0], t.Folder[len(t.Folder)-1]
		ranges = map[string]symbolic.Range{first.Symbol: {Lo: first.Lo, Hi: last.Hi}}
	}
	if len(ranges) == 0 {
		return nil
	}
	if len(ranges) > 1 {
		return cli.Usage("--dim: %s have ranges: batches differ in the size of one symbol; give the others one number "+
			"each", strings.Join(slices.Sorted(maps.Keys(ranges)), " and "))
	}
	for symbol, r := range ranges {
		t.ragged = ragged{symbol, r}
		t.histogram = t.Histograms[symbol] // nil: that of the data
	}
	if f := t.Folder; len(f) > 0 && f[0].Symbol != t.ragged.symbol {
		return cli.Usage("--plan %s: its plans are for sizes of %s, and --dim gives a range of %s", t.folderPath(),
			f[0].Symbol, t.ragged.symbol)
	}
	dims, _, _ := cli.ParseDims(t.Global.Dims)
	dims[t.ragged.symbol] = t.ragged.Hi
	t.Global.Dims = nil
	for _, symbol := range slices.Sorted(maps.Keys(dims)) {
		t.Global.Dims = append(t.Global.Dims, fmt.Sprintf("%s=%d", symbol, dims[symbol]))
	}
	return nil
}

func (t *training) folderPath() string { return filepath.Dir(t.Folder[0].Path) }

// vary tells the steps of the sizes, before data are opened.
func (t *training) vary() error {
	if t.ragged.symbol == "" {
		return nil
	}
	if t.ranks() > 1 {
		return cli.Usage("--dim %s=%d..%d: several ranks take batches of one size: give one number", t.ragged.symbol,
			t.ragged.Lo, t.ragged.Hi)
	}
	if t.engine.Traits().Reorders {
		return cli.Usage("train -e %s: batches of different sizes run on memopt's own executors: leave out -e, or "+
			"give one number in --dim", t.trainFlags.engine.Backend)
	}
	if t.moving.Asked() {
		return cli.Usage("--host-budget: steps of different sizes move no values to the host: give one number in --dim")
	}
	return cli.Classify(t.steps.Vary(t.ragged.symbol, t.ragged.Lo))
}

// checkSizes wants data and --dim to agree on whether sizes differ.
func (t *training) checkSizes() error {
	_, differ := t.config.Source.(data.Ragged)
	switch {
	case differ && t.ragged.symbol == "":
		return cli.Usage("--blocks %s: documents differ in length: give the range of a batch's, as in --dim seq=16..%d",
			t.data.blocks, max(t.config.Source.Inputs()[0].Shape[0], 16))
	case !differ && t.ragged.symbol != "":
		return cli.Usage("--dim %s=%d..%d: all samples of the data have one size: give one number, or take documents "+
			"as samples (--blocks documents)", t.ragged.symbol, t.ragged.Lo, t.ragged.Hi)
	}
	t.config.Order.Vary(t.config.Source, t.steps.Least, mostSizes)
	return nil
}

// bandsOf adds the plans, or the sizes, of bands to a selection.
func (t *training) bandsOf(sel train.Selection) (train.Selection, error) {
	if t.ragged.symbol == "" {
		return sel, nil
	}
	sel.MostBands = mostBands
	if sel.Sizes = t.histogram; sel.Sizes == nil {
		o := &t.config.Order
		var sizes []planner.Length
		for size, n := range o.Counts(0) {
			sizes = append(sizes, planner.Length{Size: size, Share: float64(n)})
		}
		for _, size := range o.Rungs { // other epochs may have them
			sizes = append(sizes, planner.Length{Size: size, Share: 1e-3})
		}
		var err error
		if sel.Sizes, err = planner.NewHistogram(t.ragged.symbol, sizes); err != nil {
			return sel, err
		}
	}
	for _, f := range t.Folder {
		own := t.selection
		own.Plan = f.Path
		c, err := own.Resolve(t.App, t.steps.Step, option.Planning{Executes: option.OnCPU(t.engine.Traits()),
			Searches: true, Reading: load.Reading{}})
		if err != nil {
			return sel, err
		}
		sel.Saved = append(sel.Saved, train.SavedBand{Lo: f.Lo, Hi: f.Hi, Strategy: c.Strategy})
	}
	return sel, nil
}
