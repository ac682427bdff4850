package verify

// Grain is by how much ONNX Runtime's arena rounds up each value.
const Grain = 256

// Above reports whether a run of a graph with that many values took more of the arena than
// predicted, by more than a share of it, and how much. In ONNX Runtime the prediction is of the
// arena's chunks if it may hand out larger ones than requested, else of live bytes. Without a
// prediction, or without the arena's counts, above is false.
func (r *Run) Above(values int, tolerance float64) (promised int64, above bool) {
	measured := float64(r.Measured.Arena)
	if r.Runtime == nil {
		return r.Predicted.Arena, measured > float64(r.Predicted.Arena)*(1+tolerance)
	}
	promised = r.Predicted.Live
	if !r.Runtime.Exact {
		promised = max(promised, r.Predicted.Arena)
	}
	if promised == 0 || !r.Runtime.Arena {
		return promised, false
	}
	return promised, measured > float64(promised)*(1+tolerance)+float64(Grain*values)
}
