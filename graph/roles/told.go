package roles

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/modules"
	"memopt/graph/onnx"
)

// The entries of metadata that keep the signature of torch.export in PyTorch's exporter
// (torch/onnx/_internal/exporter/_core.py), and, in its optimizer, the values that a constant was
// computed from (onnxscript/optimizer/_constant_folding.py): those of values, and that of the graph.
const (
	exporterPrefix = "pkg."
	kindKey        = "pkg.torch.export.graph_signature.InputSpec.kind"
	foldedKey      = "pkg.onnxscript.optimizer.folded_from"
	signatureKey   = "pkg.torch.export.ExportedProgram.graph_signature"
)

// foldedBias is behind the name of a weight in that of the bias which a batch norm became that was folded
// into it (onnxscript/rewriter/rules/common/_fuse_batchnorm.py).
const foldedBias = "_bias"

// specs are the kinds of torch.export.graph_signature.InputKind.
var specs = map[string]Role{
	"PARAMETER":       {Kind: Parameter},
	"BUFFER":          {Buffer, "a buffer of the PyTorch program"},
	"CONSTANT_TENSOR": {Constant, "a constant of the PyTorch program"},
	"USER_INPUT":      {Data, "an argument of the PyTorch program"},
}

// told has the roles that a file states, by the names of values.
type told struct {
	own     map[string]Role     // by memopt's record, and by the list of memopt.torch
	specs   map[string]Role     // by the signature of torch.export
	folded  map[string][]string // the sources of a constant
	names   []string            // the parameters of the PyTorch program, in its order
	buffers []string            // its buffers
	signed  bool                // specs has parameters
	// scripted: torch.onnx.export(dynamo=False) wrote the file. Its constants are nodes, and initializers
	// have the paths of the program's state_dict.
	scripted bool
}

// toldBy reads the roles that a file states.
func toldBy(m *graph.Model) (*told, error) {
	t := &told{own: map[string]Role{}, specs: map[string]Role{}, folded: map[string][]string{}}
	listed, err := modules.Parameters(m)
	if err != nil {
		return nil, err
	}
	record, err := recorded(m)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(listed, record.Parameters) {
		t.own[name] = Role{Kind: Parameter}
	}
	for _, name := range record.Constants {
		t.own[name] = Role{Constant, "a constant before memopt wrote the file"}
	}
	t.signature(m.Graph)
	for _, list := range [][]graph.Decl{m.Graph.Inputs, m.Graph.ValueInfo} {
		for i := range list {
			if err := t.value(m.Graph, &list[i]); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range t.specs {
		t.signed = t.signed || r.Kind == Parameter
	}
	t.scripted = m.ProducerName == "pytorch" && !t.signed
	return t, nil
}

// registered are buffers in the state_dict of models of transformers whose readers would have them weights. A
// file of torch.onnx.export(dynamo=False) does not tell buffers from parameters.
var registered = map[string]Role{
	"final_logits_bias": {Buffer, "a buffer of zeros that transformers adds to the logits of BART and its kin"},
}

// signatureLine is a line of the graph's signature, such as
//
//	p_head_weight: PARAMETER target='head.weight'
var signatureLine = regexp.MustCompile(`(?m)^\s*\S+: ([A-Z_]+) target='([^'\n]+)'`)

// signature reads the graph's signature, which says which initializers keep the names of the
// program. It counts if the values' own metadata are lost.
func (t *told) signature(g *graph.Graph) {
	for _, p := range g.Metadata {
		if p.Key != signatureKey {
			continue
		}
		inputs, _, _ := strings.Cut(p.Value, "# outputs")
		for _, found := range signatureLine.FindAllStringSubmatch(inputs, -1) {
			role, known := specs[found[1]]
			if !known || role.Kind == Data {
				continue
			}
			switch role.Kind {
			case Parameter:
				t.names = append(t.names, found[2])
			case Buffer:
				t.buffers = append(t.buffers, found[2])
			}
			t.specs[found[2]] = role
		}
	}
}

// value reads the metadata of a value.
func (t *told) value(g *graph.Graph, d *graph.Decl) error {
	name := g.ValueName(d.Value)
	list, err := onnx.Properties(d, exporterPrefix)
	if err != nil {
		return fmt.Errorf("metadata of the value %q: %w", name, err)
	}
	for _, p := range list {
		switch p.Key {
		case kindKey:
			if role, known := specs[strings.TrimPrefix(p.Value, "InputKind.")]; known {
				t.specs[name] = role
			}
		case foldedKey:
			t.folded[name] = modules.PythonList(p.Value)
		}
	}
	return nil
}

// role returns the role that the file states for an initializer; ok is false if it states no role, and rules are
// to decide.
func (t *told) role(name string) (role Role, ok bool) {
	if role, ok = t.input(name); ok {
		return role, true
	}
	if t.scripted {
		_, own := splitName(name)
		role, ok = registered[own]
		return role, ok
	}
	weight, isBias := strings.CutSuffix(name, foldedBias)
	if !t.signed || len(t.parametersOf(name)) > 0 || isBias && t.specs[weight].Kind == Parameter {
		return Role{}, false
	}
	return Role{Constant, "a constant of the PyTorch program"}, true
}

// parametersOf lists the parameters of the program that a constant was computed from.
func (t *told) parametersOf(name string) (of []string) {
	for _, from := range t.folded[name] {
		if t.specs[from].Kind == Parameter {
			of = append(of, from)
		}
	}
	return of
}

// gatherers are the operators of PyTorch whose results are rows of their inputs.
var gatherers = map[string]bool{"embedding": true, "index": true, "index_select": true}

// isGathered reports whether a constant has rows of a parameter.
func (t *told) isGathered(name string) bool {
	return len(t.parametersOf(name)) == 1 && gatherers[counted.ReplaceAllString(name, "")]
}

// movers are the operators of PyTorch whose results have each element of their inputs at most once, and zeros, which
// are listed where an LSTM begins with them.
var movers = map[string]bool{"t": true, "transpose": true, "permute": true, "swapaxes": true, "movedim": true,
	"numpy_T": true, "view": true, "_unsafe_view": true, "reshape": true, "flatten": true, "unflatten": true,
	"squeeze": true, "unsqueeze": true, "clone": true, "contiguous": true, "alias": true, "detach": true,
	"lift_fresh_copy": true, "_to_copy": true, "to": true, "cat": true, "stack": true, "split": true,
	"split_with_sizes": true, "chunk": true, "unbind": true, "getitem": true, "slice": true, "select": true,
	"narrow": true, "flip": true, "zeros": true}

var (
	// unnamed are the values that have no name in the program, such as val_12.
	unnamed = regexp.MustCompile(`^val_\d+$`)
	// counted is behind the name of an operator that the program has more than once, as in exp_3.
	counted = regexp.MustCompile(`_\d+$`)
)

// isMoved reports whether the elements of a constant that was computed of parameters are theirs, as far as is
// known: values of the program have the names of their operators, and a value without a name may be a product of a
// parameter and a buffer.
func (t *told) isMoved(name string) bool {
	for _, from := range append([]string{name}, t.folded[name]...) {
		role, ofProgram := t.specs[from]
		switch {
		case ofProgram && role.Kind != Parameter:
			return false
		case !ofProgram && !unnamed.MatchString(from) && !movers[counted.ReplaceAllString(from, "")]:
			return false
		}
	}
	return true
}

// isNumber reports whether a single number is a parameter by its name: by its path in a scripted file, or
// because it was computed of parameters.
func (t *told) isNumber(name string) bool {
	isPath := strings.Contains(name, ".") && !strings.ContainsAny(name, ":/")
	return t.scripted && isPath || len(t.parametersOf(name)) > 0
}

// input returns the role that the file states for an input without contents.
func (t *told) input(name string) (role Role, ok bool) {
	if role, ok = t.own[name]; ok {
		return role, true
	}
	role, ok = t.specs[name]
	return role, ok
}

// absent lists the parameters of the PyTorch program that no value of the graph is or was computed of.
func (t *told) absent(g *graph.Graph) (names []string) {
	used := map[string]bool{}
	for _, list := range t.folded {
		for _, name := range list {
			used[name] = true
		}
	}
	for _, name := range t.names {
		if _, ok := g.Lookup(name); !ok && !used[name] {
			names = append(names, name)
		}
	}
	return names
}

// RecordKey is the metadata key of memopt's own record of the roles of initializers that it has
// written, if the file does not show them.
const RecordKey = "memopt.roles"

// recordSchema is the schema of Record.
const recordSchema = "memopt.roles/v1"

// Record is the JSON under RecordKey: names of initializers.
type Record struct {
	Schema     string   `json:"schema"`
	Constants  []string `json:"constants"`
	Parameters []string `json:"parameters"`
}

// recorded reads memopt's own record; it is empty without an entry.
func recorded(m *graph.Model) (r Record, err error) {
	text, ok := m.Meta(RecordKey)
	if !ok {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Schema != recordSchema {
		return r, fmt.Errorf("metadata %s: wanted JSON of schema %q, got %.80q; remove the entry to have roles found "+
			"anew", RecordKey, recordSchema, text)
	}
	return r, nil
}
