package modules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"memopt/graph"
)

// Key is the key of memopt.torch's list of modules in a model's metadata.
const Key = "memopt.torch"

// ScopesKey is the entry of a node's metadata with the names of the modules around it, a list as Python
// prints it (onnx_ir's exporter of torch.export; pkg.torch.onnx in PyTorch's torch/onnx/_internal).
const ScopesKey = "pkg.torch.onnx.name_scopes"

// ErrNoModules means that a file does not name the modules of its nodes.
var ErrNoModules = errors.New("no node has the name of a module: wanted names such as " +
	"/model/h.0/attn/MatMul, as torch.onnx.export gives them, or the metadata " + ScopesKey +
	"; export with memopt.torch.export, or give a map from modules to nodes")

// listed is the JSON under Key.
type listed struct {
	Version int    `json:"version"`
	Torch   string `json:"torch"`
	Root    string `json:"root"`
	// Parameters names the initializers that are trained.
	Parameters []string `json:"parameters"`
	// Sizes has those of the symbols in the inputs of the export; it is empty in files of older
	// releases.
	Sizes   map[string]int64 `json:"sizes"`
	Modules []Entry          `json:"modules"`
}

// Entry is the description of a module by memopt.torch.
type Entry struct {
	Name           string         `json:"name"`
	Class          string         `json:"class"`
	Calls          int            `json:"calls"`
	Training       *bool          `json:"training"`       // nil: it is
	Checkpointable any            `json:"checkpointable"` // true, or why not
	Attributes     map[string]any `json:"attributes"`
}

// Traced returns the tree of a step that PyTorch traced: for each call the name of its module and, in calls,
// the call around it. It has no nodes.
func Traced(torch string, calls []Call, names []string, entries []Entry) *Tree {
	t := &Tree{Calls: calls, Listed: true, Torch: torch, byName: map[string]ID{}}
	for i, name := range names {
		t.Calls[i].Module = t.module(name)
	}
	t.describe(&listed{Modules: entries})
	return t
}

// Read finds the modules of a model's main graph. globs, which may be nil, maps the name of a module to
// the globs of its nodes' names, such as "encoder" to "/encoder/*", for example, and replaces the nodes'
// own traces. The error is ErrNoModules, or describes a fault of the metadata or the map.
func Read(m *graph.Model, globs map[string][]string) (*Tree, error) {
	t := &Tree{Of: make([]int32, len(m.Graph.Nodes)), byName: map[string]ID{}}
	if m.ProducerName == "pytorch" {
		t.Torch = m.ProducerVersion
	}
	list, err := readList(m)
	if err != nil {
		return nil, err
	}
	if list != nil {
		t.Root, t.Listed, t.Parameters = list.Root, true, list.Parameters
		t.Torch = cmp.Or(list.Torch, t.Torch)
	}
	scopes, err := scopesOf(m.Graph, list, globs)
	if err != nil {
		return nil, err
	}
	open := map[string]int32{}
	for id := range m.Graph.Nodes {
		t.place(graph.NodeID(id), scopes(graph.NodeID(id)), open)
	}
	if len(t.Modules) == 0 {
		return nil, ErrNoModules
	}
	t.describe(list)
	return t, nil
}

// Bare returns the tree of a model's main graph without modules.
func Bare(m *graph.Model) *Tree {
	t := &Tree{Of: make([]int32, len(m.Graph.Nodes)), byName: map[string]ID{}}
	for i := range t.Of {
		t.Of[i] = -1
	}
	if m.ProducerName == "pytorch" {
		t.Torch = m.ProducerVersion
	}
	return t
}

// readList reads the list of modules that memopt.torch has left; nil if there is no list.
func readList(m *graph.Model) (*listed, error) {
	text, ok := m.Meta(Key)
	if !ok {
		return nil, nil
	}
	list := &listed{}
	if err := json.Unmarshal([]byte(text), list); err != nil || list.Version != 1 {
		return nil, fmt.Errorf("metadata %s: wanted JSON of version 1 with root and modules, got %.80q; export "+
			"the model anew with memopt.torch.export", Key, text)
	}
	return list, nil
}

// Parameters returns the names of the initializers that are trained, by the list that memopt.torch has
// left; nil if there is no list.
func Parameters(m *graph.Model) ([]string, error) {
	list, err := readList(m)
	if list == nil {
		return nil, err
	}
	return list.Parameters, nil
}

// Sizes returns the sizes of symbols in the inputs of memopt.torch's export of the model; nil if the
// file does not say.
func Sizes(m *graph.Model) map[string]int64 {
	list, err := readList(m)
	if err != nil || list == nil {
		return nil
	}
	return list.Sizes
}

// scopesOf returns the function that gives the modules of a node, the outermost first.
func scopesOf(g *graph.Graph, list *listed, globs map[string][]string) (func(graph.NodeID) []level, error) {
	if globs != nil {
		return mapped(g, globs)
	}
	names := &names{calls: map[string]int{}, found: map[[2]string]string{}}
	root := ""
	if list != nil {
		for _, m := range list.Modules {
			names.calls[m.Name] = m.Calls
		}
		root = list.Root
	}
	return func(id graph.NodeID) []level {
		n := g.Nodes[id]
		for _, p := range n.Rare().Metadata {
			if p.Key == ScopesKey {
				return ofNames(PythonList(p.Value), root)
			}
		}
		return ofPath(n.Name, root, names)
	}, nil
}

// ofNames are the levels of a list of modules' whole names, as the metadata of nodes has it: the root's is
// empty, and the last is the node's own.
func ofNames(names []string, root string) []level {
	var out []level
	for _, name := range names[:max(len(names)-1, 0)] {
		if name = strings.TrimPrefix(strings.TrimPrefix(name, root), "."); name != "" {
			out = append(out, level{name, name})
		}
	}
	return out
}

// PythonList reads a list of strings as Python prints it. Any other text gives the strings that can be read.
func PythonList(text string) []string {
	var out []string
	for {
		at := strings.IndexAny(text, `'"`)
		if at < 0 {
			return out
		}
		quote := text[at]
		end := strings.IndexByte(text[at+1:], quote)
		if end < 0 {
			return out
		}
		out = append(out, text[at+1:at+1+end])
		text = text[at+end+2:]
	}
}

// ofPath are the levels of a node's name that is a path of scopes. A module in a Sequential has the names
// of those around it in its own: /seq/seq.1/seq.1.0 is seq, seq.1 and seq.1.0. A second call of a module
// has a number behind its name, which the list of modules tells from a module of that name.
func ofPath(path, root string, known *names) []level {
	if !strings.HasPrefix(path, "/") {
		return nil
	}
	parts := strings.Split(path[1:], "/")
	parts = parts[:len(parts)-1]
	var out []level
	name, last, around := "", "", "" // the module, its segment, the module around it without the root
	for i, part := range parts {
		switch {
		case i == 0:
			name = part
		case strings.HasPrefix(part, last+"."):
			name += part[len(last):]
		default:
			name += "." + part
		}
		last = part
		if root != "" && i == 0 {
			if part != root {
				return nil
			}
			continue
		}
		inner := strings.TrimPrefix(name, root+".")
		whole := known.resolve(inner, around, part)
		name = strings.TrimSuffix(name, inner) + whole
		around = whole
		out = append(out, level{whole, part})
	}
	return out
}

// names are those of a file's list of modules.
type names struct {
	calls map[string]int       // how often a step runs each
	found map[[2]string]string // results of resolve
}

// resolve is the name in the list of a module that the exporter calls inner, whose last part in the module around
// it is part: that name itself, or without the number of a second call; or the key of a ModuleDict, whose own name
// the exporter leaves out. A name that the list lacks stays as it is.
func (n *names) resolve(inner, around, part string) string {
	if _, ok := n.calls[inner]; ok || len(n.calls) == 0 {
		return inner
	}
	key := [2]string{inner, part}
	if name, ok := n.found[key]; ok {
		return name
	}
	n.found[key] = inner
	plain := withoutNumber(inner)
	_, ok := n.calls[plain]
	for _, name := range []string{n.inContainer(around, part), n.inContainer(around, withoutNumber(part))} {
		if !ok && name != "" {
			plain, ok = name, true
		}
	}
	if ok {
		n.found[key] = plain
	}
	return n.found[key]
}

// inContainer is the one name in the list that has only modules that no step runs, lists and dicts, between the module
// around it and its last part; "" if there is no such name, or several.
func (n *names) inContainer(around, part string) string {
	found := ""
	for name := range n.calls {
		owner, ok := strings.CutSuffix(name, "."+part)
		for ok && owner != around {
			calls, listed := n.calls[owner]
			ok = listed && calls == 0
			owner = owner[:max(strings.LastIndexByte(owner, '.'), 0)]
		}
		if !ok {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

// withoutNumber is a name without _N at its end.
func withoutNumber(name string) string {
	at := strings.LastIndexByte(name, '_')
	if at <= 0 || at == len(name)-1 || strings.Trim(name[at+1:], "0123456789") != "" {
		return name
	}
	return name[:at]
}

// describe adds the list's entries for the modules that have nodes, and counts calls if there is no
// list.
func (t *Tree) describe(list *listed) {
	if list == nil {
		for _, c := range t.Calls {
			t.Modules[c.Module].Calls++
		}
		return
	}
	for i := range t.Modules {
		t.Modules[i].Refusal = "the exporter's list of modules does not have it"
	}
	for _, l := range list.Modules {
		id := t.Lookup(l.Name)
		if id == None {
			continue
		}
		m := &t.Modules[id]
		m.Class, m.Calls, m.Attributes, m.Refusal = l.Class, l.Calls, l.Attributes, ""
		m.Training = l.Training == nil || *l.Training
		switch why := l.Checkpointable.(type) {
		case string:
			m.Refusal = why
		case bool:
			if !why {
				m.Refusal = "the exporter says that it cannot be recomputed"
			}
		}
	}
}
