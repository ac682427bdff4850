package configs

import (
	"bytes"
	"encoding/json"
	"fmt"

	"memopt/graph"
	"memopt/planner"
)

// The files of Deeploy's tools for recomputation (https://github.com/runwangdl/TrainDeeploy,
// DeeployTest/tools/checkmate): schedules name nodes by their own names, and a list of aliases
// names the nodes whose outputs got the addresses of their inputs on the device.

// FormatSchedule writes a plan as {"seq": [[name, again], …]}: all executions in order, again being
// 1 if the node has run before. A node without a name of its own is an error: the replay finds
// nodes by name.
func FormatSchedule(p *planner.Plan) ([]byte, error) {
	g := p.Analysis.Graph
	if err := ownNames(g); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("{\"seq\": [")
	for i, run := range p.Sequence() {
		name, err := json.Marshal(g.Nodes[run.Node].Name)
		if err != nil {
			return nil, err
		}
		again := 0
		if run.Again {
			again = 1
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n[%s, %d]", name, again)
	}
	b.WriteString("\n]}\n")
	return b.Bytes(), nil
}

// ownNames makes sure that every node has a name that no other has.
func ownNames(g *graph.Graph) error {
	seen := make(map[string]bool, len(g.Nodes))
	for i, n := range g.Nodes {
		switch {
		case n.Name == "":
			return fmt.Errorf("node %q has no name, but Deeploy finds nodes by name; name the "+
				"model's nodes first",
				g.NodeLabel(graph.NodeID(i)))
		case seen[n.Name]:
			return fmt.Errorf("two nodes are named %q, but Deeploy finds nodes by name; give each "+
				"its own name first",
				n.Name)
		}
		seen[n.Name] = true
	}
	return nil
}

// leastKnown is the smallest share of known names in a list of aliases: with fewer it is taken for
// another model's.
const leastKnown = 0.9

// LoadAliases reads {"aliased": [name, …]} for a graph: which nodes' first outputs lie in the
// memory of their first inputs, by node. Names that the graph does not have are returned; more than
// a tenth of them mean another model's list, which is an error.
func LoadAliases(path string, g *graph.Graph) (aliased []bool, unknown []string, err error) {
	data, err := readFile(path)
	if err != nil {
		return nil, nil, err
	}
	var list struct {
		Aliased *[]string `json:"aliased"`
	}
	if err := json.Unmarshal(data, &list); err != nil || list.Aliased == nil {
		return nil, nil, faultf(path, "is not a list of aliases; wanted {\"aliased\": [\"node "+
			"name\", …]}")
	}
	byName := make(map[string]graph.NodeID, len(g.Nodes))
	for i, n := range g.Nodes {
		byName[n.Name] = graph.NodeID(i)
	}
	aliased = make([]bool, len(g.Nodes))
	for _, name := range *list.Aliased {
		id, ok := byName[name]
		switch {
		case !ok || name == "":
			unknown = append(unknown, name)
		case g.Nodes[id].Input(0) == graph.NoValue || g.Nodes[id].Output(0) == graph.NoValue:
			return nil, nil, faultf(path, "node %q cannot alias: it has no first input or no first output", name)
		default:
			aliased[id] = true
		}
	}
	if n := len(*list.Aliased); float64(n-len(unknown)) < leastKnown*float64(n) {
		return nil, nil,
			faultf(path,
				"the model has only %d of the %d nodes in the list (the first missing one is %q); "+
					"the list is for another model", n-len(unknown), n, unknown[0])
	}
	return aliased, unknown, nil
}
