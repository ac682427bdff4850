package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/internal/inputfile"
	"memopt/internal/nearmiss"
)

// GridSchema is the schema of grid files.
const GridSchema = "memopt.grid/v1"

// Limits of a grid.
const (
	MaxPoints = 10_000
	maxBytes  = 4 << 20
)

// Verbs are the verbs that a grid can have.
var Verbs = []string{"plan", "verify", "train"}

// Grid is a grid file: a verb and its points.
type Grid struct {
	Path   string
	Verb   string
	Points []*Point // in the order of the grid: the last axis changes fastest
	Data   []byte   // the unchanged file
}

// GridError is an error in a grid file.
type GridError struct {
	Path, Key string // Key is "" where the file as a whole is meant
	Why       error
}

// Error names the file and the key.
func (e *GridError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s: %v", e.Path, e.Why)
	}
	return fmt.Sprintf("%s: %s: %v", e.Path, e.Key, e.Why)
}

// Unwrap returns the cause.
func (e *GridError) Unwrap() error { return e.Why }

// axis is one key of a grid with its values.
type axis struct {
	part   string // models, dims or flags
	name   string // of a symbol or flag
	values []value
}

// key is the axis's place in the file.
func (a *axis) key() string {
	if a.name == "" {
		return a.part
	}
	return a.part + "." + a.name
}

// value is one value of an axis: the texts that it has on a command line; nil if the flag is left
// out.
type value struct {
	texts []string
	shown any // as JSON has it
}

// Read reads a grid file.
func Read(path string, verbs Checker) (*Grid, error) {
	data, err := inputfile.Read(path, maxBytes)
	if err != nil {
		return nil, err
	}
	return Parse(data, path, verbs)
}

// Parse reads the text of a grid file. Each of its points is checked.
func Parse(data []byte, path string, verbs Checker) (*Grid, error) {
	g := &Grid{Path: path, Data: data}
	axes, err := g.axes(data)
	if err == nil {
		err = g.expand(axes, verbs)
	}
	if err != nil {
		var e *GridError
		if !errors.As(err, &e) {
			err = &GridError{path, "", err}
		} else if e.Path == "" {
			e.Path = path
		}
		return nil, err
	}
	return g, nil
}

// at is an error of a key.
func at(key, format string, args ...any) error {
	return &GridError{Key: key, Why: fmt.Errorf(format, args...)}
}

// gridKeys are the keys of a grid file.
var gridKeys = []string{"schema", "verb", "models", "dims", "flags"}

// axes reads the file's keys.
func (g *Grid) axes(data []byte) ([]axis, error) {
	entries, err := object(data)
	if err != nil {
		return nil, err
	}
	var models, list []axis
	for _, e := range entries {
		switch e.key {
		case "schema":
			if err := wantText(e, []string{GridSchema}, new(string)); err != nil {
				return nil, err
			}
		case "verb":
			if err := wantText(e, Verbs, &g.Verb); err != nil {
				return nil, err
			}
		case "models":
			a, err := newAxis(e.key, "", e.value)
			if err != nil {
				return nil, err
			}
			models = append(models, a)
		case "dims", "flags":
			inner, err := object(e.value)
			var twice *GridError
			if errors.As(err, &twice) {
				return nil, at(e.key+"."+twice.Key, "%w", twice.Why)
			} else if err != nil {
				return nil, at(e.key, "%w", err)
			}
			for _, f := range inner {
				a, err := newAxis(e.key, f.key, f.value)
				if err != nil {
					return nil, err
				}
				list = append(list, a)
			}
		default:
			return nil, unknown("", e.key, gridKeys)
		}
	}
	if g.Verb == "" {
		return nil, at("verb", "is missing; wanted one of %s", strings.Join(Verbs, ", "))
	}
	if models == nil {
		return nil, at("models", "is missing; wanted the models: \"models\": [\"a.onnx\", \"example:mlp\"]")
	}
	return append(models, list...), nil
}

// unknown is the error for a key that there is not.
func unknown(part, key string, known []string) error {
	text := "there is no such key; wanted " + strings.Join(known, ", ")
	if near := nearmiss.Find(key, known); near != "" {
		text = fmt.Sprintf("there is no such key; did you mean %q?", near)
	}
	return at(part+key, "%s", text)
}

// wantText reads a key that has one of some texts.
func wantText(e entry, wanted []string, to *string) error {
	if json.Unmarshal(e.value, to) != nil || !slices.Contains(wanted, *to) {
		return at(e.key, "%s: wanted one of %q", e.value, wanted)
	}
	return nil
}

// newAxis reads the values of a key: one, or a list of some.
func newAxis(part, name string, data json.RawMessage) (axis, error) {
	a := axis{part: part, name: name}
	list := []json.RawMessage{data}
	if data[0] == '[' {
		if err := json.Unmarshal(data, &list); err != nil {
			return a, at(a.key(), "%w", err)
		}
		if len(list) == 0 {
			return a, at(a.key(), "the list is empty, so that there would be no point; name a value, or leave out "+
				"the key")
		}
	}
	if len(list) > MaxPoints {
		return a, at(a.key(), "has %d values; a grid has at most %d points", len(list), MaxPoints)
	}
	seen := map[string]bool{}
	for _, raw := range list {
		v, err := a.value(raw)
		if err != nil {
			return a, err
		}
		text := strings.Join(v.texts, "\x00")
		if seen[text] {
			return a, at(a.key(), "has %s twice: each point would be run twice", raw)
		}
		seen[text] = true
		a.values = append(a.values, v)
	}
	return a, nil
}

// value reads one value: a text, number or boolean; null, which leaves a flag out; or a list of
// these, for a flag that is given several times, or the two models of verify.
func (a *axis) value(raw json.RawMessage) (value, error) {
	var v value
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v.shown); err != nil {
		return v, at(a.key(), "%w", err)
	}
	list, many := v.shown.([]any)
	if !many {
		list = []any{v.shown}
	}
	for _, one := range list {
		switch x := one.(type) {
		case string:
			v.texts = append(v.texts, x)
		case json.Number:
			v.texts = append(v.texts, x.String())
		case bool:
			v.texts = append(v.texts, fmt.Sprint(x))
		case nil:
			if many || a.part != "flags" {
				return v, at(a.key(), "null: only a flag can be left out")
			}
		default:
			return v, at(a.key(), "%s: wanted a text, number, boolean or null, or a list of these", raw)
		}
	}
	if many && len(list) == 0 {
		return v, at(a.key(), "has an empty list as a value; wanted null to leave the flag out")
	}
	if a.part == "dims" && many {
		return v, at(a.key(), "%s: wanted one number or range", raw)
	}
	return v, nil
}

// entry is a key of an object with its value.
type entry struct {
	key   string
	value json.RawMessage
}

// object reads an object's keys in their order. A key that stands there twice is an error, as is
// anything behind the object.
func object(data []byte) (list []entry, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	t, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if t != json.Delim('{') {
		return nil, errors.New("wanted a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("is not JSON: %w", err)
		}
		e := entry{key: key.(string)}
		if err := d.Decode(&e.value); err != nil {
			return nil, fmt.Errorf("is not JSON: %w", err)
		}
		if seen[e.key] {
			return nil, at(e.key, "stands in the file twice")
		}
		seen[e.key] = true
		list = append(list, e)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("has data after the grid; wanted one JSON object")
	}
	return list, nil
}
