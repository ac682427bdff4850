package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"memopt"
	"memopt/recompute"
	"memopt/symbolic"
)

// binding is one symbol's value, or its range from value to last, as --dim gives it.
type binding struct {
	symbol      string
	value, last int64
	ranged      bool
}

// parseBindings reads --dim flags.
func parseBindings(flags []string) ([]binding, error) {
	var list []binding
	for _, flag := range flags {
		for part := range strings.SplitSeq(flag, ",") {
			at := strings.LastIndexByte(part, '=')
			if at <= 0 {
				return nil, usage("--dim %q: wanted NAME=VALUE, for example batch=8", part)
			}
			b := binding{symbol: strings.TrimSpace(part[:at])}
			var err, err2 error
			first, last, ranged := strings.Cut(part[at+1:], "..")
			b.value, err = strconv.ParseInt(strings.TrimSpace(first), 10, 64)
			if b.ranged = ranged; ranged {
				b.last, err2 = strconv.ParseInt(strings.TrimSpace(last), 10, 64)
			}
			switch {
			case err != nil || err2 != nil || b.value < 0:
				return nil, usage("--dim %q: the value must be an integer of at least 0, or for plan and "+
					"fit a range of two such as 1..64", part)
			case ranged && b.last < b.value:
				return nil, usage("--dim %q: the range ends before it begins", part)
			}
			list = append(list, b)
		}
	}
	return list, nil
}

// parseDims reads --dim flags: values and ranges. The last one of a symbol counts.
func parseDims(flags []string) (map[string]int64, map[string]symbolic.Range, error) {
	list, err := parseBindings(flags)
	dims, ranges := map[string]int64{}, map[string]symbolic.Range{}
	for _, b := range list {
		delete(dims, b.symbol)
		delete(ranges, b.symbol)
		if b.ranged {
			ranges[b.symbol] = symbolic.Range{Lo: b.value, Hi: b.last}
		} else {
			dims[b.symbol] = b.value
		}
	}
	return dims, ranges, err
}

// ranges are the ranges of symbols that --dim gives.
func (a *app) ranges() map[string]symbolic.Range {
	_, ranges, _ := parseDims(a.global.dims)
	return ranges
}

// refuseRanges is the error of a verb that wants one number for every symbol.
func refuseRanges(ranges map[string]symbolic.Range) error {
	for _, symbol := range slices.Sorted(maps.Keys(ranges)) {
		r := ranges[symbol]
		return usage("--dim %s=%d..%d: a range is for plan and fit; wanted one number here", symbol, r.Lo, r.Hi)
	}
	return nil
}

// checkDims requires that one of the models has each symbol that --dim binds, to catch
// misspellings. It warns if a symbol is bound to 0.
func (a *app) checkDims(models ...*memopt.Model) error {
	list, err := parseBindings(a.global.dims)
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
		_, found := slices.BinarySearch(symbols, b.symbol)
		switch {
		case !found && slices.ContainsFunc(models, func(m *memopt.Model) bool { return m.HasLabel(b.symbol) }):
			a.warn("--dim %s: has no effect: the file uses that symbol as a label only, and "+
				"inference has replaced it by what it stands for", b.symbol)
		case !found && sameSize(models, b):
			a.warn("--dim %s=%d: has no effect: the file's regions in parts hold for that size alone", b.symbol,
				b.value)
		case !found:
			return usage("--dim %s: %s of that name%s; %s%s", b.symbol, noSymbol(paths), suggest(b.symbol, symbols),
				symbolText(symbols), otherSize(models, b))
		case b.value == 0 && !b.ranged:
			a.warn("--dim %s=0: all tensors with that dim are empty: the report is of a step "+
				"without data", b.symbol)
		}
	}
	return nil
}

// noteEqual says which symbols are taken for others.
func (a *app) noteEqual(equal map[string]string) {
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
		a.note("taken as equal sizes, which the exporter named apart: %s; --dim %s=SIZE gives a symbol its own",
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
		return "there is none: all dims are numbers"
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
func otherSize(files []*memopt.Model, b binding) string {
	for _, m := range files {
		if n, ok := sizeIn(m, b.symbol); ok {
			return fmt.Sprintf("; its regions in parts hold for %.80s=%d alone: apply the plan anew to the model as "+
				"it was", b.symbol, n)
		}
	}
	return ""
}

// sameSize reports whether a binding is the size that a file with regions in parts holds for.
func sameSize(files []*memopt.Model, b binding) bool {
	return !b.ranged && slices.ContainsFunc(files, func(m *memopt.Model) bool {
		n, ok := sizeIn(m, b.symbol)
		return ok && n == b.value
	})
}
