package timeline

// Decision is the plan's treatment of a step's outputs.
type Decision uint8

// The decisions.
const (
	Plain      Decision = iota // no backward node reads them
	Stashed                    // it is kept for the backward half
	Recomputed                 // recomputed, so that the outputs need not be kept
	Again                      // it is a run for the second time, or for one more
)

var decisionNames = [...]string{"plain", "stashed", "recomputed", "clone"}

// String returns the decision in one word, as data have it.
func (d Decision) String() string { return decisionNames[d] }

// Decisions returns the decision about each step.
func (t *Timeline) Decisions() []Decision {
	out := make([]Decision, len(t.Steps))
	for i := range t.Blocks {
		if b := &t.Blocks[i]; b.Kind == Activations && b.Made >= 0 {
			out[b.Made] = Stashed
		}
	}
	for i := range t.Steps {
		if s := &t.Steps[i]; s.Clone() {
			out[s.Repeats], out[i] = Recomputed, Again
		}
	}
	return out
}

// Made returns the bytes that each step puts into memory: those of its outputs, without views and
// values in the memory of a state.
func (t *Timeline) Made() []int64 {
	out := make([]int64, len(t.Steps))
	for i := range t.Blocks {
		b := &t.Blocks[i]
		if b.Made >= 0 && !b.Unfilled && b.Kind != Workspaces && b.Kind != Subgraphs {
			out[b.Made] += b.Bytes
		}
	}
	return out
}

// Held returns the bytes that each step has made and that are live at the peak.
func (t *Timeline) Held() []int64 {
	out := make([]int64, len(t.Steps))
	for i := range t.Blocks {
		b := &t.Blocks[i]
		if b.Made >= 0 && int(b.First) <= t.Peak && t.Peak <= int(b.Last) {
			out[b.Made] += b.Bytes
		}
	}
	return out
}

// Until returns the last step where an output of each step is live; the step itself if no output
// outlives it.
func (t *Timeline) Until() []int32 {
	out := make([]int32, len(t.Steps))
	for i := range out {
		out[i] = int32(i)
	}
	for i := range t.Blocks {
		if b := &t.Blocks[i]; b.Made >= 0 {
			out[b.Made] = max(out[b.Made], b.Last)
		}
	}
	return out
}
