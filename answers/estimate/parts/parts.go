// Package parts divides the memory of a training step on one device by kind, and computes the cost of a parameter
// there by arithmetic alone, for example 16 bytes with Adam in float32.
package parts

// Parts are the bytes of a device's memory at the worst moment of a step, by kind. Weights, Gradients, State,
// Activations, Temporaries, Workspace and Reserve add up to Total; the other fields are shares of one of these.
type Parts struct {
	// Weights are parameters, statistics, constants and Inputs.
	Weights int64
	Inputs  int64 // of Weights: the data of a step
	// Gradients are those of parameters, and the sums that accumulate them.
	Gradients int64
	// State is the optimizer's: moments, and Master.
	State  int64
	Master int64 // of State: weights of more bits beside those that a step computes with
	// Activations are the forward half's stashes for the backward half.
	Activations int64
	// Temporaries are all other values, and Gaps.
	Temporaries int64
	Gaps        int64 // of Temporaries: bytes of the arena without a value at that moment
	Workspace   int64 // of kernels
	// Reserve is memory that no step can have: the driver's, the context's and the libraries' share, and Rounding.
	Reserve  int64
	Rounding int64 // of Reserve: bytes that the allocator adds to requests by rounding up
}

// Total is the bytes of all parts.
func (p *Parts) Total() int64 {
	return p.Weights + p.Gradients + p.State + p.Activations + p.Temporaries + p.Workspace + p.Reserve
}

// Add returns the parts with those of another added.
func (p Parts) Add(q Parts) Parts {
	p.Weights += q.Weights
	p.Inputs += q.Inputs
	p.Gradients += q.Gradients
	p.State += q.State
	p.Master += q.Master
	p.Activations += q.Activations
	p.Temporaries += q.Temporaries
	p.Gaps += q.Gaps
	p.Workspace += q.Workspace
	p.Reserve += q.Reserve
	p.Rounding += q.Rounding
	return p
}

// page is the unit of GPU allocators: cudaMalloc takes whole pages of 2 MiB from the driver.
const page = 2 << 20

// Rounding is by how many bytes a GPU's driver rounds up the two blocks of a step: the tensors that stay
// throughout, which lie next to each other at multiples of the alignment, and the arena.
func Rounding(held []int64, arena, alignment int64) int64 {
	var asked, aligned int64
	for _, n := range held {
		asked += n
		aligned += up(n, alignment)
	}
	return up(aligned, page) - asked + up(arena, page) - arena
}

func up(n, to int64) int64 { return (n + to - 1) / to * to }

// Row is a part with its name.
type Row struct {
	Name  string
	Field string // in JSON and CSV
	Bytes int64
	// Share is the part that a share is of, as an index into Rows; -1 for parts that add up to the total.
	Share int
}

// Rows lists the parts in the order of reports, each share behind its part.
func (p *Parts) Rows() []Row {
	return []Row{
		{"weights", "weights_bytes", p.Weights, -1},
		{"inputs of the step", "inputs_bytes", p.Inputs, 0},
		{"gradients", "gradients_bytes", p.Gradients, -1},
		{"optimizer state", "state_bytes", p.State, -1},
		{"master weights", "master_bytes", p.Master, 3},
		{"activations", "activations_bytes", p.Activations, -1},
		{"temporaries", "temporaries_bytes", p.Temporaries, -1},
		{"gaps in the arena", "gaps_bytes", p.Gaps, 6},
		{"workspaces", "workspace_bytes", p.Workspace, -1},
		{"reserve", "reserve_bytes", p.Reserve, -1},
		{"allocator's rounding", "rounding_bytes", p.Rounding, 9},
	}
}

// JSON is the form in reports of the parts that add up to the total.
type JSON struct {
	Weights     int64 `json:"weights_bytes"`
	Gradients   int64 `json:"gradients_bytes"`
	State       int64 `json:"state_bytes"`
	Activations int64 `json:"activations_bytes"`
	Temporaries int64 `json:"temporaries_bytes"`
	Workspace   int64 `json:"workspace_bytes"`
	Reserve     int64 `json:"reserve_bytes"`
}

// SharesJSON is the form in reports of the shares of parts.
type SharesJSON struct {
	Inputs   int64 `json:"inputs_bytes"`
	Master   int64 `json:"master_bytes"`
	Gaps     int64 `json:"gaps_bytes"`
	Rounding int64 `json:"rounding_bytes"`
}

// Breakdown is the form of parts in reports.
type Breakdown struct {
	Parts  JSON       `json:"parts"`
	Shares SharesJSON `json:"shares"`
}

// JSON returns the form of the parts in reports.
func (p *Parts) JSON() Breakdown {
	return Breakdown{JSON{p.Weights, p.Gradients, p.State, p.Activations, p.Temporaries, p.Workspace, p.Reserve},
		SharesJSON{p.Inputs, p.Master, p.Gaps, p.Rounding}}
}
