package traincmd

import (
	"fmt"
	"path/filepath"
	"strings"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/train/data"
	"memopt/view/report"
)

// openData opens the data and settles the batch.
func (t *training) openData() error {
	inputs, err := t.steps.Describe()
	if err != nil {
		return cli.Classify(err)
	}
	c := &t.config
	seed := uint64(t.data.seed)
	if !t.set.Changed("data-seed") {
		seed = uint64(t.Global.Seed)
	}
	if c.Source, err = t.openSource(t.data.paths, inputs, seed); err != nil {
		return cli.Usage("--data: %w", err)
	}
	c.Inputs = c.Source.Inputs()
	if err := t.steps.Bind(c.Inputs); err != nil {
		return cli.Classify(err)
	}
	if len(t.data.eval) > 0 {
		if c.Eval, err = t.openSource(t.data.eval, c.Inputs, seed); err != nil {
			return cli.Usage("--eval-data: %w", err)
		}
	}
	last, err := data.ParseLast(t.data.last)
	if err != nil {
		return cli.Usage("--last-batch: %w", err)
	}
	if t.steps.Batch == "" && last == data.Keep {
		last = data.Drop // the file's step takes no other number of rows
	}
	c.Order = data.Order{Samples: c.Source.Samples(), Seed: seed, Shuffle: t.data.shuffle, Last: last}
	return t.checkSizes()
}

// dataNames lists the inputs of the model that the data have arrays for by their names.
func (t *training) dataNames() (names []string, err error) {
	o, err := t.data.options(0)
	if err != nil {
		return nil, err
	}
	for _, name := range data.ArrayNames(t.data.paths, o) {
		if v, ok := t.model.Graph.Lookup(name); ok && t.model.Graph.Values[v].Input {
			names = append(names, name)
		}
	}
	return names, nil
}

// openSource opens one set of samples and looks at all of it.
func (t *training) openSource(paths []string, inputs []data.Input, seed uint64) (data.Source, error) {
	o, err := t.data.options(seed)
	if err != nil {
		return nil, err
	}
	source, err := data.Open(paths, inputs, o)
	if err != nil {
		return nil, err
	}
	t.sources = append(t.sources, source)
	return source, source.Check(t.Ctx)
}

// dataText describes data.
func dataText(paths []string, s data.Source) string {
	name := filepath.Base(paths[0])
	if strings.HasPrefix(paths[0], memopt.ExamplePrefix) {
		name = paths[0]
	}
	if n := len(paths) - 1; n > 0 {
		name += fmt.Sprintf(" and %d more", n)
	}
	text := fmt.Sprintf("%s: %s samples", name, report.Thousands(s.Samples()))
	if n := s.Tokens(); n > 0 {
		text += fmt.Sprintf(" of %s tokens", report.Thousands(n))
	}
	return text
}
