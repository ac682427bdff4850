package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/recompute"
)

// CheckDims requires that one of the models has each symbol that --dim binds, to catch
// misspellings. It warns if a symbol is bound to 0.
func CheckDims(a *cli.App, models ...*memopt.Model) error {
	list, err := cli.ParseBindings(a.Global.Dims)
	if err != nil {
		return err
	}
	var symbols, paths []string
	for _, m := range models {
		symbols, paths = append(symbols, m.Symbols()...), append(paths, m.Path)
	}
	slices.Sort(symbols)
	symbols = slices.Compact(symbols)
	for _, b := range list {
		_, found := slices.BinarySearch(symbols, b.Symbol)
		switch {
		case !found && a.ByInput[b.Text()]:
		case b.Shape != nil:
			return cli.Usage("--dim %s: %s; sizes with x between them are those of an input", b.Text(), noInput(models))
		case !found && slices.ContainsFunc(models, func(m *memopt.Model) bool { return m.HasLabel(b.Symbol) }):
			a.Warn("--dim %s: has no effect: the file uses that symbol as a label only, and inference has replaced "+
				"it by its value", b.Symbol)
		case !found && sameSize(models, b):
			a.Warn("--dim %s=%d: has no effect: the file's regions in parts hold for that size alone", b.Symbol,
				b.Value)
		case !found:
			return cli.Usage("--dim %s: %s of that name%s; %s%s", b.Symbol, noSymbol(paths),
				cli.Suggest(b.Symbol, symbols),
				symbolText(symbols), otherSize(models, b))
		case b.Value == 0 && !b.Ranged:
			a.Warn("--dim %s=0: all tensors with that dim are empty: the report is of a step "+
				"without data", b.Symbol)
		}
	}
	return nil
}

// noteEqual says which symbols are taken for others.
func noteEqual(a *cli.App, equal map[string]string) {
	var texts, by []string
	for _, s := range slices.Sorted(maps.Keys(equal)) {
		at := slices.Index(by, equal[s])
		if at < 0 {
			by, texts = append(by, equal[s]), append(texts, s)
			continue
		}
		texts[at] += " and " + s
	}
	for i := range texts {
		texts[i] += " as " + by[i]
	}
	if len(texts) > 0 {
		a.Note("taken as equal sizes, which the exporter named apart: %s; --dim %s=SIZE gives a symbol its own",
			strings.Join(texts, ", "), slices.Sorted(maps.Keys(equal))[0])
	}
}

// noSymbol says that one model, or neither of two, has a symbol.
func noSymbol(paths []string) string {
	if len(paths) == 2 {
		return fmt.Sprintf("neither %s nor %s has a symbol", paths[0], paths[1])
	}
	return paths[0] + " has no symbol"
}

// symbolText says which symbols there are.
func symbolText(symbols []string) string {
	const most = 12
	switch n := len(symbols); {
	case n == 0:
		return "the model has no symbols: all dims are numbers"
	case n > most:
		return fmt.Sprintf("there are %s, … (%d in all)", strings.Join(symbols[:most], ", "), n)
	case n == 1:
		return "there is " + symbols[0]
	}
	return "there are " + strings.Join(symbols, ", ")
}

// sizeIn returns the value of a symbol when memopt chunked regions of a file; ok is false
// of other files, and other symbols.
func sizeIn(m *memopt.Model, symbol string) (n int64, ok bool) {
	if r := recompute.RecordOf(m.Model); r != nil && len(r.InParts()) > 0 {
		n, ok = r.Dims[symbol]
	}
	return n, ok
}

// otherSize says of a binding that a file with regions in parts does not hold for it; "" of others.
func otherSize(files []*memopt.Model, b cli.Binding) string {
	for _, m := range files {
		if n, ok := sizeIn(m, b.Symbol); ok {
			return fmt.Sprintf("; its regions in parts hold for %.80s=%d alone: apply the plan anew to the model as "+
				"it was", b.Symbol, n)
		}
	}
	return ""
}

// sameSize reports whether a binding is the size that a file with regions in parts holds for.
func sameSize(files []*memopt.Model, b cli.Binding) bool {
	return !b.Ranged && slices.ContainsFunc(files, func(m *memopt.Model) bool {
		n, ok := sizeIn(m, b.Symbol)
		return ok && n == b.Value
	})
}
