package diff

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/internal/test/schematest"
	"memopt/recompute"
)

// TestSources: measures are where the published schemas of reports have them, in the unit that they
// say; those of plans of operators that are worked out, their format does not have.
func TestSources(t *testing.T) {
	for _, schema := range slices.Sorted(maps.Keys(sources)) {
		verb := strings.TrimSuffix(strings.TrimPrefix(schema, "memopt."), "/v1")
		if schema == recompute.SchemaMoved {
			verb = "recompute-v2"
		}
		if schema == operatorsSchema {
			verb = "operator-plan"
		}
		text, err := os.ReadFile(filepath.Join(schematest.Folder(t), verb+".schema.json"))
		require.NoError(t, err)
		var root map[string]any
		require.NoError(t, json.Unmarshal(text, &root))
		for _, src := range sources[schema] {
			if schema == operatorsSchema && slices.Contains([]string{costRatio, stepTime, recomputations}, src.path) {
				continue
			}
			node := root
			for part := range strings.SplitSeq(src.path, ".") {
				properties, _ := resolve(t, root, node)["properties"].(map[string]any)
				next, ok := properties[part].(map[string]any)
				require.True(t, ok, "%s has no %s", schema, src.path)
				node = next
			}
			i := slices.IndexFunc(measures[:], func(m Measure) bool { return m.Name == src.measure })
			require.GreaterOrEqual(t, i, 0, src.measure)
			if src.by == asIs {
				require.Equal(t, measures[i].Unit, unitOf(src.path), src.path)
			}
		}
	}
}

// resolve follows a node of a schema to the object that it stands for.
func resolve(t *testing.T, root, node map[string]any) map[string]any {
	t.Helper()
	if options, ok := node["anyOf"].([]any); ok {
		node = options[0].(map[string]any)
		if node["type"] == "null" {
			node = options[1].(map[string]any)
		}
	}
	ref, ok := node["$ref"].(string)
	if !ok {
		return node
	}
	defs := root["$defs"].(map[string]any)
	return defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
}
