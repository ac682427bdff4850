package sweep

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"

	"memopt/internal/fileio"
	"memopt/view/report"
)

// Summary is a grid's points with their results.
type Summary struct {
	Grid   *Grid
	Folder string
	Rows   []Row
	Counts map[Outcome]int
}

// Row is a point and its result; without one, the outcome is Unfinished.
type Row struct {
	*Point
	Result *Result
}

// Outcome is how the point ended.
func (r *Row) Outcome() Outcome {
	if r.Result == nil {
		return Unfinished
	}
	return r.Result.Outcome
}

// Gather collects the results of a grid's points, and writes them to results.jsonl and results.csv,
// which are functions of the results alone.
func (r *Runner) Gather() (*Summary, error) {
	s := &Summary{Grid: r.Grid, Folder: r.Folder.Path, Counts: map[Outcome]int{}}
	var lines bytes.Buffer
	for _, p := range r.Grid.Points {
		id, err := r.ID(p)
		if err != nil {
			return nil, err
		}
		res := r.load(id)
		row := Row{p, res}
		s.Rows = append(s.Rows, row)
		s.Counts[row.Outcome()]++
		if res == nil {
			continue
		}
		data, err := json.Marshal(res)
		if err != nil {
			return nil, err
		}
		lines.Write(append(data, '\n'))
	}
	if err := r.Folder.Make(); err != nil {
		return nil, err
	}
	if err := fileio.WriteFile(filepath.Join(r.Folder.Path, "results.jsonl"), lines.Bytes()); err != nil {
		return nil, err
	}
	var table bytes.Buffer
	if err := Write(&table, report.CSVFormat, s); err != nil {
		return nil, err
	}
	return s, fileio.WriteFile(filepath.Join(r.Folder.Path, "results.csv"), table.Bytes())
}

// number finds a number in a result's report; nil if it is absent. Among several paths the first that
// leads to one counts.
func (r *Result) number(paths ...[]string) *float64 {
	if r == nil || r.Report == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(r.Report))
	d.UseNumber()
	var tree any
	if d.Decode(&tree) != nil {
		return nil
	}
	for _, path := range paths {
		node := tree
		for _, key := range path {
			object, _ := node.(map[string]any)
			node = object[key]
		}
		if n, ok := node.(json.Number); ok {
			if x, err := strconv.ParseFloat(n.String(), 64); err == nil {
				return &x
			}
		}
	}
	return nil
}

// Measures of a result, in the reports of all verbs.
func (r *Result) baseline() *float64 {
	return r.number([]string{"peak", "baseline_bytes"}, []string{"baseline", "peak", "predicted_live_bytes"})
}

func (r *Result) persistent() *float64 {
	return r.number([]string{"peak", "persistent_bytes"}, []string{"planned", "peak", "persistent_bytes"})
}

func (r *Result) arena() *float64 {
	return r.number([]string{"peak", "arena_bytes"}, []string{"planned", "peak", "arena_bytes"},
		[]string{"lowest_arena_bytes"})
}

// overhead is the share of a step's time that the plan adds: predicted by plan, measured by verify.
func (r *Result) overhead() *float64 {
	if x := r.number([]string{"recompute", "overhead"}); x != nil {
		return x
	}
	if x := r.number([]string{"slowdown"}); x != nil {
		more := *x - 1
		return &more
	}
	return nil
}

func (r *Result) loss() *float64 { return r.number([]string{"loss_last"}) }

// failures are the rows that failed.
func (s *Summary) failures() []Row {
	return slices.DeleteFunc(slices.Clone(s.Rows), func(r Row) bool { return r.Outcome() != Failed })
}

// FirstFailure is the first point that failed; nil without a failure.
func (s *Summary) FirstFailure() *Row {
	if list := s.failures(); len(list) > 0 {
		return &list[0]
	}
	return nil
}
