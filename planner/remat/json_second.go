package remat

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"memopt/internal/nearmiss"
)

// Names of version 2 of the format of instances, and of its answers.
const (
	instanceFormat = "memopt-instance"
	scheduleFormat = "memopt-schedule"
	secondVersion  = 2
)

// costUnits are the units of costs that a file may name.
var costUnits = []string{"us", "ms", "flops"}

// orders are the values of the field order, which is about first computes.
var orders = []string{"free", "given"}

// textID is a name in a file of version 2: "a", or a whole number, which is the same as in quotes.
type textID string

// UnmarshalJSON takes a text or a whole number.
func (id *textID) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(id))
	}
	if _, err := strconv.ParseInt(string(b), 10, 64); err != nil {
		return fmt.Errorf("an id is %.40s: wanted a text, or a whole number of at most 64 bits", b)
	}
	*id = textID(b)
	return nil
}

// secondValue is a value as it stands in a file: one that lives throughout, or an output.
type secondValue struct {
	ID   *textID `json:"id"`
	Size *int64  `json:"size"`
	Keep bool    `json:"keep"`
}

// secondNode is a node as it stands in a file of version 2. A nil pointer is a field that is missing.
type secondNode struct {
	ID        *textID           `json:"id"`
	Cost      *float64          `json:"cost"`
	Size      *int64            `json:"size"`
	Inputs    []textID          `json:"inputs"`
	Outputs   []json.RawMessage `json:"outputs"`
	Keep      *bool             `json:"keep"`
	Workspace int64             `json:"workspace"`
	Recompute *bool             `json:"recompute"`
	Offload   *bool             `json:"offload"`
	Alias     *textID           `json:"alias"`
	Tags      json.RawMessage   `json:"tags"`
}

// fields of version 2, for messages.
var (
	secondFields     = []string{"format", "version", "name", "budget", "cost_unit", "order", "live", "nodes"}
	secondNodeFields = []string{"id", "cost", "size", "inputs", "outputs", "keep", "workspace", "recompute",
		"offload", "alias", "tags"}
	secondValueFields = []string{"id", "size", "keep"}
	secondLiveFields  = []string{"id", "size"}
)

// secondKinds describes the fields of version 2 that are of another kind than those of version 1.
var secondKinds = map[string]string{
	"id": "a text or a whole number", "cost": "a number", "alias": "the id of a value",
	"inputs": "a list of ids", "outputs": "a list of outputs, {\"id\": …, \"size\": …}",
	"recompute": "true or false", "offload": "true or false", "cost_unit": "a text in quotes",
	"order":  "a text in quotes",
	"format": "a text in quotes",
}

// secondReader is the state of reading a file of version 2.
type secondReader struct {
	p         *Problem
	versioned bool
	values    map[string]int32 // by id: its number; resident for values that live throughout
	nodes     map[string]bool
	names     []string // of the values
	count     int32    // of the values that nodes make
}

// resident stands for the number of a value that lives throughout.
const resident = -1

// format takes the field that tells a file of version 2.
func (r *reader) format(late bool) error {
	r.begin()
	var name string
	if err := fieldOf("format", r.Decode(&name)); err != nil {
		return err
	}
	if name != instanceFormat {
		return fmt.Errorf("the format is %.40q: wanted %q", name, instanceFormat)
	}
	if late {
		return errors.New(`"format" stands behind "nodes": it must come before`)
	}
	return nil
}

// begin makes the file one of version 2.
func (r *reader) begin() {
	if r.second == nil {
		r.second = &secondReader{p: &Problem{}, values: map[string]int32{}, nodes: map[string]bool{}}
	}
}

// version takes the version, which tells a file of version 2 as its format does.
func (r *reader) version(late bool) error {
	var version json.Number
	if err := fieldOf("version", r.Decode(&version)); err != nil {
		return err
	}
	if string(version) != strconv.Itoa(secondVersion) {
		return fmt.Errorf("the version is %.40s: this program reads version %d, and version 1, which has no version",
			version, secondVersion)
	}
	if late && r.second == nil {
		return errors.New(`"version" stands behind "nodes": it must come before`)
	}
	r.begin()
	r.second.versioned = true
	return nil
}

// secondField takes a field of the instance that only version 2 has.
func (r *reader) secondField(key string) error {
	switch s := r.second; key {
	case "cost_unit":
		return r.oneOf(key, costUnits, &s.p.Unit)
	case "order":
		var order string
		err := r.oneOf(key, orders, &order)
		s.p.InOrder = order == "given"
		return err
	case "live":
		return r.live()
	}
	return fmt.Errorf("an instance has no field %q%s", key, nearmiss.Question(key, secondFields))
}

// oneOf takes a text that is one of some.
func (r *reader) oneOf(key string, wanted []string, to *string) error {
	if err := fieldOf(key, r.Decode(to)); err != nil {
		return err
	}
	if !slices.Contains(wanted, *to) {
		return fmt.Errorf("the %s is %.40q: wanted one of %q", key, *to, wanted)
	}
	return nil
}

// live takes the values that live throughout.
func (r *reader) live() error {
	s := r.second
	if len(s.nodes) > 0 {
		return errors.New(`"live" stands behind "nodes": it must come before`)
	}
	if err := r.open('[', "the list of values that live throughout"); err != nil {
		return err
	}
	for at := 0; r.More(); at++ {
		r.window.forget(r.InputOffset())
		var raw json.RawMessage
		if err := r.Decode(&raw); err != nil {
			return err
		}
		v, err := readValue(raw, secondLiveFields)
		switch {
		case err != nil:
			return fmt.Errorf("the live value at position %d: %w", at, err)
		case *v.Size < 0 || *v.Size > maxTotal-s.p.Resident:
			return fmt.Errorf("the live value %q: the size is %d bytes: it must be from 0 on, and all less than %d",
				*v.ID, *v.Size, int64(maxTotal))
		}
		if err := s.name(string(*v.ID), resident); err != nil {
			return err
		}
		s.p.Resident += *v.Size
	}
	_, err := r.Token()
	return err
}

// name gives a value its id.
func (s *secondReader) name(id string, number int32) error {
	if _, ok := s.values[id]; ok {
		return fmt.Errorf("another value has the id %q", id)
	}
	s.values[id] = number
	s.names = append(s.names, id)
	return nil
}

// readValue reads an output or a value that lives throughout.
func readValue(raw json.RawMessage, fields []string) (*secondValue, error) {
	var v secondValue
	if err := strictly(raw, &v, "a value", fields); err != nil {
		return nil, err
	}
	switch {
	case v.ID == nil || v.Size == nil:
		return nil, errors.New("it needs id and size")
	case *v.ID == "":
		return nil, errors.New("its id is empty")
	}
	return &v, nil
}

// strictly decodes an object that has no fields but some, in words of the format.
func strictly(raw json.RawMessage, to any, what string, fields []string) error {
	failed := json.Unmarshal(raw, to)
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err == nil {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !slices.Contains(fields, name) {
				return fmt.Errorf("%s has no field %q%s", what, name, nearmiss.Question(name, fields))
			}
		}
	}
	return failed
}

// secondNode takes a node.
func (r *reader) secondNode() error {
	s := r.second
	at := len(s.p.Nodes)
	var raw json.RawMessage
	if err := r.Decode(&raw); err != nil {
		return fmt.Errorf("the node at position %d: %w", at, err)
	}
	var n secondNode
	err := strictly(raw, &n, "a node", secondNodeFields)
	name := fmt.Sprintf("the node at position %d", at)
	if n.ID != nil && *n.ID != "" {
		name = fmt.Sprintf("node %q", *n.ID)
	}
	if err == nil {
		err = s.add(&n)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// add appends a node to the problem.
func (s *secondReader) add(n *secondNode) error {
	switch {
	case n.ID == nil:
		return errors.New("it needs an id")
	case *n.ID == "":
		return errors.New("its id is empty")
	case s.nodes[string(*n.ID)]:
		return errors.New("another node has the same id")
	case n.Cost == nil && n.Alias == nil:
		return errors.New("it needs a cost")
	case len(s.p.Nodes) >= mostNodes:
		return fmt.Errorf("there are more than %d nodes", mostNodes)
	}
	c := Computation{ID: string(*n.ID), Workspace: n.Workspace, Once: n.Recompute != nil && !*n.Recompute,
		Stay: n.Offload != nil && !*n.Offload}
	if n.Cost != nil {
		c.Cost = *n.Cost
	}
	if len(n.Tags) > 0 && string(n.Tags) != "null" {
		c.Tags = n.Tags
	}
	if err := s.inputs(n, &c); err != nil {
		return err
	}
	if err := s.outputs(n, &c); err != nil {
		return err
	}
	s.nodes[c.ID] = true
	s.p.Nodes = append(s.p.Nodes, c)
	return nil
}

// inputs takes the values that a node reads; a view reads its base first.
func (s *secondReader) inputs(n *secondNode, c *Computation) error {
	read := map[string]bool{}
	for _, file := range n.Inputs {
		id := string(file)
		u, ok := s.values[id]
		switch {
		case read[id]:
			return fmt.Errorf("its input %q appears twice", id)
		case !ok:
			return fmt.Errorf("its input %q is no value before it%s", id, s.near(id))
		case u != resident:
			c.Inputs = append(c.Inputs, u)
		}
		read[id] = true
	}
	if n.Alias == nil {
		return nil
	}
	if !read[string(*n.Alias)] {
		return fmt.Errorf("its alias %q is not one of its inputs", *n.Alias)
	}
	if u := s.values[string(*n.Alias)]; u != resident {
		c.View = true
		c.Inputs = slices.Insert(slices.DeleteFunc(c.Inputs, func(v int32) bool { return v == u }), 0, u)
	}
	return nil
}

// near suggests a value for an unknown name.
func (s *secondReader) near(id string) string {
	if s.nodes[id] {
		return ": it is a node with outputs of their own ids, which inputs name"
	}
	return nearmiss.Question(id, s.names[max(len(s.names)-nearIDs, 0):])
}

// outputs takes the values that a node makes.
func (s *secondReader) outputs(n *secondNode, c *Computation) error {
	switch {
	case n.Outputs != nil && n.Size != nil:
		return errors.New("it has outputs and a size: each output has its own")
	case n.Outputs != nil && n.Keep != nil:
		return errors.New("it has outputs and keep: each output has its own")
	case n.Outputs == nil && n.Size == nil && n.Alias == nil:
		return errors.New("it needs a size, or outputs")
	}
	if n.Outputs == nil {
		o := Output{ID: c.ID, Keep: n.Keep != nil && *n.Keep}
		if n.Size != nil && n.Alias == nil {
			o.Size = *n.Size
		}
		return s.output(c, o)
	}
	for k, raw := range n.Outputs {
		v, err := readValue(raw, secondValueFields)
		if err != nil {
			return fmt.Errorf("the output at position %d: %w", k, err)
		}
		if err := s.output(c, Output{ID: string(*v.ID), Size: *v.Size, Keep: v.Keep}); err != nil {
			return err
		}
	}
	return nil
}

func (s *secondReader) output(c *Computation, o Output) error {
	if err := s.name(o.ID, s.count); err != nil {
		return err
	}
	s.count++
	c.Outputs = append(c.Outputs, o)
	return nil
}

// problem is the problem that was read.
func (r *reader) problem() (*Problem, error) {
	p := r.second.p
	if !r.second.versioned {
		return nil, fmt.Errorf("remat: the version is missing: wanted \"version\": %d", secondVersion)
	}
	p.Name, p.Budget = r.in.Name, r.in.Budget
	if r.budget && p.Budget <= 0 {
		return nil, fmt.Errorf("remat: the budget is %d bytes: it must be positive", p.Budget)
	}
	return p, p.Validate()
}
