package stages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"memopt/view/report"
)

// merged is the record of all stages, as report.json has it.
type merged struct {
	Schema string    `json:"schema"`
	Failed int       `json:"failed"` // checks
	Stages []*Record `json:"stages"`
}

// errFailed says that a check has failed.
var errFailed = errors.New("a check has failed")

// merge reads the records in a folder, in the order of the stages. A stage that was stopped counts
// as a failed check.
func merge(out string) (*merged, error) {
	m := &merged{Schema: Schema}
	for i := range all {
		r, err := readRecord(path(out, all[i].name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !r.Finished {
			r.Rows = append(r.Rows,
				Row{
					Check: "the stage ends", Result: Fail, Note: "it was stopped: run it again with --stage " + r.Stage,
				})
		}
		for _, row := range r.Rows {
			if row.Result == Fail {
				m.Failed++
			}
		}
		m.Stages = append(m.Stages, r)
	}
	if len(m.Stages) == 0 {
		return nil, fmt.Errorf("%s has no records of stages: gpu-verify run writes them there with --out", out)
	}
	return m, nil
}

// table returns the checks of all stages as rows.
func (m *merged) table() *report.Table {
	t := &report.Table{Header: []string{"stage", "check", "result", "figures"}}
	for _, r := range m.Stages {
		for _, row := range r.Rows {
			var parts []string
			for _, f := range row.Figures {
				parts = append(parts, f.String())
			}
			if row.Note != "" {
				parts = append(parts, row.Note)
			}
			t.Add(r.Stage, row.Check, string(row.Result), strings.Join(parts, "; "))
		}
	}
	return t
}

// writeReport prints the table of the records in a folder and writes report.json and report.md
// beside them. The error is errFailed if a check has failed.
func writeReport(w io.Writer, out string) error {
	m, err := merge(out)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "report.json"), append(data, '\n'), 0o666); err != nil {
		return err
	}
	var md strings.Builder
	if err := m.table().WriteMarkdown(&md); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "report.md"), []byte(md.String()), 0o666); err != nil {
		return err
	}
	if err := m.table().WriteText(&report.Screen{Writer: w}); err != nil {
		return err
	}
	if m.Failed > 0 {
		return fmt.Errorf("%d checks: %w", m.Failed, errFailed)
	}
	return nil
}
