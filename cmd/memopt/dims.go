package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"memopt"
)

// binding is what --dim says of one symbol.
type binding struct {
	symbol string
	value  int64
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
			n, err := strconv.ParseInt(strings.TrimSpace(part[at+1:]), 10, 64)
			if err != nil || n < 0 {
				return nil, usage("--dim %q: the value must be an integer of at least 0", part)
			}
			list = append(list, binding{strings.TrimSpace(part[:at]), n})
		}
	}
	return list, nil
}

// parseDims reads --dim flags.
func parseDims(flags []string) (map[string]int64, error) {
	list, err := parseBindings(flags)
	dims := map[string]int64{}
	for _, b := range list {
		dims[b.symbol] = b.value
	}
	return dims, err
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
		case !found:
			return usage("--dim %s: %s of that name%s; %s", b.symbol, noSymbol(paths), suggest(b.symbol, symbols),
				symbolText(symbols))
		case b.value == 0:
			a.warn("--dim %s=0: all tensors with that dim are empty: the report is of a step "+
				"without data", b.symbol)
		}
	}
	return nil
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
