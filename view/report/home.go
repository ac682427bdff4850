package report

import "fmt"

// Home is the file that the states of a job lie in, each twice, outside of the memory that a step takes.
type Home struct {
	Weights, Gradients, Moments int64 // its bytes
	// Read and Written are the bytes that an update reads there at least, and writes.
	Read, Written int64
	Budget        int64   // that it may take; 0: no bound is known
	Link          float64 // bytes per second each way; 0: not known
}

// Bytes is the size of the file.
func (h *Home) Bytes() int64 { return h.Weights + h.Gradients + h.Moments }

// Over reports whether it takes more than it may; false for nil.
func (h *Home) Over() bool { return h != nil && h.Budget > 0 && h.Bytes() > h.Budget }

// Seconds is the least time of the reads and writes of an update over the link; 0 without one.
func (h *Home) Seconds() float64 {
	if h.Link == 0 {
		return 0
	}
	return float64(max(h.Read, h.Written)) / h.Link
}

// Price is the price of a home in words.
func (h *Home) Price() string {
	text := fmt.Sprintf("an update reads %s there and writes %s", Bytes(h.Read), Bytes(h.Written))
	if s := h.Seconds(); s > 0 {
		text += fmt.Sprintf(", which take %.3g s or more over the link", s)
	}
	return text
}

// Table has a row for each part that is not empty, their sum and the bytes of an update.
func (h *Home) Table() *Table {
	unit, size := SizeUnit(h.Bytes(), h.Read, h.Written)
	t := &Table{Header: []string{"on the host, in the home", unit}, Right: []bool{false, true}}
	for _, row := range []struct {
		name  string
		bytes int64
	}{{"weights, twice", h.Weights}, {"sums of gradients, twice", h.Gradients}, {"moments, twice", h.Moments},
		{"total", h.Bytes()}, {"an update reads", h.Read}, {"an update writes", h.Written}} {
		if row.bytes > 0 {
			t.Add(row.name, size(row.bytes))
		}
	}
	if s := h.Seconds(); s > 0 {
		t.Add("over the link, at least", Milliseconds(s))
	}
	return t
}

// HomeJSON is about the file that the states of a job lie in.
type HomeJSON struct {
	Bytes     int64   `json:"bytes"` // the sum of the three below
	Weights   int64   `json:"weights_bytes"`
	Gradients int64   `json:"gradients_bytes"`
	Moments   int64   `json:"moments_bytes"`
	Budget    int64   `json:"host_budget"` // 0: no bound is known
	Read      int64   `json:"read_bytes"`  // of an update, at least
	Written   int64   `json:"written_bytes"`
	Seconds   float64 `json:"seconds"` // of an update, at least; 0: the link is not known
}

// JSON is the form of a home in reports; nil for nil.
func (h *Home) JSON() *HomeJSON {
	if h == nil {
		return nil
	}
	return &HomeJSON{h.Bytes(), h.Weights, h.Gradients, h.Moments, h.Budget, h.Read, h.Written, h.Seconds()}
}
