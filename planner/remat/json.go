package remat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"memopt/internal/nearmiss"
)

// maxFile bounds the bytes Read takes from its reader.
const maxFile = 1 << 31

// fileNode is a node as it stands in a file. Nil pointers are missing fields.
type fileNode struct {
	ID        *fileID  `json:"id"`
	Cost      *int64   `json:"cost"`
	Size      *int64   `json:"size"`
	Inputs    []fileID `json:"inputs"`
	Keep      bool     `json:"keep,omitempty"`
	Workspace int64    `json:"workspace,omitempty"`
	Alias     *fileID  `json:"alias,omitempty"`
}

// fields of an instance and of a node, for messages.
var (
	instanceFields = []string{"name", "budget", "nodes"}
	nodeFields     = []string{"id", "cost", "size", "inputs", "keep", "workspace", "alias"}
)

// fileID is a node's name in JSON: 7 or "a".
type fileID string

// MarshalJSON returns the name.
func (id fileID) MarshalJSON() ([]byte, error) { return []byte(id), nil }

// UnmarshalJSON takes a whole number or a text.
func (id *fileID) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		own, err := json.Marshal(text)
		*id = fileID(own)
		return err
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("id %s does not fit into 64 bits: names may be longer, in quotes", b)
	}
	if err != nil {
		return fmt.Errorf("an id is %.40s: wanted a whole number, or a name in quotes", b)
	}
	*id = fileID(strconv.FormatInt(n, 10))
	return nil
}

// reader is one call of Read or ReadProblem.
type reader struct {
	*json.Decoder
	in     *Instance
	second *secondReader // of a file of version 2; nil: it is of version 1
	place  map[fileID]int32
	budget bool
	window window
}

// Read reads an instance in JSON: {"name", "budget", "nodes": [{"id", "cost", "size",
// "inputs", "keep", "workspace", "alias"}, ...]}. The nodes must stand in a topological
// order; their ids may be any distinct integers or texts. The budget may be left out; it is 0 then.
// Unknown fields are errors. Errors name the line.
func Read(r io.Reader) (*Instance, error) {
	in, p, err := ReadAny(r)
	if err == nil && p != nil {
		return nil, errors.New("remat: the instance is of version 2: wanted one of version 1, without a format")
	}
	return in, err
}

// ReadAny reads an instance of version 1, as Read does, or one of version 2 ("format":
// "memopt-instance", see docs/instances.md). The other result is nil. Without a budget, that is 0.
func ReadAny(r io.Reader) (*Instance, *Problem, error) {
	rd := &reader{in: &Instance{}, place: map[fileID]int32{}}
	rd.Decoder = json.NewDecoder(io.TeeReader(io.LimitReader(r, maxFile), &rd.window))
	rd.DisallowUnknownFields()
	if err := rd.object(); err != nil {
		return nil, nil, fmt.Errorf("remat: %w", rd.located(err))
	}
	if _, err := rd.Token(); err != io.EOF {
		return nil, nil, fmt.Errorf("remat: line %d: there is data after the end of the instance",
			rd.window.line(rd.InputOffset()))
	}
	if rd.second != nil {
		p, err := rd.problem()
		return nil, p, err
	}
	if !rd.budget {
		rd.in.Budget = math.MaxInt64
		defer func() { rd.in.Budget = 0 }()
	}
	if err := rd.in.Validate(); err != nil {
		return nil, nil, err
	}
	return rd.in, nil, nil
}

// located says an error of the decoder in the words of the file's format, with the line.
func (r *reader) located(err error) error {
	line := r.window.line(r.InputOffset())
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		last := r.window.lines + bytes.Count(r.window.text, []byte("\n")) + 1
		if r.window.from == 0 && len(bytes.TrimSpace(r.window.text)) == 0 {
			return errors.New("the file is empty: wanted an instance, {\"budget\": …, \"nodes\": […]}")
		}
		return fmt.Errorf("line %d: the file ends before the instance does: it is cut off", last)
	case errors.As(err, &kind):
		return fmt.Errorf("line %d: %s", line, r.wrongKind(err, kind))
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: this is no JSON: %w", line, err)
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// wrongKind says that a field has a value of another kind than it wants.
func (r *reader) wrongKind(err error, kind *json.UnmarshalTypeError) string {
	got := strings.TrimPrefix(kind.Value, "number ")
	wanted := "a whole number"
	switch second, ok := secondKinds[kind.Field]; {
	case ok && r.second != nil:
		wanted = second
	case kind.Field == "":
		return strings.TrimSuffix(err.Error(), kind.Error()) + "it is " + article(got) + ": wanted an object, {…}"
	case kind.Field == "inputs":
		wanted = "a list of ids"
	case kind.Field == "name":
		wanted = "a text in quotes"
	case kind.Field == "keep":
		wanted = "true or false"
	case kind.Value != got && !strings.ContainsAny(got, ".eE"):
		wanted += " of at most 64 bits"
	}
	return fmt.Sprintf("%s%s is %s: wanted %s", strings.TrimSuffix(err.Error(), kind.Error()), kind.Field,
		article(got), wanted)
}

// article puts "a" or "an" before the name of a kind of value; numbers stand as they are.
func article(kind string) string {
	switch kind {
	case "array":
		return "a list"
	case "string":
		return "a text"
	case "object":
		return "an object"
	case "number":
		return "a number"
	case "bool":
		return "true or false"
	}
	return kind
}

// unknownField finds the name in the decoder's error about a field that a node does not have.
func unknownField(err error) (string, bool) {
	quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !ok {
		return "", false
	}
	name, err := strconv.Unquote(quoted)
	return name, err == nil
}

// open reads the delimiter that starts an object or a list.
func (r *reader) open(want json.Delim, what string) error {
	t, err := r.Token()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if t != want {
		return fmt.Errorf("%s starts with %v: it must start with %v", what, begin(t), want)
	}
	return nil
}

// begin shows a token: texts in quotes, and cut.
func begin(t json.Token) string {
	if s, ok := t.(string); ok {
		return fmt.Sprintf("%.40q", s)
	}
	return fmt.Sprint(t)
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
			err = fieldOf(key, r.Decode(&r.in.Name))
		case "budget":
			r.budget = true
			err = fieldOf(key, r.Decode(&r.in.Budget))
		case "nodes":
			err = r.nodes()
		case "format":
			err = r.format(seen["nodes"])
		case "version":
			err = r.version(seen["nodes"])
		default:
			if r.second == nil {
				return fmt.Errorf("an instance has no field %q%s", key, nearmiss.Question(key, instanceFields))
			}
			err = r.secondField(key)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.Token()
	return err
}

// fieldOf names the field whose value was decoded alone.
func fieldOf(name string, err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		kind.Field = name
	}
	return err
}

func (r *reader) nodes() error {
	if err := r.open('[', "the list of nodes"); err != nil {
		return err
	}
	for r.More() {
		if r.second != nil {
			r.window.forget(r.InputOffset())
			if err := r.secondNode(); err != nil {
				return err
			}
			continue
		}
		var n fileNode
		at := len(r.in.Nodes)
		r.window.forget(r.InputOffset())
		if err := r.Decode(&n); err != nil {
			if name, ok := unknownField(err); ok {
				return fmt.Errorf("the node at position %d: a node has no field %q%s", at, name,
					nearmiss.Question(name, nodeFields))
			}
			return fmt.Errorf("the node at position %d: %w", at, err)
		}
		if n.ID == nil || n.Cost == nil || n.Size == nil {
			return fmt.Errorf("the node at position %d needs id, cost and size", at)
		}
		if at >= math.MaxInt32/8 {
			return fmt.Errorf("there are more than %d nodes", at)
		}
		if err := r.node(&n); err != nil {
			return fmt.Errorf("node %s: %w", *n.ID, err)
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
			return fmt.Errorf("its input %s is not one of the nodes before it%s", id, r.nearID(id))
		}
		node.Inputs = append(node.Inputs, u)
	}
	if n.Alias != nil {
		u, ok := r.place[*n.Alias]
		if !ok {
			return fmt.Errorf("its alias %s is not one of the nodes before it%s", *n.Alias, r.nearID(*n.Alias))
		}
		node.Alias = u
	}
	r.place[*n.ID] = int32(len(r.in.Nodes))
	r.in.Nodes = append(r.in.Nodes, node)
	r.in.IDs = append(r.in.IDs, string(*n.ID))
	return nil
}

// nearID suggests the name of a node read before for one that no node has, if it is a text.
func (r *reader) nearID(id fileID) string {
	if !strings.HasPrefix(string(id), `"`) {
		return ""
	}
	names := r.in.IDs[max(len(r.in.IDs)-nearIDs, 0):]
	if near := nearmiss.Find(string(id), names); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// nearIDs is how many names are looked at.
const nearIDs = 10_000

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
		fmt.Fprintf(b, `{%q:%s}`, verb, in.id(int(step.Node)))
	}
	b.WriteString("]}\n")
	return b.Flush()
}

// WriteSteps writes steps as {"steps": [{"compute": node}, {"free": value}, ...]}.
func (p *Problem) WriteSteps(w io.Writer, steps []Step) error {
	return p.WriteVerbs(w, len(steps), func(i int) (string, int32) {
		if steps[i].Free {
			return "free", steps[i].Node
		}
		return "compute", steps[i].Node
	})
}

// WriteVerbs writes so many steps, each a verb with its object: a node for "compute", else a value.
func (p *Problem) WriteVerbs(w io.Writer, count int, step func(i int) (verb string, of int32)) error {
	x := newProblemIndex(p)
	b := bufio.NewWriter(w)
	b.WriteString(`{"steps":[`)
	for i := range count {
		if i > 0 {
			b.WriteString(",\n")
		}
		verb, of := step(i)
		id := ""
		if verb == "compute" {
			id = p.Nodes[of].ID
		} else {
			id = x.output(of).ID
		}
		if id == "" {
			id = strconv.Itoa(int(of))
		}
		name, err := json.Marshal(id)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, `{%q:%s}`, verb, name)
	}
	b.WriteString("]}\n")
	return b.Flush()
}
