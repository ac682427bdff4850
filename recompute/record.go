package recompute

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"memopt/graph"
)

// Key is the metadata key of a rewritten model's record of the rewrite.
const Key = "memopt.recompute"

// Schema is the schema of Record, SchemaMoved that of one whose values move to the host.
const (
	Schema      = "memopt.recompute/v1"
	SchemaMoved = "memopt.recompute/v2"
)

// Record is a plan on disk: plan.json, and the JSON under Key in a rewritten
// model. Nodes are named by their Labels, values by their names.
type Record struct {
	Schema string `json:"schema"`
	// Model is the name of the model's file, without folders, and ToolVersion the release of memopt
	// that made the plan. Neither is in a rewritten model, nor in plan files of earlier releases.
	Model           string            `json:"model,omitempty"`
	ToolVersion     string            `json:"tool_version,omitempty"`
	StructureSHA256 string            `json:"structure_sha256"`
	Dims            map[string]int64  `json:"dims"`
	Order           NodeOrder         `json:"order"`
	Placements      []PlacementRecord `json:"placements"`
	Predicted       *PeakRecord       `json:"predicted"`
	Solver          string            `json:"solver"`
	Seed            int64             `json:"seed"`
	Bound           any               `json:"bound"`
	Anchors         int               `json:"anchors,omitempty"` // in a rewritten model: how many were written
	// Budget is the budget that the plan was made to or held to, and Recompute the cost of the
	// plan; in plan files alone, nil without a budget and without sizes.
	Budget    *BudgetRecord `json:"budget,omitempty"`
	Recompute *CostRecord   `json:"recompute,omitempty"`
	// Demands are the values that the plan was told to keep and to recompute; its placements obey
	// them; in plan files alone.
	Demands *DemandRecord `json:"demands,omitempty"`
	// Ranges are the first and the last value of symbols; the plan keeps within the budget for all
	// values in between. In plan files alone; Dims has the largest. Nil means that the plan is for
	// Dims alone.
	Ranges map[string][2]int64 `json:"ranges,omitempty"`
	// Fission are the chunked regions: Order and Placements are of the chunked graph, which is made
	// of the model's graph in WholeOrder. Neither is set in a plan without chunks.
	Fission    []CutRecord `json:"fission,omitempty"`
	WholeOrder NodeOrder   `json:"whole_order,omitempty"`
	// EarlierFission are the regions that were already chunked in the graph before the rewrite; in a
	// rewritten model alone.
	EarlierFission []CutRecord `json:"earlier_fission,omitempty"`
	// MovedRecord is that of values which move to the host, in records of SchemaMoved; else nil.
	*MovedRecord
}

// Valid tells whether a record has one of the schemas, and what it must have. It drops moves from a record without.
func (r *Record) Valid() bool {
	switch r.Schema {
	case Schema:
		r.MovedRecord = nil
		return true
	case SchemaMoved:
		return r.MovedRecord != nil && r.Link != nil
	}
	return false
}

// Inherit takes over the valid parts of the former record of the model that is rewritten: its chunked
// regions, and the sizes that they were made for.
func (r *Record) Inherit(m *graph.Model) {
	old := RecordOf(m)
	if old == nil || len(old.InParts()) == 0 {
		return
	}
	r.EarlierFission = old.InParts()
	for symbol, n := range old.Dims {
		if _, ok := r.Dims[symbol]; !ok {
			r.Dims[symbol] = n
		}
	}
}

// InParts are all chunked regions of a rewritten model.
func (r *Record) InParts() []CutRecord { return slices.Concat(r.EarlierFission, r.Fission) }

// CutRecord is a chunked region on disk (chunk.Cut).
type CutRecord struct {
	Region string   `json:"region"`
	Dim    string   `json:"dim"`
	Parts  int      `json:"parts"`
	Exact  bool     `json:"exact"`
	Nodes  []string `json:"nodes"`
}

// RecordOf returns the record of a rewritten model; nil if it has no readable record.
func RecordOf(m *graph.Model) *Record {
	text, ok := m.Meta(Key)
	r := &Record{}
	if !ok || json.Unmarshal([]byte(text), r) != nil || !r.Valid() {
		return nil
	}
	return r
}

// BudgetRecord is a budget on disk. One of the first three fields is set, or all are empty if there
// are only limits on the stashes of parts of the graph.
type BudgetRecord struct {
	TotalBytes int64   `json:"total_bytes,omitempty"` // of inputs, weights and the arena together
	Share      float64 `json:"share,omitempty"`       // of the baseline's peak, for the arena
	ArenaBytes int64   `json:"arena_bytes,omitempty"` // of the arena
	// In is "memopt", or "ort" for the arena of stock ONNX Runtime.
	In    string             `json:"in"`
	Stash []StashLimitRecord `json:"stash,omitempty"`
}

// StashLimitRecord limits the stash of nodes whose names match a glob.
type StashLimitRecord struct {
	Glob  string `json:"glob"`
	Bytes int64  `json:"bytes"`
}

// DemandRecord has the names and globs of the values to keep and of those to recompute.
type DemandRecord struct {
	Keep      []string `json:"keep,omitempty"`
	Recompute []string `json:"recompute,omitempty"`
}

// CostRecord is the recomputation of a plan, and its time as a share of a step by a profile.
type CostRecord struct {
	Nodes    int     `json:"nodes"`
	Overhead float64 `json:"overhead"`
	Profile  string  `json:"profile"`
}

// PlacementRecord is a Placement on disk.
type PlacementRecord struct {
	Value  string   `json:"value"`
	Nodes  []string `json:"nodes"`
	Before string   `json:"before"`
	Copy   int      `json:"copy"`
	Reason string   `json:"reason"`
}

// PeakRecord has the peaks that a plan predicts, in bytes.
type PeakRecord struct {
	BaselineBytes   int64 `json:"baseline_bytes"`
	PlannedBytes    int64 `json:"planned_bytes"`
	LowerBoundBytes int64 `json:"lower_bound_bytes"`
	// PartsBoundBytes is a lower bound for all plans, chunked ones included; 0 if there is no such
	// bound.
	PartsBoundBytes int64 `json:"parts_lower_bound_bytes,omitempty"`
	ArenaBytes      int64 `json:"arena_bytes"`
	PersistentBytes int64 `json:"persistent_bytes"`
	TotalBytes      int64 `json:"total_bytes"`
	// CloneBytes is the memory of clones besides values; it is included in planned, arena and total
	// bytes.
	CloneBytes int64 `json:"clone_bytes,omitempty"`
}

// RecordPlacements names the nodes and values of placements.
func RecordPlacements(g *graph.Graph, placements []Placement) []PlacementRecord {
	labels := Labels(g)
	out := make([]PlacementRecord, 0, len(placements))
	for _, p := range placements {
		r := PlacementRecord{Value: g.Values[p.Value].Name, Before: labels[p.Before], Copy: p.Copy, Reason: p.Reason}
		for _, id := range p.Nodes {
			r.Nodes = append(r.Nodes, labels[id])
		}
		out = append(out, r)
	}
	return out
}

// ResolvePlacements finds the nodes and values that a record names in a graph.
func ResolvePlacements(g *graph.Graph, records []PlacementRecord) ([]Placement, error) {
	byLabel := byLabel(g)
	out := make([]Placement, 0, len(records))
	for i, r := range records {
		v, ok := g.Lookup(r.Value)
		if !ok {
			return nil, fmt.Errorf("placement %d: the graph has no value %q", i, r.Value)
		}
		p := Placement{Value: v, Copy: r.Copy, Reason: r.Reason}
		if p.Before, ok = byLabel[r.Before]; !ok {
			return nil, fmt.Errorf("placement of %q: the graph has no node %q", r.Value, r.Before)
		}
		for _, name := range r.Nodes {
			id, ok := byLabel[name]
			if !ok {
				return nil, fmt.Errorf("placement of %q: the graph has no node %q", r.Value, name)
			}
			p.Nodes = append(p.Nodes, id)
		}
		out = append(out, p)
	}
	return out, nil
}

// ResolveOrder checks a recorded order against a graph.
func ResolveOrder(g *graph.Graph, order NodeOrder) (graph.Order, error) {
	o := make(graph.Order, len(order))
	for i, id := range order {
		o[i] = graph.NodeID(id)
	}
	if err := o.Check(g); err != nil {
		return nil, fmt.Errorf("recorded order of %s nodes: %w", strconv.Itoa(len(order)), err)
	}
	return o, nil
}
