package modules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/internal/inputfile"
)

// maxMap is the largest file that LoadMap reads: more than any model has names.
const maxMap = 64 << 20

// LoadMap reads a map of modules: a JSON object with a list of globs of nodes' names by module.
func LoadMap(path string) (map[string][]string, error) {
	data, err := inputfile.Read(path, maxMap)
	if err != nil {
		return nil, err
	}
	var out map[string][]string
	if err := json.Unmarshal(data, &out); err != nil || len(out) == 0 {
		return nil, fmt.Errorf("%s: wanted a JSON object such as {\"h.0\": [\"/h.0/*\"]}, with globs of nodes' names "+
			"by module, got %.60q", path, data)
	}
	return out, nil
}

// mapped returns the levels of nodes by a map. A module lies in those whose names begin its own. The error
// names a module whose globs match no node, or a node that belongs to two modules, neither inside the
// other.
func mapped(g *graph.Graph, globs map[string][]string) (func(graph.NodeID) []level, error) {
	of := make([][]level, len(g.Nodes))
	names := slices.SortedFunc(maps.Keys(globs), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	if len(names) > 0 && names[0] == "" {
		return nil, errors.New("the map of modules: a module has the name \"\", which stands for the whole model; " +
			"wanted names as model.named_modules() has them, such as \"h.0\"")
	}
	for _, name := range names {
		matched := false
		for id, n := range g.Nodes {
			if !slices.ContainsFunc(globs[name], func(glob string) bool { return graph.MatchGlob(glob, n.Name) }) {
				continue
			}
			matched = true
			if have := of[id]; len(have) > 0 && !strings.HasPrefix(name, have[len(have)-1].name+".") {
				return nil, fmt.Errorf("the map of modules: node %q is of %q and of %q; wanted one, or one in the "+
					"other", n.Name, have[len(have)-1].name, name)
			}
			of[id] = append(of[id], level{name, name})
		}
		if !matched {
			return nil, fmt.Errorf("the map of modules: no node's name matches %q of module %q", globs[name],
				name)
		}
	}
	return func(id graph.NodeID) []level { return of[id] }, nil
}
