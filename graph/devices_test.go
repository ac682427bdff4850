package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// annotated is a model of two stages; the first node's annotation stands for %s.
const annotated = `<ir_version: 11, opset_import: ["": 17], configuration: ["pair" : 2 ["a", "b"], "lone" : 1 []]>
g (float[batch, 8] x, float[8, 4] w) => (float[batch, 4] z) {
  <device_configurations: [%s]> [first] y = MatMul (x, w)
  <device_configurations: ["pair" @ 1 [], "lone" []]> [second] z = Relu (y)
}`

func TestCheckDevices(t *testing.T) {
	for _, c := range []struct{ devices, want string }{
		{`"pair" @ 0 ["w" [0, 1] {} [-1: [4 : 2]], "y" [0, 1] {} [1: [? : 2]]]`, ""},
		{`"pair" @ 0 ["x" [-1] {-1: [0, 1]} []]`, ""},
		{`"pair" ["x" [0, 1] {} [0: ["batch" : 2]]]`, ""},
		{`"pair" ["w" [0, 1] {} [0: [4 : 2, 2 : 2]]]`, ""},
		{`"pairs" @ 0 []`, `configuration_id is "pairs", which the model has no configuration of`},
		{`"pair" @ -1 []`, `pipeline_stage is -1, wanted 0 or more`},
		{`"pair" ["v" [0] {} []]`, `sharding of "v": the node has no operand of that name`},
		{`"pair" ["z" [0] {} []]`, `sharding of "z": the node has no operand of that name`},
		{`"pair" ["x" [2] {} []]`, `device 2; configuration "pair" has devices 0 to 1, and no group has that key`},
		{`"pair" ["x" [-1] {-2: [0]} []]`, `device -1; configuration "pair" has`},
		{`"pair" ["x" [7] {7: [0, 5]} []]`, `device 5; configuration "pair" has`},
		{`"pair" ["w" [0, 1] {} [2: [? : 2]]]`, `axis 2; the tensor has rank 2`},
		{`"pair" ["w" [0, 1] {} [-3: [? : 2]]]`, `axis -3; the tensor has rank 2`},
		{`"pair" ["w" [0, 1] {} [1: [? : 2], -1: [? : 2]]]`, `axis 1 is sharded twice`},
		{`"pair" ["w" [0, 1] {} [1: []]]`, `axis 1 has no simple_sharding`},
		{`"pair" ["w" [0, 1] {} [1: [? : 0]]]`, `axis 1: num_shards is 0, wanted 1 to`},
		{`"pair" ["w" [0, 1] {} [1: [? : 1000000, ? : 1000000]]]`, `num_shards is 1000000, wanted 1 to 1073`},
		{`"pair" ["w" [0, 1] {} [1: [? : 5]]]`, `axis 1: 5 shards of a dim of 4`},
	} {
		err := graph.CheckDevices(parse(t, fmt.Sprintf(annotated, c.devices)))
		if c.want == "" {
			assert.NoError(t, err, c.devices)
			continue
		}
		assert.ErrorContains(t, err, c.want, c.devices)
		assert.ErrorContains(t, err, `node "first" (MatMul): device_configurations 0: `, c.devices)
	}
	for _, c := range []struct{ list, want string }{
		{`["" : 1 []]`, "device configuration 0 has no name"},
		{`["a" : 1 [], "a" : 1 []]`, `device configuration "a" is listed twice`},
		{`["a" : 0 []]`, `num_devices is 0, wanted 1 or more`},
		{`["a" : 3 ["x", "y"]]`, `it names 2 devices, and num_devices is 3`},
	} {
		text := `<ir_version: 11, configuration: ` + c.list + `> g (float[1] x) => (float[1] y) { y = Neg (x) }`
		assert.ErrorContains(t, graph.CheckDevices(parse(t, text)), c.want)
	}
}

func TestStage(t *testing.T) {
	m := parse(t, fmt.Sprintf(annotated, `"lone" @ 3 [], "pair" @ 0 []`))
	first, second := m.Graph.Nodes[0], m.Graph.Nodes[1]
	assert.Equal(t, []int64{3, 0, 3}, []int64{first.Stage("lone"), first.Stage("pair"), first.Stage("")})
	assert.Equal(t, []int64{graph.NoStage, 1}, []int64{second.Stage("lone"), second.Stage("")})
	assert.Equal(t, graph.NoStage, (&graph.Node{}).Stage(""))
}

// TestShardingFollows: a sharding is of an operand, whatever value that is; copies share nothing
// that is edited.
func TestShardingFollows(t *testing.T) {
	m := parse(t, fmt.Sprintf(annotated, `"pair" @ 0 ["x" [0, 1] {} [], "y" [0, 1] {} [], "odd" [0] {} []]`))
	n := m.Graph.Nodes[0]
	n.Inputs[0] = m.Graph.Inputs[1].Value
	var names []string
	for i := range n.Devices()[0].Sharding {
		names = append(names, m.Graph.ShardedTensor(n, &n.Devices()[0].Sharding[i]))
	}
	assert.Equal(t, []string{"w", "y", "odd"}, names)
	list := graph.WithSharding(n.Devices(), "pair", graph.Sharding{Operand: 1})
	assert.Len(t, list[0].Sharding, 4)
	assert.Len(t, graph.WithSharding(list, "pair", graph.Sharding{Operand: 1})[0].Sharding, 4)
	assert.Len(t, n.Devices()[0].Sharding, 3, "the original has changed")
	assert.Len(t, graph.WithSharding(n.Devices(), "lone", graph.Sharding{Operand: 1}), 2)
}

// TestInlinedStages: what a call becomes runs in the stage of the call, unless it says otherwise.
func TestInlinedStages(t *testing.T) {
	m := parse(t, `<ir_version: 11, opset_import: ["": 17, "l": 1], configuration: ["pair" : 2 []]>
g (float[4] x) => (float[4] y) {
  <device_configurations: ["pair" @ 2 ["x" [0, 1] {} [0: [4 : 2]]]]> [call] y = l.f (x)
}
<domain: "l", opset_import: ["": 17]> f (a) => (c) {
  [in] b = Neg (a)
  <device_configurations: ["pair" @ 5 ["b" [0] {} []]]> [own] c = Abs (b)
}`)
	_, err := graph.InlineFunctions(m, nil)
	require.NoError(t, err)
	require.Len(t, m.Graph.Nodes, 2)
	assert.EqualValues(t, 2, m.Graph.Nodes[0].Stage("pair"))
	assert.EqualValues(t, 5, m.Graph.Nodes[1].Stage("pair"))
	own := m.Graph.Nodes[1]
	assert.Equal(t, m.Graph.ValueName(own.Inputs[0]), m.Graph.ShardedTensor(own, &own.Devices()[0].Sharding[0]))
	assert.NotContains(t, graph.Format(m, everything), `"x" [0`)
}

// TestSplicedStages: a branch that is always taken runs in the stage of its If.
func TestSplicedStages(t *testing.T) {
	m := parse(t, strings.ReplaceAll(`<ir_version: 11, opset_import: ["": 17], configuration: ["pair" : 2 []]>
g (bool c, float[4] x) => (float[4] y) {
  <device_configurations: ["pair" @ 2 []]> [if] y = If (c) <then_branch = yes () => (float[4] p) { p = Neg (x) },
    else_branch = no () => (float[4] q) { q = Abs (x) }>
}`, "\t", " "))
	names := graph.NewNames(m)
	_, err := names.Splice(m.Graph, func(n *graph.Node) *graph.Graph { return n.GraphAttr("then_branch") })
	require.NoError(t, err)
	require.Equal(t, "Neg", m.Graph.Nodes[0].Op)
	assert.EqualValues(t, 2, m.Graph.Nodes[0].Stage("pair"))
}
