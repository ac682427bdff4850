package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"memopt/graph"
	"memopt/symbolic"
)

// MaxDepth is the number of levels that graphs, and types, may nest.
const MaxDepth = 64

// MaxFunctions is the most model-local functions of a model: a walk over their calls goes as deep
// as there are functions.
const MaxFunctions = 100_000

// The oldest IR version and the oldest operator set of the ONNX domain that are supported. Versions
// newer than memopt knows are read, too: their new fields are passed through.
const (
	minIRVersion = 3
	minOpset     = 7
)

// Decode reads a model from memory. The model refers to data, which must not change while the model
// is in use. path names the model in messages and gives the folder of its external data; with "" or
// "-" it has no folder, and reading external data is an error. Files of external data stay mapped
// until the process ends; use [Open] to release them.
//
// The model satisfies [graph.Verify]. Errors are *FormatErrors.
func Decode(data []byte, path string) (*graph.Model, error) {
	return decode(data, path, newExternals(path))
}

func decode(data []byte, path string, files *externals) (*graph.Model, error) {
	if len(data) == 0 {
		return nil, formatErr(path, "the file is empty")
	}
	d := &decoder{path: path, files: files, names: map[string]string{}, symbols: map[string]symbolic.Expr{}}
	m, err := d.model(data)
	if err == nil {
		err = graph.Verify(m)
	}
	if err == nil {
		err = files.checkLinks()
	}
	var deep *depthError
	if errors.As(err, &deep) {
		err = deep
	}
	if err == nil {
		return m, nil
	}
	if other := looksLike(data); other != "" {
		return nil, formatErr(path, "this is not an ONNX model: %s", other)
	}
	return nil, &FormatError{Path: path, Err: err}
}

// looksLike recognises files that are commonly mistaken for models.
func looksLike(data []byte) string {
	head := data[:min(len(data), 256)]
	switch {
	case bytes.HasPrefix(head, []byte("version https://git-lfs")):
		return "it is a Git LFS pointer; fetch the file itself with git lfs pull"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "it is a zip archive (PyTorch's own files are); export the model to ONNX"
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return "it is compressed with gzip; unpack it first"
	case isText(head):
		line, _, _ := strings.Cut(string(head), "\n")
		return fmt.Sprintf("it is text that starts with %.40q", strings.TrimRight(line, "\r"))
	}
	return ""
}

func isText(head []byte) bool {
	for i := 0; i < len(head); {
		r, n := utf8.DecodeRune(head[i:])
		if r == utf8.RuneError && n == 1 {
			return i > 0 && len(head)-i < utf8.UTFMax // cut inside a character
		}
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
		i += n
	}
	return true
}

// decoder is the state of one Decode.
type decoder struct {
	path    string
	files   *externals
	names   map[string]string // one copy of each operator, domain and attribute name
	symbols map[string]symbolic.Expr
	depth   int // of the graph being read

	ids   []graph.ValueID // blocks that nodes take their operand lists from
	nodes []graph.Node    // and themselves
	in    []graph.ValueID // operands of the node being read
	out   []graph.ValueID
	rare  graph.Rare // of the node being read
}

// intern returns a string that shares its memory with equal ones.
func (d *decoder) intern(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	d.names[s] = s
	return s
}

// text reads a string field; an empty one is kept so that its presence survives.
func text(f *field, what string, dst *string, extra *[]byte) error {
	s, err := f.string(what)
	if err != nil {
		return err
	}
	*dst = s
	if s == "" {
		keep(extra, f)
	}
	return nil
}

// label is text for strings that recur.
func (d *decoder) label(f *field, what string, dst *string, extra *[]byte) error {
	b, err := f.bytes(what)
	if err != nil {
		return err
	}
	*dst = d.intern(b)
	if len(b) == 0 {
		keep(extra, f)
	}
	return nil
}

// number reads an integer field; a zero is kept so that its presence survives.
func number(f *field, what string, dst *int64, extra *[]byte) error {
	v, err := f.varint(what)
	if err != nil {
		return err
	}
	*dst = v
	if v == 0 {
		keep(extra, f)
	}
	return nil
}

func (d *decoder) model(data []byte) (*graph.Model, error) {
	m := &graph.Model{Path: d.path}
	var main merged
	r := reader{rest: data}
	var f field
	for {
		more, err := r.next(&f)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if err := d.modelField(m, &main, &f); err != nil {
			return nil, err
		}
	}
	if err := checkVersions(m, main.seen); err != nil {
		return nil, err
	}
	g, err := d.graph(main.reader, nil)
	m.Graph = g
	return m, err
}

func (d *decoder) modelField(m *graph.Model, main *merged, f *field) error {
	switch f.num {
	case modelIRVersion:
		// An explicit 0 is no version, so it need not survive.
		return number(f, "ModelProto.ir_version", &m.IRVersion, new([]byte))
	case modelProducerName:
		return text(f, "ModelProto.producer_name", &m.ProducerName, &m.Extra)
	case modelProducerVersion:
		return text(f, "ModelProto.producer_version", &m.ProducerVersion, &m.Extra)
	case modelDomain:
		return text(f, "ModelProto.domain", &m.Domain, &m.Extra)
	case modelVersion:
		return number(f, "ModelProto.model_version", &m.ModelVersion, &m.Extra)
	case modelDoc:
		return text(f, "ModelProto.doc_string", &m.Doc, &m.Extra)
	case modelGraph:
		return main.add(f, "ModelProto.graph")
	case modelOpset:
		return d.opset(f, &m.Opsets)
	case modelMetadata:
		return metadata(f, &m.Metadata)
	case modelConfiguration:
		return d.configuration(f, &m.Configurations)
	case modelFunction:
		if len(m.Functions) == MaxFunctions {
			return at(f.pos, "the model has more than %d functions", MaxFunctions)
		}
		fn, err := d.function(f)
		if err != nil {
			return fmt.Errorf("function %d: %w", len(m.Functions), err)
		}
		m.Functions = append(m.Functions, fn)
		return nil
	}
	keep(&m.Extra, f)
	return nil
}

func checkVersions(m *graph.Model, hasGraph bool) error {
	opset := m.OpsetVersion("")
	switch {
	case !hasGraph && m.IRVersion == 0:
		return fmt.Errorf("this is not an ONNX model: it has neither a graph nor an ir_version")
	case !hasGraph:
		return fmt.Errorf("the model has no graph")
	case m.IRVersion < minIRVersion:
		return fmt.Errorf("ir_version is %d, wanted %d or more; export the model again with a newer ONNX",
			m.IRVersion, minIRVersion)
	case opset != 0 && opset < minOpset:
		return fmt.Errorf("the model imports version %d of the ai.onnx operators, wanted %d or newer; convert it "+
			"with onnx.version_converter", opset, minOpset)
	}
	return nil
}

func (d *decoder) opset(f *field, list *[]graph.Opset) error {
	r, err := f.sub("opset_import")
	if err != nil {
		return err
	}
	var o graph.Opset
	var in field
	for {
		more, err := r.next(&in)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		switch in.num {
		case opsetDomain:
			err = d.label(&in, "OperatorSetIdProto.domain", &o.Domain, &o.Extra)
		case opsetVersion:
			err = number(&in, "OperatorSetIdProto.version", &o.Version, &o.Extra)
		default:
			keep(&o.Extra, &in)
		}
		if err != nil {
			return err
		}
	}
	*list = append(*list, o)
	return nil
}

func metadata(f *field, list *[]graph.Property) error {
	p, err := entry(f)
	if err != nil {
		return err
	}
	*list = append(*list, p)
	return nil
}

// entry reads a StringStringEntryProto.
func entry(f *field) (p graph.Property, err error) {
	r, err := f.sub("StringStringEntryProto")
	if err != nil {
		return p, err
	}
	var in field
	for {
		more, err := r.next(&in)
		if !more || err != nil {
			return p, err
		}
		switch in.num {
		case entryKey:
			err = text(&in, "StringStringEntryProto.key", &p.Key, &p.Extra)
		case entryValue:
			err = text(&in, "StringStringEntryProto.value", &p.Value, &p.Extra)
		default:
			keep(&p.Extra, &in)
		}
		if err != nil {
			return p, err
		}
	}
}
