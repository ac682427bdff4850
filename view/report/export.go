package report

import (
	"fmt"
	"io"
)

// ExportSchema is the schema of the JSON that `memopt export -O json` prints.
const ExportSchema = "memopt.export/v1"

// Exported is a written export.
type Exported struct {
	Schema     string `json:"schema"` // set by Export
	Out        string `json:"out"`
	Checkpoint string `json:"checkpoint"`
	Step       int64  `json:"step"`
	Model      string `json:"model"`
	Weights    int    `json:"weights"`
	Added      int    `json:"added"`
	Kept       int    `json:"kept"`
	Bytes      int64  `json:"bytes"`
	Moments    string `json:"moments,omitempty"` // the file of the optimizer's states
}

// Export reports the written file and its source.
func Export(w io.Writer, format Format, r Exported) error {
	r.Schema = ExportSchema
	if format == JSONFormat {
		return WriteJSON(w, r)
	}
	t := Table{Header: []string{"item", "value"}, Right: []bool{false, true}, Fit: []Fit{Wrap, Wrap}}
	t.Add("written to", r.Out)
	t.Add("checkpoint", r.Checkpoint)
	t.Add("step", fmt.Sprint(r.Step))
	t.Add("model", r.Model)
	t.Add("weights and statistics", fmt.Sprint(r.Weights))
	t.Add("of these, inputs of the model", fmt.Sprint(r.Added))
	t.Add("initializers kept", fmt.Sprint(r.Kept))
	t.Add("bytes from the checkpoint", Bytes(r.Bytes))
	if r.Moments != "" {
		t.Add("moments, in float32", r.Moments)
	}
	return t.WriteAs(w, format)
}
