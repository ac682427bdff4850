package sweep

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"memopt/view/report"
)

// Schema is the schema of a summary.
const Schema = "memopt.sweep/v1"

// summaryJSON is a summary as JSON.
type summaryJSON struct {
	Schema string          `json:"schema"`
	Grid   string          `json:"grid"`
	Folder string          `json:"folder"`
	Verb   string          `json:"verb"`
	Counts map[Outcome]int `json:"counts"`
	Points []rowJSON       `json:"points"`
}

// rowJSON is a point of it.
type rowJSON struct {
	Index      int            `json:"index"`
	ID         *string        `json:"id"`
	Models     []string       `json:"models"`
	Dims       map[string]any `json:"dims"`
	Flags      map[string]any `json:"flags"`
	Outcome    Outcome        `json:"outcome"`
	ExitCode   *int           `json:"exit_code"`
	Error      *string        `json:"error"`
	ElapsedMS  *float64       `json:"elapsed_ms"`
	Arena      *int64         `json:"arena_bytes"`
	Persistent *int64         `json:"persistent_bytes"`
	Overhead   *float64       `json:"overhead"`
	Loss       *float64       `json:"loss"`
}

// outcomes in the order of their counts.
var outcomes = []Outcome{Done, Infeasible, Negative, Failed, Unfinished}

// Write prints a summary.
func Write(w io.Writer, f report.Format, s *Summary) error {
	if f == report.JSONFormat {
		return s.writeJSON(w)
	}
	t := s.table(f)
	switch f {
	case report.CSVFormat:
		return t.WriteCSV(w)
	case report.MarkdownFormat:
		return t.WriteMarkdown(w)
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s.\n", s.Sentence())
	return err
}

// Sentence counts the outcomes, without a full stop.
func (s *Summary) Sentence() string {
	noun := "points"
	if len(s.Rows) == 1 {
		noun = "point"
	}
	var parts []string
	for _, o := range outcomes {
		if n := s.Counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return fmt.Sprintf("%d %s: %s", len(s.Rows), noun, strings.Join(parts, ", "))
}

func (s *Summary) writeJSON(w io.Writer) error {
	j := summaryJSON{Schema: Schema, Grid: s.Grid.Path, Folder: s.Folder, Verb: s.Grid.Verb, Counts: s.Counts}
	for i := range s.Rows {
		j.Points = append(j.Points, s.Rows[i].json())
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(j)
}

func (r *Row) json() rowJSON {
	j := rowJSON{Index: r.Index, Models: r.Models, Dims: r.Dims, Flags: r.Flags, Outcome: r.Outcome()}
	if res := r.Result; res != nil {
		j.ID, j.ExitCode, j.ElapsedMS = &res.ID, &res.ExitCode, &res.ElapsedMS
		if res.Error != "" {
			j.Error = &res.Error
		}
		j.Arena, j.Persistent = whole(res.arena()), whole(res.persistent())
		j.Overhead, j.Loss = res.overhead(), res.loss()
	}
	return j
}

func whole(x *float64) *int64 {
	if x == nil {
		return nil
	}
	n := int64(*x)
	return &n
}

// table is the summary as a table: for people the columns that vary, for programs all.
func (s *Summary) table(f report.Format) *report.Table {
	if f == report.CSVFormat {
		return s.csvTable()
	}
	dims, flags := s.columns(func(name string, of func(*Row) map[string]any) bool {
		return s.varies(func(r *Row) string { return text(of(r)[name]) })
	})
	t := &report.Table{Right: []bool{true, false, true, true}}
	t.Header = []string{"point", "outcome", "arena", "overhead"}
	t.Header = append(append(append(t.Header, dims...), flags...), "model")
	for i := range s.Rows {
		r := &s.Rows[i]
		cells := []string{strconv.Itoa(r.Index), string(r.Outcome()), "", ""}
		if n := whole(r.Result.arena()); n != nil {
			cells[2] = report.Bytes(*n)
		}
		if x := r.Result.overhead(); x != nil {
			cells[3] = report.Percent(*x)
		}
		t.Add(append(append(cells, r.values(dims, flags)...), strings.Join(r.Models, " "))...)
	}
	return t
}

// columns are the names of the symbols and flags that are to have columns.
func (s *Summary) columns(want func(name string, of func(*Row) map[string]any) bool) (dims, flags []string) {
	if len(s.Rows) == 0 {
		return nil, nil
	}
	ofDims, ofFlags := func(r *Row) map[string]any { return r.Dims }, func(r *Row) map[string]any { return r.Flags }
	for _, name := range slices.Sorted(maps.Keys(s.Rows[0].Dims)) {
		if want(name, ofDims) {
			dims = append(dims, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Rows[0].Flags)) {
		if want(name, ofFlags) {
			flags = append(flags, name)
		}
	}
	return dims, flags
}

// values are a point's values of symbols and flags.
func (r *Row) values(dims, flags []string) (list []string) {
	for _, name := range dims {
		list = append(list, text(r.Dims[name]))
	}
	for _, name := range flags {
		list = append(list, text(r.Flags[name]))
	}
	return list
}

// csvTable has everything, in exact numbers.
func (s *Summary) csvTable() *report.Table {
	dims, flags := s.columns(func(string, func(*Row) map[string]any) bool { return true })
	t := &report.Table{Header: []string{"point", "outcome", "exit_code", "arena_bytes", "persistent_bytes", "overhead",
		"loss", "elapsed_ms", "model"}}
	for _, name := range dims {
		t.Header = append(t.Header, "dim_"+name)
	}
	for _, name := range flags {
		t.Header = append(t.Header, "flag_"+name)
	}
	t.Header = append(t.Header, "error")
	for i := range s.Rows {
		r := &s.Rows[i]
		res := r.Result
		cells := []string{strconv.Itoa(r.Index), string(r.Outcome()), "", exact(res.arena()), exact(res.persistent()),
			exact(res.overhead()), exact(res.loss()), "", strings.Join(r.Models, " ")}
		failure := ""
		if res != nil {
			cells[2], cells[7], failure = strconv.Itoa(res.ExitCode), exact(&res.ElapsedMS), res.Error
		}
		t.Add(append(append(cells, r.values(dims, flags)...), failure)...)
	}
	return t
}

// exact is a number for programs; "" for nil.
func exact(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'f', -1, 64)
}

// text is a grid's value in a table.
func text(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	}
	data, _ := json.Marshal(v) // it was read from JSON
	return string(data)
}
