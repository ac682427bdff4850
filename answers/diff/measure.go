package diff

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
)

// Unit is the unit of a number.
type Unit string

// The units of numbers.
const (
	NoUnit Unit = ""      // of texts, and of numbers without a unit: counts
	Bytes  Unit = "bytes" // of memory
	Millis Unit = "ms"    // of time
	Share  Unit = "share" // of something, such as of a step: 0.03 is 3 %
)

// Measure is a number with a name that does not depend on its report.
type Measure struct {
	Name string
	Unit Unit
	Doc  string
}

// Measures lists the names for conditions besides the paths of fields, for example peak, in the order
// of reports.
func Measures() []Measure { return measures[:] }

var measures = [...]Measure{
	{"peak", Bytes, "peak of live bytes of the planned step, without inputs and weights; of an estimate, its total"},
	{"baseline", Bytes, "the same of the graph as it is"},
	{"arena", Bytes, "the planned step's values packed at offsets"},
	{"persistent", Bytes, "inputs and weights, which are live throughout"},
	{"total", Bytes, "arena and persistent bytes together"},
	{"measured", Bytes, "bytes of the arena that a run took"},
	{"overhead", Share, "time of the recomputed nodes, as a share of a step; for verify, the measured share"},
	{"time", Millis, "time of one step: the median of a run; for a planned model, the estimate"},
	{"nodes", NoUnit, "recomputed nodes"},
	{"placements", NoUnit, "recomputed values"},
}

// source is the place of a measure in a schema.
type source struct {
	measure, path string
	lessOne       bool // the field is the ratio of two times
}

// sources has the measures of the schemas that have any.
var sources = map[string][]source{
	"memopt.plan/v1": {{"peak", "peak.planned_bytes", false}, {"baseline", "peak.baseline_bytes", false},
		{"arena", "peak.arena_bytes", false}, {"persistent", "peak.persistent_bytes", false},
		{"total", "peak.total_bytes", false}, {"overhead", "recompute.overhead", false},
		{"nodes", "recompute.nodes", false}},
	"memopt.recompute/v1": {{"peak", "predicted.planned_bytes", false},
		{"baseline", "predicted.baseline_bytes", false}, {"arena", "predicted.arena_bytes", false},
		{"persistent", "predicted.persistent_bytes", false}, {"total", "predicted.total_bytes", false},
		{"overhead", "recompute.overhead", false}, {"nodes", "recompute.nodes", false}},
	operatorsSchema: {{"peak", "peak_bytes", false}, {"baseline", "baseline_peak_bytes", false},
		{"persistent", "held_bytes", false}, {"total", "total_bytes", false}, {"overhead", costRatio, true},
		{"time", stepTime, false}, {"nodes", recomputations, false}},
	"memopt.apply/v1": {{"peak", "peak.planned_bytes", false}, {"baseline", "peak.baseline_bytes", false},
		{"arena", "peak.arena_bytes", false}, {"persistent", "peak.persistent_bytes", false},
		{"total", "peak.total_bytes", false}, {"nodes", "clones", false}, {"placements", "placements", false}},
	"memopt.estimate/v1": {{"peak", "total_bytes", false}, {"total", "total_bytes", false},
		{"overhead", "with_plan.overhead", false}},
	"memopt.run/v1": {{"peak", "peak.predicted_live_bytes", false}, {"arena", "peak.arena_bytes", false},
		{"persistent", "peak.persistent_bytes", false}, {"measured", "peak.measured_arena_bytes", false},
		{"time", "time_ms.median", false}},
	"memopt.verify/v1": {{"peak", "planned.peak.predicted_live_bytes", false},
		{"baseline", "baseline.peak.predicted_live_bytes", false}, {"arena", "planned.peak.arena_bytes", false},
		{"persistent", "planned.peak.persistent_bytes", false},
		{"measured", "planned.peak.measured_arena_bytes", false}, {"time", "planned.time_ms.median", false},
		{"overhead", "slowdown", true}},
	"memopt.train/v1": {{"peak", "peak.planned_bytes", false}, {"baseline", "peak.baseline_bytes", false},
		{"arena", "peak.arena_bytes", false}, {"persistent", "peak.persistent_bytes", false},
		{"total", "peak.total_bytes", false}, {"measured", "peak.measured_arena_bytes", false}},
}

// meanings has, by measure and schema, the meanings of measures that differ between schemas; "" stands
// for all other schemas.
var meanings = map[string]map[string]string{
	"peak":     {"": "the peak of live bytes without inputs and weights", "memopt.estimate/v1": "the total of a step"},
	"overhead": {"": "an estimate", "memopt.verify/v1": "a measurement"},
	"time":     {"": "an estimate", "memopt.run/v1": "a measurement", "memopt.verify/v1": "a measurement"},
}

// meaning is the meaning of a measure in a schema; "" for one that means the same in all.
func meaning(measure, schema string) string {
	by := meanings[measure]
	return cmp.Or(by[schema], by[""])
}

// measure looks a measure up; unknown where the subject does not have it.
func (s *Subject) measure(name string) Value {
	for _, src := range sources[s.Schema] {
		if src.measure != name {
			continue
		}
		v, _ := s.field(src.path)
		if src.lessOne && v.Number != nil {
			x, _ := new(big.Rat).Sub(v.Number, big.NewRat(1, 1)).Float64()
			return floatValue(x)
		}
		return v
	}
	switch {
	case name == "placements" && s.placements.known:
		return intValue(int64(len(s.placements.items)))
	case name == "time" && s.Kind == PlanKind:
		v, _ := s.field(stepTime)
		return v
	}
	return Value{}
}

// mayHave reports whether subjects of this schema have a measure, if it is known.
func (s *Subject) mayHave(name string) bool {
	return slices.ContainsFunc(sources[s.Schema], func(src source) bool { return src.measure == name })
}

// stepTime is the path of a planned model's time, which its report does not have.
const stepTime = "step_ms"

// isSource reports whether a field is shown as a measure.
func isSource(schema, path string) bool {
	for _, src := range sources[schema] {
		if src.path == path {
			return true
		}
	}
	return path == stepTime
}

// shares are the names of fields that are shares of something.
var shares = map[string]bool{"overhead": true, "overhead_lower_bound": true, "gap": true, "share": true}

// unitOf returns the unit of a field by its path.
func unitOf(path string) Unit {
	parts := strings.Split(path, ".")
	last := parts[len(parts)-1]
	switch {
	case last == "bytes" || strings.HasSuffix(last, "_bytes"):
		return Bytes
	case strings.HasSuffix(last, "_ms"), len(parts) > 1 && strings.HasSuffix(parts[len(parts)-2], "_ms"):
		return Millis
	case shares[last]:
		return Share
	}
	return NoUnit
}
