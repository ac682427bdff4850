package mutate

import "slices"

// ShrinkGenome leaves out genes as long as the rest still fails.
func ShrinkGenome(genome []byte, fails func([]byte) bool) []byte {
	for at := len(genome) - len(genome)%GeneLen; at >= 0; at -= GeneLen {
		if at == len(genome) {
			continue
		}
		fewer := slices.Delete(slices.Clone(genome), at, min(at+GeneLen, len(genome)))
		if fails(fewer) {
			genome = fewer
		}
	}
	return genome
}

// ShrinkModel leaves out elements of an encoded model, halves of lists first, as long as the rest
// still fails.
func ShrinkModel(model []byte, fails func([]byte) bool) []byte {
	root := decode(messages["ModelProto"], model, 0)
	if !slices.Equal(root.encode(), model) && !fails(root.encode()) {
		return model
	}
	for shrinkMessage(root, func() bool { return fails(root.encode()) }) {
	}
	return root.encode()
}

// shrinkMessage leaves out runs of fields, from the last to the first, first of half of them, then
// of a quarter, down to single ones; then it descends into those that are left. It reports whether
// anything was left out.
func shrinkMessage(m *message, fails func() bool) bool {
	less := false
	for size := max(len(m.fields)/2, 1); size > 0; size /= 2 {
		for end := len(m.fields); end > 0; end -= size {
			start := max(end-size, 0)
			all := m.fields
			m.fields = slices.Delete(slices.Clone(all), start, end)
			if fails() {
				less = true
			} else {
				m.fields = all
			}
		}
	}
	for _, f := range m.fields {
		if f.msg != nil {
			less = shrinkMessage(f.msg, fails) || less
		}
	}
	return less
}
