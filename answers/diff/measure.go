package diff

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strings"

	"memopt/recompute"
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
	{"overhead", Share,
		"time of the recomputed nodes and of waits for copies, as a share of a step; for verify, the measured share"},
	{"time", Millis, "time of one step: the median of a run; for a planned model, the estimate"},
	{"nodes", NoUnit, "recomputed nodes"},
	{"placements", NoUnit, "recomputed values"},
	{"moves", NoUnit, "copies of values to the host that come back"},
	{"moved", Bytes, "bytes that a step copies to the host"},
	{"host", Bytes, "bytes that copies take on the host at once"},
}

// source is the place of a measure in a schema.
type source struct {
	measure, path string
	by            conversion
}

// conversion makes a measure of a field.
type conversion int

const (
	asIs        conversion = iota
	lessOne                // of the ratio of two times
	fromMicros             // to milliseconds
	fromSeconds            // likewise
)

// of converts the value of a field.
func (c conversion) of(v Value) Value {
	if v.Number == nil || c == asIs {
		return v
	}
	var x float64
	switch c {
	case lessOne:
		x, _ = new(big.Rat).Sub(v.Number, big.NewRat(1, 1)).Float64()
	case fromMicros:
		x, _ = new(big.Rat).Quo(v.Number, big.NewRat(1000, 1)).Float64()
	case fromSeconds:
		x, _ = new(big.Rat).Mul(v.Number, big.NewRat(1000, 1)).Float64()
	}
	return floatValue(x)
}

// sources has the measures of the schemas that have any.
var sources = map[string][]source{
	"memopt.plan/v1": {{"peak", "peak.planned_bytes", asIs}, {"baseline", "peak.baseline_bytes", asIs},
		{"arena", "peak.arena_bytes", asIs}, {"persistent", "peak.persistent_bytes", asIs},
		{"total", "peak.total_bytes", asIs}, {"overhead", "recompute.overhead", asIs},
		{"nodes", "recompute.nodes", asIs}},
	"memopt.recompute/v1": {{"peak", "predicted.planned_bytes", asIs},
		{"baseline", "predicted.baseline_bytes", asIs}, {"arena", "predicted.arena_bytes", asIs},
		{"persistent", "predicted.persistent_bytes", asIs}, {"total", "predicted.total_bytes", asIs},
		{"overhead", "recompute.overhead", asIs}, {"nodes", "recompute.nodes", asIs}},
	"memopt.recompute/v2": {{"peak", "predicted.planned_bytes", asIs},
		{"baseline", "predicted.baseline_bytes", asIs}, {"arena", "predicted.arena_bytes", asIs},
		{"persistent", "predicted.persistent_bytes", asIs}, {"total", "predicted.total_bytes", asIs},
		{"overhead", "recompute.overhead", asIs}, {"time", "makespan_us", fromMicros},
		{"nodes", "recompute.nodes", asIs}, {"host", "host_peak", asIs}, {"moved", "moved_bytes", asIs}},
	"memopt.moves/v1": {{"peak", "peak_live_bytes", asIs}, {"arena", "arena_bytes", asIs},
		{"persistent", "persistent_bytes", asIs}, {"total", "total_bytes", asIs}, {"overhead", "overhead", asIs},
		{"time", "step_seconds", fromSeconds}, {"nodes", "recomputed_nodes", asIs}, {"moves", "moves", asIs},
		{"host", "host_peak", asIs}, {"moved", "moved_bytes", asIs}},
	operatorsSchema: {{"peak", "peak_bytes", asIs}, {"baseline", "baseline_peak_bytes", asIs},
		{"persistent", "held_bytes", asIs}, {"total", "total_bytes", asIs}, {"overhead", costRatio, lessOne},
		{"time", stepTime, asIs}, {"nodes", recomputations, asIs}},
	"memopt.apply/v1": {{"peak", "peak.planned_bytes", asIs}, {"baseline", "peak.baseline_bytes", asIs},
		{"arena", "peak.arena_bytes", asIs}, {"persistent", "peak.persistent_bytes", asIs},
		{"total", "peak.total_bytes", asIs}, {"nodes", "clones", asIs}, {"placements", "placements", asIs}},
	"memopt.estimate/v1": {{"peak", "total_bytes", asIs}, {"total", "total_bytes", asIs},
		{"overhead", "with_plan.overhead", asIs}},
	"memopt.run/v1": {{"peak", "peak.predicted_live_bytes", asIs}, {"arena", "peak.arena_bytes", asIs},
		{"persistent", "peak.persistent_bytes", asIs}, {"measured", "peak.measured_arena_bytes", asIs},
		{"time", "time_ms.median", asIs}},
	"memopt.verify/v1": {{"peak", "planned.peak.predicted_live_bytes", asIs},
		{"baseline", "baseline.peak.predicted_live_bytes", asIs}, {"arena", "planned.peak.arena_bytes", asIs},
		{"persistent", "planned.peak.persistent_bytes", asIs},
		{"measured", "planned.peak.measured_arena_bytes", asIs}, {"time", "planned.time_ms.median", asIs},
		{"overhead", "slowdown", lessOne}},
	"memopt.train/v1": {{"peak", "peak.planned_bytes", asIs}, {"baseline", "peak.baseline_bytes", asIs},
		{"arena", "peak.arena_bytes", asIs}, {"persistent", "peak.persistent_bytes", asIs},
		{"total", "peak.total_bytes", asIs}, {"measured", "peak.measured_arena_bytes", asIs},
		{"moves", "moves.moves", asIs}, {"host", "moves.planned_bytes", asIs}, {"moved", "moves.moved_bytes", asIs}},
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
		if v, _ := s.field(src.path); v.Known {
			return src.by.of(v)
		}
	}
	switch {
	case name == "placements" && s.placements.known:
		return intValue(int64(len(s.placements.items)))
	case name == "moves" && s.Schema == recompute.SchemaMoved:
		return intValue(int64(len(s.moves.items)))
	case s.Kind == PlanKind:
		v, _ := s.field(planned[name])
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

// planned has the paths of a planned model's measures that its report does not have.
var planned = map[string]string{"time": stepTime, "moves": "moves", "moved": "moved_bytes", "host": "host_peak"}

// isSource reports whether a field is shown as a measure.
func (s *Subject) isSource(path string) bool {
	if slices.ContainsFunc(sources[s.Schema], func(src source) bool { return src.path == path }) {
		return true
	}
	return s.Kind == PlanKind && slices.Contains(slices.Collect(maps.Values(planned)), path)
}

// shares are the names of fields that are shares of something.
var shares = map[string]bool{"overhead": true, "overhead_lower_bound": true, "gap": true, "share": true}

// unitOf returns the unit of a field by its path.
func unitOf(path string) Unit {
	parts := strings.Split(path, ".")
	last := parts[len(parts)-1]
	switch {
	case last == "bytes" || strings.HasSuffix(last, "_bytes") || last == "host_peak" || last == "host_budget":
		return Bytes
	case strings.HasSuffix(last, "_ms"), len(parts) > 1 && strings.HasSuffix(parts[len(parts)-2], "_ms"):
		return Millis
	case shares[last]:
		return Share
	}
	return NoUnit
}
