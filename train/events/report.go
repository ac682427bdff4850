package events

import "encoding/json"

// reportSchema names the format of a Report.
const reportSchema = "memopt.train/v1"

// Report is what a training job says at its end (docs/schemas/train.schema.json).
type Report struct {
	Steps     int64  `json:"steps"`      // updates, those that were left out included
	LossFirst Number `json:"loss_first"` // of the first update that this run made
	LossLast  Number `json:"loss_last"`
	Peak      Peak   `json:"peak"`
	Rank      int    `json:"rank"`
	Ranks     int    `json:"ranks"`
}

// Peak is what a step needed: as planned, and as measured.
type Peak struct {
	BaselineBytes      int64  `json:"baseline_bytes"`    // live at the peak of the step as it is
	PlannedBytes       int64  `json:"planned_bytes"`     // live at the peak of the planned step
	LowerBoundBytes    *int64 `json:"lower_bound_bytes"` // nil: nobody knows
	ArenaBytes         int64  `json:"arena_bytes"`       // planned
	PersistentBytes    int64  `json:"persistent_bytes"`  // inputs, weights and states
	TotalBytes         int64  `json:"total_bytes"`       // of arena and persistent ones
	MeasuredArenaBytes *int64 `json:"measured_arena_bytes"`
}

// MarshalJSON writes the report with the name of its format.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		Schema string `json:"schema"`
		plain
	}{reportSchema, plain(r)})
}
