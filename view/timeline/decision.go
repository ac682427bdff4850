package timeline

// Decision says what a plan does about what a step makes.
type Decision uint8

// The decisions.
const (
	Plain      Decision = iota // nothing: no backward node reads it
	Stashed                    // it is kept for the backward half
	Recomputed                 // it runs again, so that what it makes need not be kept
	Again                      // it is a run for the second time, or for one more
)

var decisionNames = [...]string{"plain", "stashed", "recomputed", "clone"}

// String returns the decision in one word, as data have it.
func (d Decision) String() string { return decisionNames[d] }

// Decisions returns what is decided about each step.
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

// Made returns the bytes that each step puts into memory: those of the values that it makes, views and
// what lies in the memory of a state left out.
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

// Until returns the last step at which something that each step has made is live; the step itself where
// it makes nothing that is.
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
