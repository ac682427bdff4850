// Package schematest holds JSON to the schemas that are published in docs/schemas. It is for tests.
package schematest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// Folder returns where the schemas lie: docs/schemas under the module's root, which is the first
// folder with a go.mod above the test's.
func Folder(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "docs", "schemas")
		}
		up := filepath.Dir(dir)
		require.NotEqual(t, up, dir, "no go.mod lies above the test")
		dir = up
	}
}

// Schema is a published schema, read strictly: a property that it does not name is a fault,
// although readers should bear with such, since later releases may have more.
type Schema struct {
	compiled *jsonschema.Schema
	document any
}

// Load reads the schema of a verb from Folder.
func Load(t testing.TB, folder, verb string) *Schema {
	t.Helper()
	name := verb + ".schema.json"
	text, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err, name)
	closeObjects(doc)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource(name, doc), name)
	s, err := c.Compile(name)
	require.NoError(t, err, name)
	return &Schema{s, doc}
}

// closeObjects forbids properties that a schema does not name.
func closeObjects(node any) {
	switch x := node.(type) {
	case map[string]any:
		if _, object := x["properties"].(map[string]any); object && x["type"] == "object" {
			if _, ok := x["additionalProperties"]; !ok {
				x["additionalProperties"] = false
			}
		}
		for _, child := range x {
			closeObjects(child)
		}
	case []any:
		for _, child := range x {
			closeObjects(child)
		}
	}
}

// Check holds a document to the schema and returns it decoded.
func (s *Schema) Check(t testing.TB, data []byte) any {
	t.Helper()
	require.NoError(t, s.Validate(data),
		"the output does not match docs/schemas: if a field is new, add it to the schema\n%s", data)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	return doc
}

// Validate returns an error for a document that violates the schema.
func (s *Schema) Validate(data []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return s.compiled.Validate(doc)
}

// Properties lists all properties of the schema and of its definitions, as definition.property,
// sorted.
func (s *Schema) Properties() []string {
	root := s.document.(map[string]any)
	list := propertiesOf("", root)
	defs, _ := root["$defs"].(map[string]any)
	for name, def := range defs {
		list = append(list, propertiesOf(name+".", def.(map[string]any))...)
	}
	slices.Sort(list)
	return list
}

func propertiesOf(prefix string, object map[string]any) (list []string) {
	properties, _ := object["properties"].(map[string]any)
	for name := range properties {
		list = append(list, prefix+name)
	}
	return list
}

// Described checks that every property has a description.
func (s *Schema) Described(t testing.TB) {
	t.Helper()
	root := s.document.(map[string]any)
	objects := map[string]any{"": root}
	if defs, ok := root["$defs"].(map[string]any); ok {
		maps.Copy(objects, defs)
	}
	for name, object := range objects {
		properties, _ := object.(map[string]any)["properties"].(map[string]any)
		for property, p := range properties {
			text, _ := p.(map[string]any)["description"].(string)
			require.True(t, strings.HasSuffix(text, "."), "%v: property %s.%s has no description, a sentence",
				root["$id"], name, property)
		}
	}
}

// Leaves returns the numbers, texts and other leaves of a decoded document by their path,
// "peak.arena_bytes" or "order.0". Empty lists and objects are leaves, too.
func Leaves(doc any) map[string]any {
	out := map[string]any{}
	var walk func(path string, node any)
	walk = func(path string, node any) {
		join := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
		switch x := node.(type) {
		case map[string]any:
			for name, child := range x {
				walk(join(name), child)
			}
			if len(x) == 0 {
				out[path] = "{}"
			}
		case []any:
			for i, child := range x {
				walk(join(fmt.Sprint(i)), child)
			}
			if len(x) == 0 {
				out[path] = "[]"
			}
		default:
			out[path] = node
		}
	}
	walk("", doc)
	return out
}
