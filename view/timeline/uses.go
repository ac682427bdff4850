package timeline

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// Uses are the buffers that a step reads and writes, and those that it gives to others, by names: the number of a
// buffer and the value that it is made for. Those on the host have names that begin with "host".
type Uses struct{ Reads, Writes, Frees []string }

// Uses lists the uses of buffers by step. Values that live throughout are left out.
func (t *Timeline) Uses() []Uses {
	names, host := make([]string, len(t.program.Bytes)), make([]string, len(t.program.Bytes)) // by root
	for i, root := range t.roots {
		names[root] = fmt.Sprintf("%d %s", i, t.rootName(root))
	}
	if t.Simulated.Host != nil {
		for v, root := range t.Simulated.Host.Root {
			if root == graph.ValueID(v) {
				host[v] = "host " + t.rootName(root)
			}
		}
	}
	uses := make([]Uses, len(t.Steps))
	for i := range t.program.Steps {
		s := &t.program.Steps[i]
		if s.Memory == live.AsKind && op.Of(s.Kind).View {
			continue // a view, or a wait, touches no byte
		}
		uses[i].Reads, uses[i].Writes = t.named(s.In, names, host), t.named(s.Out, names, host)
	}
	for i, root := range t.roots {
		if last := t.Buffers[i].Last; int(last) < len(uses)-1 {
			uses[last].Frees = append(uses[last].Frees, names[root])
		}
	}
	return uses
}

// named lists the names of the buffers that values lie in, each once.
func (t *Timeline) named(values []graph.ValueID, names, host []string) (list []string) {
	for _, v := range values {
		if v == graph.NoValue {
			continue
		}
		name := ""
		if root := t.Simulated.Root[v]; root != graph.NoValue {
			name = names[root]
		}
		if h := t.Simulated.Host; h != nil && h.Root[v] != graph.NoValue {
			name = host[h.Root[v]]
		}
		if name != "" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// rootName is the name of the value that a buffer is made for; of a clone's, that of its original.
func (t *Timeline) rootName(root graph.ValueID) string {
	if int(root) < len(t.Graph.Values) {
		return t.Graph.ValueName(root)
	}
	for i := range t.roots {
		if t.roots[i] == root && t.Buffers[i].Value != graph.NoValue {
			return t.Graph.ValueName(t.Buffers[i].Value)
		}
	}
	return "workspace"
}
