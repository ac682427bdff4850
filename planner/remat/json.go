package remat

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// maxFile bounds the bytes Read takes from its reader.
const maxFile = 1 << 31

// fileNode is a node as it stands in a file. Pointers tell what is missing.
type fileNode struct {
	ID        *int64  `json:"id"`
	Cost      *int64  `json:"cost"`
	Size      *int64  `json:"size"`
	Inputs    []int64 `json:"inputs"`
	Keep      bool    `json:"keep,omitempty"`
	Workspace int64   `json:"workspace,omitempty"`
	Alias     *int64  `json:"alias,omitempty"`
}

// reader is one call of Read.
type reader struct {
	*json.Decoder
	in     *Instance
	place  map[int64]int32
	budget bool
}

// Read reads an instance in JSON: {"name", "budget", "nodes": [{"id", "cost", "size",
// "inputs", "keep", "workspace", "alias"}, ...]}. The nodes must stand in a topological
// order; their ids may be any distinct integers. Unknown fields are errors.
func Read(r io.Reader) (*Instance, error) {
	d := json.NewDecoder(io.LimitReader(r, maxFile))
	d.DisallowUnknownFields()
	rd := reader{Decoder: d, in: &Instance{}, place: map[int64]int32{}}
	if err := rd.object(); err != nil {
		return nil, fmt.Errorf("remat: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("remat: there is data after the end of the instance")
	}
	if !rd.budget {
		return nil, fmt.Errorf("remat: the instance has no budget")
	}
	if err := rd.in.Validate(); err != nil {
		return nil, err
	}
	return rd.in, nil
}

// open reads the delimiter that starts an object or a list.
func (r *reader) open(want json.Delim, what string) error {
	t, err := r.Token()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if t != want {
		return fmt.Errorf("%s starts with %v: it must start with %v", what, t, want)
	}
	return nil
}

func (r *reader) object() error {
	if err := r.open('{', "the instance"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for r.More() {
		t, err := r.Token()
		if err != nil {
			return err
		}
		key := fmt.Sprint(t)
		if seen[key] {
			return fmt.Errorf("%q appears twice", key)
		}
		seen[key] = true
		switch key {
		case "name":
			err = r.Decode(&r.in.Name)
		case "budget":
			r.budget = true
			err = r.Decode(&r.in.Budget)
		case "nodes":
			err = r.nodes()
		default:
			return fmt.Errorf("there is no field %q in an instance", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	_, err := r.Token()
	return err
}

func (r *reader) nodes() error {
	if err := r.open('[', "the list of nodes"); err != nil {
		return err
	}
	for r.More() {
		var n fileNode
		at := len(r.in.Nodes)
		if err := r.Decode(&n); err != nil {
			return fmt.Errorf("the node at position %d: %w", at, err)
		}
		if n.ID == nil || n.Cost == nil || n.Size == nil {
			return fmt.Errorf("the node at position %d needs id, cost and size", at)
		}
		if at >= math.MaxInt32/8 {
			return fmt.Errorf("there are more than %d nodes", at)
		}
		if err := r.node(&n); err != nil {
			return fmt.Errorf("node %d: %w", *n.ID, err)
		}
	}
	_, err := r.Token()
	return err
}

// node appends n to the instance.
func (r *reader) node(n *fileNode) error {
	if _, ok := r.place[*n.ID]; ok {
		return fmt.Errorf("another node has the same id")
	}
	node := Node{Cost: *n.Cost, Size: *n.Size, Keep: n.Keep, Workspace: n.Workspace, Alias: -1}
	for _, id := range n.Inputs {
		u, ok := r.place[id]
		if !ok {
			return fmt.Errorf("its input %d is not one of the nodes before it", id)
		}
		node.Inputs = append(node.Inputs, u)
	}
	if n.Alias != nil {
		u, ok := r.place[*n.Alias]
		if !ok {
			return fmt.Errorf("its alias %d is not one of the nodes before it", *n.Alias)
		}
		node.Alias = u
	}
	r.place[*n.ID] = int32(len(r.in.Nodes))
	r.in.Nodes = append(r.in.Nodes, node)
	r.in.IDs = append(r.in.IDs, *n.ID)
	return nil
}

// Write writes an instance so that Read reads the same.
func Write(w io.Writer, in *Instance) error {
	b := bufio.NewWriter(w)
	name, err := json.Marshal(in.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "{\"name\":%s,\"budget\":%d,\"nodes\":[", name, in.Budget)
	for v := range in.Nodes {
		node := &in.Nodes[v]
		id := in.id(v)
		n := fileNode{ID: &id, Cost: &node.Cost, Size: &node.Size, Inputs: []int64{}, Keep: node.Keep,
			Workspace: node.Workspace}
		for _, u := range node.Inputs {
			n.Inputs = append(n.Inputs, in.id(int(u)))
		}
		if node.Alias >= 0 {
			alias := in.id(int(node.Alias))
			n.Alias = &alias
		}
		line, err := json.Marshal(&n)
		if err != nil {
			return err
		}
		if v > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(line)
	}
	b.WriteString("\n]}\n")
	return b.Flush()
}

// WriteSchedule writes the steps as {"steps": [{"compute": id}, {"free": id}, ...]}.
func WriteSchedule(w io.Writer, in *Instance, s *Schedule) error {
	b := bufio.NewWriter(w)
	b.WriteString(`{"steps":[`)
	for i, step := range s.Steps {
		if i > 0 {
			b.WriteString(",\n")
		}
		verb := "compute"
		if step.Free {
			verb = "free"
		}
		fmt.Fprintf(b, `{%q:%d}`, verb, in.id(int(step.Node)))
	}
	b.WriteString("]}\n")
	return b.Flush()
}
