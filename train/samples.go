package train

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// findBatch finds the dim that counts the samples of a batch: the first dim of the first input for data
// that has one. A symbol that is a later dim of one of these inputs counts something else, for example
// the steps of a sequence, unless it is the only one. Exporters give each input a symbol of its own;
// those that count only samples are twins of the batch's.
func (s *Steps) findBatch() {
	s.Batch, s.twins = "", nil
	var firsts []symbolic.Expr
	for _, v := range s.Inputs {
		if dims := s.inputDims(v); len(dims) > 0 {
			firsts = append(firsts, dims[0])
		}
	}
	if len(firsts) == 0 {
		return
	}
	s.first = firsts[0]
	if i := slices.IndexFunc(firsts, func(d symbolic.Expr) bool { return !s.isLater(symbolName(d)) }); i >= 0 {
		s.first = firsts[i]
	}
	if s.Batch = symbolName(s.first); s.Batch == "" {
		return
	}
	for _, d := range firsts {
		name := symbolName(d)
		if name == "" || name == s.Batch || s.isLater(name) || slices.Contains(s.twins, name) {
			continue
		}
		n, bound := s.Step.Dims[name]
		if rows, known := s.Step.Dims[s.Batch]; !bound || known && n == rows {
			s.twins = append(s.twins, name)
		}
	}
}

// inputDims are the dims of an input of the step.
func (s *Steps) inputDims(v graph.ValueID) []symbolic.Expr {
	return s.Step.Graph.Values[v].Type.Shape.Dims
}

// isLater reports whether a symbol is in a dim behind the first of an input for data.
func (s *Steps) isLater(symbol string) bool {
	return symbol != "" && slices.ContainsFunc(s.Inputs, func(v graph.ValueID) bool {
		dims := s.inputDims(v)
		return len(dims) > 1 && slices.ContainsFunc(dims[1:], func(d symbolic.Expr) bool {
			return slices.Contains(d.Symbols(), symbol)
		})
	})
}

// batches are the symbols that count the samples of a batch, empty if the file has a number.
func (s *Steps) batches() []string {
	if s.Batch == "" {
		return nil
	}
	return append([]string{s.Batch}, s.twins...)
}

// batched reports whether the first dim of an input counts samples: it is that of the batch, a twin of it,
// or known to be the same number.
func (s *Steps) batched(v graph.ValueID) bool {
	dims := s.inputDims(v)
	if len(dims) == 0 {
		return false
	}
	if dims[0].Equal(s.first) || slices.Contains(s.twins, symbolName(dims[0])) {
		return true
	}
	n, err := dims[0].Eval(s.Step.Dims)
	rows, known := s.knownRows()
	return err == nil && known && n == rows && !s.isLater(symbolName(dims[0]))
}

// whole reports whether the first dim of an input is known to count something else than samples: it is a later
// dim of an input, or the rows of a batch are known to be another number.
func (s *Steps) whole(v graph.ValueID) bool {
	dims := s.inputDims(v)
	if len(dims) == 0 || s.batched(v) {
		return false
	}
	_, err := dims[0].Eval(s.Step.Dims)
	_, known := s.knownRows()
	return s.isLater(symbolName(dims[0])) || err == nil && known
}

// knownRows are the samples of a batch, where the file or a binding says them.
func (s *Steps) knownRows() (int64, bool) {
	n, err := s.first.Eval(s.Step.Dims)
	return n, err == nil
}
