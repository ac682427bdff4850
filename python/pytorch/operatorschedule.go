package pytorch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// OperatorFormat is the format of plans of operators.
const OperatorFormat = "memopt-operators"

// OperatorSchedule is the schedule of a plan of operators: the computations of all of its graphs, in their order.
type OperatorSchedule struct {
	// Structure is the SHA-256 of the nodes: their names, their inputs, and the names of their values.
	Structure string
	Nodes     int
	Order     []int32 // of each computation, the number of its node
	Again     []OperatorAgain
	Stashed   []OperatorStash
}

// OperatorAgain is a recomputation.
type OperatorAgain struct {
	Node   string // behind its module's name: "model.layers.0.mlp/mul_3"
	Before string // the first node behind it that is computed for the first time, or ""
}

// OperatorStash is a value of a forward half that the backward half reads.
type OperatorStash struct {
	Value    string
	Producer string // behind its module's name
	Bytes    int64
	Kept     bool // between the halves, and not recomputed behind the handover
}

// ReadOperatorSchedule reads the schedule of a plan of operators. The error names the fault of the file.
func ReadOperatorSchedule(data []byte) (*OperatorSchedule, error) {
	var p operatorPlan
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("is no plan of operators: %w", err)
	}
	if p.Version != operatorVersion {
		return nil, fmt.Errorf("is a plan of operators of version %d, wanted %d", p.Version, operatorVersion)
	}
	s := &OperatorSchedule{}
	hash := sha256.New()
	enc := json.NewEncoder(hash)
	for i := range p.Graphs {
		nodes := p.Graphs[i].Instance.Nodes
		for j := range nodes {
			n := &nodes[j]
			names := make([]string, 0, 1)
			for _, o := range n.values() {
				names = append(names, o.ID)
			}
			if err := enc.Encode([]any{i, n.ID, n.Inputs, names}); err != nil {
				return nil, err
			}
		}
		prefix := ""
		if i > 0 {
			prefix = fmt.Sprintf("graph %d/", i+1)
		}
		r := scheduleReader{s, nodes, prefix, map[string]int{}}
		if err := r.read(p.Graphs[i].Steps); err != nil {
			return nil, err
		}
		s.Nodes += len(nodes)
	}
	s.Structure = hex.EncodeToString(hash.Sum(nil))
	return s, nil
}

// scheduleReader reads the schedule of one graph.
type scheduleReader struct {
	*OperatorSchedule
	nodes  []operatorNode
	prefix string
	at     map[string]int // by name: the number of a node
}

func (r *scheduleReader) read(steps []operatorStep) error {
	for i := range r.nodes {
		r.at[r.nodes[i].ID] = i
	}
	runs := make([]int, len(r.nodes))
	pending := len(r.Again) // recomputations that no first computation follows yet
	half := make([]int, len(r.nodes))
	behind := false
	last := make([]bool, len(r.nodes)) // computed again behind the handover
	for i, step := range steps {
		if step.Free != "" {
			continue
		}
		k, ok := r.at[step.Compute]
		if !ok {
			return fmt.Errorf("step %d: computes %q, which is no node", i, step.Compute)
		}
		r.Order = append(r.Order, int32(r.Nodes+k))
		behind = behind || step.Compute == handover
		if runs[k]++; runs[k] > 1 {
			r.Again = append(r.Again, OperatorAgain{Node: r.label(k)})
			last[k] = behind
			continue
		}
		if behind {
			half[k] = 1
		}
		for ; pending < len(r.Again); pending++ {
			r.Again[pending].Before = r.label(k)
		}
	}
	r.stash(half, last)
	return nil
}

// stash lists the values of the forward half that the backward half reads.
func (r *scheduleReader) stash(half []int, again []bool) {
	read := map[string]bool{}
	for k := range r.nodes {
		if half[k] == 1 || again[k] {
			for _, in := range r.nodes[k].Inputs {
				read[in] = true
			}
		}
	}
	for k := range r.nodes {
		if half[k] == 1 {
			continue
		}
		for _, o := range r.nodes[k].values() {
			if read[o.ID] {
				r.Stashed = append(r.Stashed, OperatorStash{r.prefix + o.ID, r.label(k), o.Size, !again[k]})
			}
		}
	}
}

// label is the name of a node, behind that of its module.
func (r *scheduleReader) label(k int) string {
	n := &r.nodes[k]
	if n.Tags.Module != "" {
		return r.prefix + n.Tags.Module + "/" + n.ID
	}
	return r.prefix + n.ID
}
