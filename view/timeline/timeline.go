package timeline

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner/arena"
)

// Kind is the use of bytes, in the words of estimates and reports.
type Kind uint8

// The kinds of bytes.
const (
	// Weights are parameters, statistics, constants and the inputs of the step.
	Weights     Kind = iota
	State            // of the optimizer
	Gradients        // of parameters, and the sums that accumulate them
	Activations      // stashed: made by the forward half, or recomputed, for the backward half
	Moved            // values that go to the host later, and those that have come back
	Temporaries      // all other values, and bytes that wait for one
	Workspaces       // of kernels
	Subgraphs        // values inside the subgraphs of a node while it runs
	NumKinds
)

var kindNames = [NumKinds]string{"weights", "state", "gradients", "activations", "moved", "temporaries", "workspaces",
	"subgraphs"}

// String returns the kind in one word, as data have it.
func (k Kind) String() string { return kindNames[k] }

// Bytes are bytes by kind.
type Bytes [NumKinds]int64

// Sum is the bytes of all kinds.
func (b *Bytes) Sum() (sum int64) {
	for _, n := range b {
		sum += n
	}
	return sum
}

// Step is one run of a node.
type Step struct {
	Node  graph.NodeID // of Timeline.Graph
	Name  string       // of the node, or of the clone that recomputes it
	Op    string
	Layer string // graph.NoLayer if the name has no layer
	Phase live.Phase
	// Repeats is the step that ran the node first, where this one runs it again; else -1.
	Repeats int32
	Copy    int32 // of a step that runs a node again, the number of times that it has run before; else 0
	// Region is the chunked region (planner.Plan.Fission) of the node, and Part its part, counted from
	// 0; -1 for a node outside of them.
	Region, Part int32
	Seconds      float64 // one run of it, measured or estimated; 0 for a view
	Start        float64 // seconds since the first step began
	// Live is the live bytes while it runs, without those that live throughout. All kinds together are
	// Timeline.Simulated.Live.
	Live Bytes
}

// Clone reports whether the step runs a node again.
func (s *Step) Clone() bool { return s.Repeats >= 0 }

// Block is a run of bytes that holds one thing from one step to another.
type Block struct {
	// Value is the value of Timeline.Graph that lies there, or that a clone recomputed; NoValue for a
	// block without a value of it.
	Value graph.ValueID
	// Name is that of the value in the rewritten graph; without a value, it describes the block.
	Name  string
	Kind  Kind
	Bytes int64
	// First and Last are the steps between which the bytes hold it, both included.
	First, Last int32
	// Made is the step that makes the value, and Reader the last one that reads it, or a view of it; -1
	// without such a step.
	Made, Reader int32
	// Buffer is the buffer that it lies in, an index into Timeline.Buffers; -1 for persistent values,
	// values inside subgraphs, and the memory of clones besides values, which lie in no buffer.
	Buffer int32
	Lo     int64 // its first byte in the buffer
	// Unfilled is set before the value itself is made, while parts of it lie in the same buffer.
	Unfilled bool
}

// Buffer is memory that a layout gives one place: that of a value with its views, its parts, and the
// values written over it in place.
type Buffer struct {
	Value       graph.ValueID // of Timeline.Graph, that the buffer is made for; NoValue for a workspace
	First, Last int32         // steps, both included
	Bytes       int64
	Offset      int64 // in the arena; -1 without a layout
}

// Timeline is a step of training: its nodes, and the live memory.
type Timeline struct {
	Graph *graph.Graph
	Steps []Step
	// Blocks are all bytes that are not live throughout, in the order of their first steps. Those whose
	// First to Last have a step are together Live of that step.
	Blocks  []Block
	Buffers []Buffer
	// Always are the values that are live throughout, in the order of their IDs, and Persistent their
	// bytes by kind.
	Always     []Block
	Persistent Bytes
	Peak       int // step
	// Simulated is the simulation; its IDs are those of the program.
	Simulated *live.Timeline
	// Layout is the arena; nil without one (Pack).
	Layout *arena.Layout
	// Copies are those between the memories of device and host; they have no times before Over.
	Copies []Copy

	copyOf  []int32 // by step: the copy that it begins or waits for; -1
	program *live.Program
	roots   []graph.ValueID // by buffer
}

// PeakBytes is the live bytes at the peak, without those that live throughout.
func (t *Timeline) PeakBytes() int64 { return t.Simulated.Peak.Bytes }

// Seconds is the time of the whole step.
func (t *Timeline) Seconds() float64 {
	if len(t.Steps) == 0 {
		return 0
	}
	last := &t.Steps[len(t.Steps)-1]
	return last.Start + last.Seconds
}

// Offset returns the first byte of a block in the arena; -1 for a block outside of it.
func (t *Timeline) Offset(b *Block) int64 {
	if b.Buffer < 0 || t.Buffers[b.Buffer].Offset < 0 {
		return -1
	}
	return t.Buffers[b.Buffer].Offset + b.Lo
}

// Layer returns the layer of a block: that of its value, or else of the node that it is made for.
func (t *Timeline) Layer(b *Block) string {
	switch {
	case b.Value != graph.NoValue:
		return t.Graph.LayerOfValue(b.Value)
	case b.Made >= 0:
		return t.Steps[b.Made].Layer
	}
	return graph.NoLayer
}
