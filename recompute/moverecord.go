package recompute

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"memopt/graph"
	"memopt/graph/op"
)

// MovedRecord is a plan's moves of values to the host on disk. Nodes and values are those of the graph with the
// plan's recomputations, before which there are no moves.
type MovedRecord struct {
	Link       *LinkRecord  `json:"link"`
	HostBudget int64        `json:"host_budget"` // bytes that copies may take on the host at once
	HostPeak   int64        `json:"host_peak"`   // those that they take
	MovedBytes int64        `json:"moved_bytes"` // those that a step copies to the host
	Moves      []MoveRecord `json:"moves"`
	Streams    []string     `json:"streams"` // whose steps run beside each other; see Streams
	// Makespan is the time of a step, and Base that of the graph as it is, in microseconds.
	Makespan float64 `json:"makespan_us"`
	Base     float64 `json:"base_us"`

	// The others are in plan files alone.
	Seeds       []SeedRecord       `json:"seeds,omitempty"`       // of random nodes
	Certificate *CertificateRecord `json:"certificate,omitempty"` // of the bound, where a cut proves a part of it
	// NodeMicros is the time of each node of the graph that Order is of, WholeMicros that of each node of the
	// model's own where regions are in parts.
	NodeMicros  []float64 `json:"node_us,omitempty"`
	WholeMicros []float64 `json:"whole_node_us,omitempty"`
}

// Streams are the streams of a step: computations, copies to the host, and copies back.
var Streams = []string{"compute", "out", "in"}

// LinkRecord is the link between device and host, each way.
type LinkRecord struct {
	BytesPerSecond float64 `json:"bytes_per_second"`
	LatencyMicros  float64 `json:"latency_us"`
}

// MoveRecord is a Move on disk: the label of the node right before which each of its steps stands.
type MoveRecord struct {
	Value   string `json:"value"`
	Offload string `json:"offload,omitempty"` // "": the host has a copy from an earlier move of the value
	Free    string `json:"free"`              // behind a wait for the copy to the host
	Reload  string `json:"reload"`
	Wait    string `json:"wait"`
	Turn    int    `json:"turn,omitempty"` // of the copy back among those before one node
}

// SeedRecord is the seed of a random node, as its attribute has it.
type SeedRecord struct {
	Node string      `json:"node"`
	Seed json.Number `json:"seed"`
}

// CertificateRecord is why a lower bound on the time of a step holds: a minimum cut at the first execution of a node,
// with a price for each byte of the values that are held then.
type CertificateRecord struct {
	Moment      string  `json:"moment"`       // label of a node of the graph that the order is of
	Price       float64 `json:"price"`        // microseconds for a byte
	BudgetBytes int64   `json:"budget_bytes"` // on the device
	Order       string  `json:"order"`        // of first executions: given
	Bound       float64 `json:"bound"`        // microseconds
}

// RecordMoves names the nodes and values of moves.
func RecordMoves(g *graph.Graph, moves []Move) []MoveRecord {
	labels := Labels(g)
	out := make([]MoveRecord, 0, len(moves))
	for _, m := range moves {
		r := MoveRecord{Value: g.Values[m.Value].Name, Free: labels[m.Free], Reload: labels[m.Reload],
			Wait: labels[m.Wait], Turn: m.Turn}
		if m.Offload != graph.NoNode {
			r.Offload = labels[m.Offload]
		}
		out = append(out, r)
	}
	return out
}

// ResolveMoves finds the nodes and values that a record names in a graph.
func ResolveMoves(g *graph.Graph, records []MoveRecord) ([]Move, error) {
	byLabel := byLabel(g)
	out := make([]Move, 0, len(records))
	for i, r := range records {
		v, ok := g.Lookup(r.Value)
		if !ok {
			return nil, fmt.Errorf("move %d: the graph has no value %q", i, r.Value)
		}
		m := Move{Value: v, Offload: graph.NoNode, Turn: r.Turn}
		for k, label := range []string{r.Offload, r.Free, r.Reload, r.Wait} {
			to := []*graph.NodeID{&m.Offload, &m.Free, &m.Reload, &m.Wait}[k]
			if k == 0 && label == "" {
				continue
			}
			if *to, ok = byLabel[label]; !ok {
				return nil, fmt.Errorf("move of %q: the graph has no node %q", r.Value, label)
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// RecordSeeds lists the random nodes of a graph that have seeds.
func RecordSeeds(g *graph.Graph) []SeedRecord {
	var out []SeedRecord
	labels := Labels(g)
	for id, n := range g.Nodes {
		if seed, ok := SeedOf(n); ok {
			out = append(out, SeedRecord{labels[id], seed})
		}
	}
	return out
}

// SeedOf is the seed of a random node.
func SeedOf(n *graph.Node) (seed json.Number, ok bool) {
	info := op.Of(n.Kind)
	if !info.Random || info.SeedAttr == "" {
		return "", false
	}
	a := n.Attr(info.SeedAttr)
	if a == nil {
		return "", false
	}
	switch x := a.Value.(type) {
	case float32:
		bits := float64(x)
		return json.Number(strconv.FormatFloat(bits, 'g', -1, 32)), !math.IsNaN(bits) && !math.IsInf(bits, 0)
	case int64:
		return json.Number(strconv.FormatInt(x, 10)), true
	}
	return "", false
}

// CheckSeeds returns an error that names a node of a graph whose seed is not the recorded one.
func CheckSeeds(g *graph.Graph, records []SeedRecord) error {
	byLabel := byLabel(g)
	for _, r := range records {
		id, ok := byLabel[r.Node]
		if !ok {
			return fmt.Errorf("seeds: the graph has no node %q", r.Node)
		}
		if seed, ok := SeedOf(g.Nodes[id]); !ok || seed != r.Seed {
			return fmt.Errorf("seeds: node %q has %q, wanted %q", r.Node, seed, r.Seed)
		}
	}
	return nil
}

func byLabel(g *graph.Graph) map[string]graph.NodeID {
	m := make(map[string]graph.NodeID, len(g.Nodes))
	for i, label := range Labels(g) {
		m[label] = graph.NodeID(i)
	}
	return m
}
