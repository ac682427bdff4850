package report

import (
	"fmt"
	"io"
	"strings"
)

// ConfigSchema is the schema of the JSON that `memopt config show -O json` prints.
const ConfigSchema = "memopt.config/v1"

// Source is the origin of a setting's value, for example the environment.
type Source string

// The sources, those that win first.
const (
	FromFlag      Source = "flag"
	FromVariable  Source = "variable"  // of memopt's: MEMOPT_THREADS
	FromORTModule Source = "ortmodule" // a variable of ORTModule's
	FromDefault   Source = "default"
)

// Setting is the value of a flag, or of a variable without a flag.
type Setting struct {
	Flag     string   `json:"flag"`  // "threads"; "" for a variable without a flag
	Value    string   `json:"value"` // "" if unset
	From     Source   `json:"from"`
	Variable string   `json:"variable"` // the one that sets it, or would
	Verbs    []string `json:"verbs"`    // that have the flag; empty for every verb
}

// name is the flag with its prefix, or the variable.
func (s *Setting) name(before string) string {
	if s.Flag == "" {
		return s.Variable
	}
	return before + s.Flag
}

// where describes the origin of a value, for people.
func (s *Setting) where() string {
	if s.From == FromVariable || s.From == FromORTModule {
		return s.Variable
	}
	return string(s.From)
}

type configJSON struct {
	Schema   string    `json:"schema"`
	Verb     *string   `json:"verb"`
	Settings []Setting `json:"settings"`
}

// Config writes the settings of a verb, or of all verbs if verb is "". For people, settings other
// than the default come first.
func Config(w io.Writer, format Format, verb string, settings []Setting) error {
	if format == JSONFormat {
		j := configJSON{Schema: ConfigSchema, Settings: settings}
		if verb != "" {
			j.Verb = &verb
		}
		return WriteJSON(w, j)
	}
	t := Table{Header: []string{"Setting", "Value", "From", "Verbs"}}
	dashes := "--"
	if format == CSVFormat {
		dashes = "" // a spreadsheet would take the cell for a formula
	}
	add := func(s *Setting) { t.Add(s.name(dashes), s.Value, s.where(), s.ofVerbs()) }
	var set []string
	for i := range settings {
		if s := &settings[i]; s.From != FromDefault {
			set = append(set, s.name(dashes))
			add(s)
		}
	}
	for i := range settings {
		if s := &settings[i]; s.From == FromDefault {
			add(s)
		}
	}
	if verb != "" { // the same in all rows
		t.Header = t.Header[:3]
		for i, row := range t.Rows {
			t.Rows[i] = row[:3]
		}
	}
	if format != CSVFormat {
		var b strings.Builder
		line(&b, "%s", configAnswer(set))
		b.WriteByte('\n')
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return t.WriteAs(w, format)
}

// ofVerbs lists the verbs that have the setting.
func (s *Setting) ofVerbs() string {
	if len(s.Verbs) == 0 {
		return "every verb"
	}
	return strings.Join(s.Verbs, ", ")
}

// configAnswer says in one sentence which settings are not as by default.
func configAnswer(set []string) string {
	switch len(set) {
	case 0:
		return "Every setting has its default."
	case 1:
		return "1 setting does not have its default: " + set[0] + "."
	}
	return fmt.Sprintf("%d settings do not have their defaults: %s.", len(set), strings.Join(set,
		", "))
}
