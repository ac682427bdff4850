package diff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/hint"
	"memopt/python/pytorch"
	"memopt/recompute"
)

// maxDepth is how deep a report may nest: memopt's own stay below 10.
const maxDepth = 64

// IsJSON reports whether a file that begins with these bytes is meant to be JSON. No ONNX model
// begins so.
func IsJSON(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

// Parse reads a plan file, a plan of operators, or the JSON report of a verb; name is for messages.
func Parse(data []byte, name string) (*Subject, error) {
	const wanted = "wanted a plan file, a plan of operators or the JSON report of a verb"
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s: is not JSON: %w; %s", name, err, wanted)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s: has something behind the JSON object; %s", name, wanted)
	}
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: is no JSON object; %s", name, wanted)
	}
	if root["format"] == configs.ModuleFormat {
		return nil, fmt.Errorf("%s: is a plan of modules for PyTorch; compare the reports of memopt plan %v -O json",
			name, hint.Select.With("modules"))
	}
	if root["format"] == pytorch.OperatorFormat {
		return ofOperators(data, root, name)
	}
	schema, _ := root["schema"].(string)
	if !strings.HasPrefix(schema, "memopt.") || !strings.Contains(schema, "/") {
		return nil, fmt.Errorf("%s: has schema %.80q, wanted one of memopt's, such as \"memopt.plan/v1\"; %s", name,
			schema, wanted)
	}
	s := &Subject{Name: name, Kind: ReportKind, Schema: schema}
	return s, s.take(root)
}

// take fills a subject with a decoded document.
func (s *Subject) take(root map[string]any) error {
	r := reader{name: s.Name}
	switch s.Schema {
	case recompute.Schema, recompute.SchemaMoved:
		s.Kind = FileKind
		s.Structure, _ = root["structure_sha256"].(string)
		s.regions = r.regions(root)
		delete(root, "whole_order")
		s.placements = r.list(root, "placements", placementOf)
		s.order = r.order(root)
		s.moves.known = true
		if s.Schema == recompute.SchemaMoved {
			s.moves = r.list(root, "moves", moveOf)
			delete(root, "node_us") // times of the model, not of the plan
			delete(root, "whole_node_us")
		}
	case planSchema:
		if model, ok := root["model"].(map[string]any); ok {
			s.Structure, _ = model["structure_sha256"].(string)
			delete(model, "path")
		}
		s.regions = r.regions(root)
		s.clusters = r.list(root, "clusters", clusterOf)
		s.stashes = r.list(root, "stashed", stashOf)
		s.moves.known = true
		s.order = r.order(root)
	}
	delete(root, "schema")
	return r.finish(s, root)
}

// finish makes the rest of a document the fields of a subject.
func (r *reader) finish(s *Subject, root map[string]any) error {
	r.flatten("", root, 0)
	slices.SortStableFunc(r.fields, func(a, b field) int { return cmp.Compare(a.path, b.path) })
	s.fields = r.fields
	return r.err
}

// planSchema is the schema of plan's report.
const planSchema = "memopt.plan/v1"

// reader takes a document apart; the first thing that is wrong is its error.
type reader struct {
	name   string
	fields []field
	err    error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s", r.name, fmt.Sprintf(format, args...))
	}
}

// list reads the items under a key and takes them out of the document.
func (r *reader) list(root map[string]any, key string, of func(*reader, object) item) list {
	raw, ok := root[key]
	delete(root, key)
	elements, isList := raw.([]any)
	if !ok || !isList && raw != nil {
		r.fail("%q is %s, wanted a list", key, kindOf(raw))
		return list{}
	}
	l := list{known: true}
	for i, e := range elements {
		fields, ok := e.(map[string]any)
		if !ok {
			r.fail("%s[%d] is %s, wanted an object", key, i, kindOf(e))
			return list{}
		}
		l.items = append(l.items, of(r, object{fmt.Sprintf("%s[%d]", key, i), fields}))
	}
	return l
}

// order reads the order of execution and takes it out of the document.
func (r *reader) order(root map[string]any) (order recompute.NodeOrder) {
	text, err := json.Marshal(root["order"])
	delete(root, "order")
	if err == nil {
		err = json.Unmarshal(text, &order)
	}
	if err != nil {
		r.fail("%v", err)
	}
	return order
}

// object is an element of a list, with its place for messages.
type object struct {
	where  string
	fields map[string]any
}

// text reads a field that must be a text.
func (r *reader) text(o object, key string) string {
	text, ok := o.fields[key].(string)
	if !ok {
		r.fail("%s.%s is %s, wanted a text", o.where, key, kindOf(o.fields[key]))
	}
	return text
}

// fact reads a field that may be a number, a text, a bool or unknown.
func (o object) fact(key string) Fact {
	v, _ := leaf(o.fields[key])
	return Fact{key, unitOf(key), v}
}

// regions reads the chunked regions; plans of earlier releases have no such field.
func (r *reader) regions(root map[string]any) list {
	if _, ok := root["fission"]; !ok {
		return list{known: true}
	}
	return r.list(root, "fission", regionOf)
}

func regionOf(r *reader, o object) item {
	value := r.text(o, "region")
	nodes, ok := o.fields["nodes"].([]any)
	if !ok {
		r.fail("%s.nodes is %s, wanted a list of nodes", o.where, kindOf(o.fields["nodes"]))
	}
	return item{name: value, layer: layerOf(value), facts: []Fact{o.fact("dim"), o.fact("parts"), o.fact("exact"),
		{"nodes", NoUnit, intValue(int64(len(nodes)))}}}
}

func placementOf(r *reader, o object) item {
	nodes, ok := o.fields["nodes"].([]any)
	if !ok {
		r.fail("%s.nodes is %s, wanted a list of nodes", o.where, kindOf(o.fields["nodes"]))
	}
	labels := make([]string, len(nodes))
	for i, n := range nodes {
		if labels[i], ok = n.(string); !ok {
			r.fail("%s.nodes[%d] is %s, wanted a text", o.where, i, kindOf(n))
		}
	}
	return newPlacement(r.text(o, "value"), r.text(o, "before"), labels)
}

// nodeSeparator stands between the nodes of a placement.
const nodeSeparator = ", "

// newPlacement is the item of a placement: the nodes recomputed for a value, and the node that they
// precede. The last of the nodes makes the value.
func newPlacement(value, before string, nodes []string) item {
	i := item{name: value, layer: layerOf(value), facts: []Fact{{"before", NoUnit, textValue(before)},
		{"nodes", NoUnit, textValue(strings.Join(nodes, nodeSeparator))}}}
	if len(nodes) > 0 {
		i.layer = layerOf(nodes[len(nodes)-1], value)
	}
	return i
}

// moveOf is the item of a move: the nodes that its copy out, the release, the copy back and the wait for it precede.
func moveOf(r *reader, o object) item {
	out := Fact{"out", NoUnit, textValue("an earlier copy")}
	if _, ok := o.fields["offload"]; ok {
		out.Value = textValue(r.text(o, "offload"))
	}
	value := r.text(o, "value")
	return item{name: value, layer: layerOf(value), facts: []Fact{out, {"free", NoUnit, textValue(r.text(o, "free"))},
		{"back", NoUnit, textValue(r.text(o, "reload"))}, {"wait", NoUnit, textValue(r.text(o, "wait"))}}}
}

func clusterOf(r *reader, o object) item {
	i := item{name: r.text(o, "id")}
	if strategy := o.fact("strategy"); strategy.Value.Text != "" && strategy.Value.Text != "1" {
		i.name += " (strategy " + strategy.Value.Text + ")"
	}
	for _, key := range []string{"enabled", "applied", "frequency", "saving_bytes", "peak_drop_bytes", "saving_expr"} {
		i.facts = append(i.facts, o.fact(key))
	}
	return i
}

// stateKept is the state of a stashed activation that the device holds throughout.
const stateKept = "kept"

func stashOf(r *reader, o object) item {
	value, producer := r.text(o, "value"), r.text(o, "producer")
	state := stateKept
	if why, known := o.fields["why_kept"]; known && why == nil {
		state = "recomputed"
	}
	return item{name: value, layer: layerOf(producer, value), facts: []Fact{{"state", NoUnit, textValue(state)},
		o.fact("bytes"), o.fact("expr"), {"producer", NoUnit, textValue(producer)}}}
}

// flatten turns the rest of a document into fields.
func (r *reader) flatten(path string, node any, depth int) {
	if depth > maxDepth {
		r.fail("nests deeper than %d levels; no report of memopt does", maxDepth)
		return
	}
	switch x := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			r.flatten(strings.TrimPrefix(path+"."+key, "."), x[key], depth+1)
		}
	case []any:
		keys := elementKeys(x)
		for i, e := range x {
			r.flatten(path+"["+keys[i]+"]", e, depth+1)
		}
	default:
		v, _ := leaf(node)
		r.fields = append(r.fields, field{path, v})
	}
}

// leaf is the value of a leaf; false for an object or a list.
func leaf(node any) (Value, bool) {
	switch x := node.(type) {
	case nil:
		return Value{}, true
	case bool:
		return textValue(fmt.Sprint(x)), true
	case string:
		return textValue(x), true
	case json.Number:
		return numberValue(x), true
	}
	return Value{}, false
}

// naming are the properties that name the elements of a list, the best first.
var naming = []string{"name", "value", "id", "node", "layer", "stage", "what", "device", "budget_bytes"}

// elementKeys names the elements of a list: by a property that all have and that tells them apart,
// else by their places.
func elementKeys(elements []any) []string {
	keys := make([]string, len(elements))
	for _, property := range naming {
		seen := map[string]bool{}
		for i, e := range elements {
			fields, _ := e.(map[string]any)
			v, isLeaf := leaf(fields[property])
			if !isLeaf || !v.Known || seen[v.Text] {
				break
			}
			seen[v.Text], keys[i] = true, v.Text
		}
		if len(seen) == len(elements) {
			return keys
		}
	}
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	return keys
}

// kindOf names the JSON kind of a value, for messages.
func kindOf(node any) string {
	switch node.(type) {
	case nil:
		return "missing"
	case bool:
		return "a bool"
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	}
	return "an object"
}

// fieldPath compares a field's path with another one.
func fieldPath(f field, path string) int { return cmp.Compare(f.path, path) }

// field looks a field up by its path.
func (s *Subject) field(path string) (Value, bool) {
	i, ok := slices.BinarySearchFunc(s.fields, path, fieldPath)
	if !ok {
		return Value{}, false
	}
	return s.fields[i].value, true
}
