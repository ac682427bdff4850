package parts

import (
	"memopt/graph/precision"
	"memopt/view/report"
)

// Head is the beginning of an estimate's JSON, for one device and for several.
type Head struct {
	Schema string           `json:"schema"`
	Model  ModelJSON        `json:"model"`
	Dims   map[string]int64 `json:"dims"`
	Answer string           `json:"answer"`
	// Runtime says whose step it is: "memopt" or "torch".
	Runtime string  `json:"runtime"`
	Fits    *bool   `json:"fits"`
	Device  *string `json:"device"`
	Memory  *int64  `json:"memory_bytes"`
	Total   int64   `json:"total_bytes"` // of several devices, of the one that takes the most
	Breakdown
	PeakNode   string         `json:"peak_node"`
	Step       StepJSON       `json:"step"`
	Precision  *PrecisionJSON `json:"precision"`
	Parameters ParametersJSON `json:"parameters"`
}

// ModelJSON identifies the estimated model.
type ModelJSON struct {
	Path            string `json:"path"`
	StructureSHA256 string `json:"structure_sha256"`
}

// StepJSON identifies the training step, as in the reports of other verbs.
type StepJSON struct {
	Text      string  `json:"text"`
	Made      bool    `json:"made"`
	Optimizer *string `json:"optimizer"`
	Micros    int     `json:"accumulate"`
}

// PrecisionJSON has the element types of a precision.
type PrecisionJSON struct {
	Name        string  `json:"name"`
	Weights     string  `json:"weights"`
	Activations string  `json:"activations"`
	Gradients   string  `json:"gradients"`
	Master      *string `json:"master_weights"`
	Moments     string  `json:"moments"`
}

// JSON returns the form of the types of a precision in reports; nil for a graph's own types.
func (t *Types) JSON(p precision.Precision) *PrecisionJSON {
	if t == nil {
		return nil
	}
	out := &PrecisionJSON{string(p), t.Weights.String(), t.Activations.String(), t.Gradients.String(), nil,
		t.Moments.String()}
	if t.Master.Valid() {
		master := t.Master.String()
		out.Master = &master
	}
	return out
}

// ParametersJSON counts parameters; their individual cost is null if they cost differently.
type ParametersJSON struct {
	Count    int64  `json:"count"`
	Weight   *int64 `json:"weight_bytes"`
	Gradient *int64 `json:"gradient_bytes"`
	Master   *int64 `json:"master_bytes"`
	Moments  *int64 `json:"moments_bytes"`
}

// JSON returns the form of so many parameters in reports; p is nil if they cost differently.
func (p *PerParameter) JSON(count int64) ParametersJSON {
	if p == nil {
		return ParametersJSON{Count: count}
	}
	return ParametersJSON{count, &p.Weight, &p.Gradient, &p.Master, &p.Moments}
}

// PlannedJSON is the memory of a device with a plan.
type PlannedJSON struct {
	Total    int64   `json:"total_bytes"`
	Overhead float64 `json:"overhead"`
	Nodes    int     `json:"nodes"`
	Breakdown
	Copies    *report.CopiesJSON `json:"copies,omitempty"`
	Allocator *AllocatorJSON     `json:"allocator,omitempty"`
}

// AllocatorJSON says how an allocator serves a step.
type AllocatorJSON struct {
	Name          string         `json:"name"`
	Asked         int64          `json:"asked_bytes"`
	Allocated     int64          `json:"allocated_bytes"`
	Reserved      int64          `json:"reserved_bytes"`
	Fragmentation float64        `json:"fragmentation"`
	Error         *string        `json:"error"`
	Expandable    *AllocatorJSON `json:"expandable,omitempty"`
}
