package fission

// Mode says which cuts may be made.
type Mode string

const (
	// Exact: every output of the graph keeps its bits on memopt's CPU.
	Exact Mode = "exact"
	// Fast: sums over parts may differ from those of the whole by rounding.
	Fast Mode = "fast"
	// Off: none.
	Off Mode = "off"
)

// Cut is a region that is computed in parts, as plan files have it.
type Cut struct {
	// Region names it: a value inside, which is never there as a whole.
	Region string `json:"region"`
	// Dim says which of that value's dims are cut: "1", or "0-1" for the first two counted as one.
	Dim string `json:"dim"`
	// Parts is how many parts there are. The last may be smaller.
	Parts int `json:"parts"`
	// Exact says that every output keeps its bits on memopt's CPU.
	Exact bool `json:"exact"`
	// Nodes are the labels of the region's nodes (recompute.Labels), in file order.
	Nodes []string `json:"nodes"`
}
