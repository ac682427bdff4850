package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"memopt"
	"memopt/symbolic"
)

// Hinted adds to an error of symbols without a value how to bind them.
func (a *App) Hinted(err error) error {
	var unbound *symbolic.UnboundError
	if !errors.As(err, &unbound) || len(unbound.Symbols) == 0 {
		return err
	}
	them := "them"
	if len(unbound.Symbols) == 1 {
		them = "it"
	}
	return fmt.Errorf("%w; bind %s with %s", err, them, a.BindFlag(a.Model, unbound.Symbols))
}

// BindFlag is a whole --dim flag that binds symbols of a model, with the places that its sizes are
// from: "--dim batch=2,seq=16 (of test_data_set_0)". Bindings by the flags of this run are part of
// it. m is nil where no model was read.
func (a *App) BindFlag(m *memopt.Model, symbols []string) string {
	if m == nil {
		return "--dim NAME=VALUE"
	}
	sizes := m.ExampleSizes(symbols)
	var parts, froms []string
	by := map[string][]string{}
	for _, flag := range a.Global.Dims {
		for part := range strings.SplitSeq(flag, ",") {
			at := strings.LastIndexByte(part, '=')
			if at > 0 && !slices.Contains(symbols, strings.TrimSpace(part[:at])) {
				parts = append(parts, part)
			}
		}
	}
	for _, s := range symbols {
		from := sizes[s].From
		if by[from] == nil {
			froms = append(froms, from)
		}
		by[from] = append(by[from], s)
		parts = append(parts, fmt.Sprintf("%s=%d", s, sizes[s].Value))
	}
	for i, from := range froms {
		text, of := "of "+from, strings.Join(by[from], ", ")+" "
		switch {
		case from == "" && len(froms) == 1:
			text, of = "small sizes as an example", ""
		case from == "":
			text = "as an example"
		case len(froms) == 1:
			of = ""
		}
		froms[i] = of + text
	}
	return fmt.Sprintf("--dim %s (%s)", shellWord(strings.Join(parts, ",")), strings.Join(froms, "; "))
}

// plainWord matches texts that a shell takes as they are.
var plainWord = regexp.MustCompile(`^[\w.,:=/@%+-]+$`)

// shellWord quotes a text for a shell, where it has to.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
