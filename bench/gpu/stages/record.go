package stages

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Schema names the form of the records: docs/gpu/README.md describes it.
const Schema = "memopt.gpu/v1"

// Result is the outcome of a check.
type Result string

const (
	Pass         Result = "pass"
	Fail         Result = "fail"
	NotAvailable Result = "not available" // the check needs something that the machine lacks
)

// Figure is a number that a check has found.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// String writes the figure for the table.
func (f Figure) String() string {
	if f.Unit == "bytes" {
		return fmt.Sprintf("%s %.0f bytes", f.Name, f.Value)
	}
	return strings.TrimSpace(f.Name + " " + strconv.FormatFloat(f.Value, 'g', 5, 64) + " " + f.Unit)
}

// Row is a check with its outcome.
type Row struct {
	Check   string   `json:"check"`
	Result  Result   `json:"result"`
	Figures []Figure `json:"figures,omitempty"`
	Note    string   `json:"note,omitempty"` // why it failed, or the missing thing
}

// Record is the results of a stage. It is written again after every check, so that a stage that is
// stopped keeps its results.
type Record struct {
	Schema   string    `json:"schema"`
	Stage    string    `json:"stage"`
	Backend  string    `json:"backend"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Finished bool      `json:"finished"` // false if the stage was stopped
	Rows     []Row     `json:"rows"`
}

// path returns the path of a stage's record in the folder out.
func path(out, stage string) string { return filepath.Join(out, "stage-"+stage+".json") }

// write saves a record. The file is replaced in one go, so that it is whole whenever the stage is
// stopped.
func (r *Record) write(out string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	file := path(out, r.Stage)
	if err := os.WriteFile(file+".new", append(data, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// readRecord reads the results of a stage.
func readRecord(file string) (*Record, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("%s: its schema is %q, wanted %q", file, r.Schema, Schema)
	}
	return r, nil
}
