package memopt_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/planner"
)

// TestDevicesSurvive: annotations are read, kept by differentiation and by a rewrite, whose clones
// run where their originals do and speak of their own operands, and written.
func TestDevicesSurvive(t *testing.T) {
	m, err := memopt.Example("mlp", memopt.Options{})
	require.NoError(t, err)
	m.Configurations = []graph.DeviceConfiguration{{Name: "pipe", NumDevices: 2}}
	for i, n := range m.Graph.Nodes {
		d := graph.NodeDevices{Configuration: "pipe", Stage: int64(2 * i / len(m.Graph.Nodes))}
		for slot := range n.Outputs {
			d.Sharding = append(d.Sharding, graph.Sharding{Operand: graph.OutputOperand(slot), Devices: []int64{0, 1}})
		}
		n.EditRare(func(r *graph.Rare) { r.Devices = []graph.NodeDevices{d} })
	}
	step, _, err := m.Training(autograd.Options{}, nil)
	require.NoError(t, err)
	p, err := step.Plan(t.Context(), memopt.Level(planner.Layerwise), memopt.PlanOptions{})
	require.NoError(t, err)
	r, err := p.Rewrite(memopt.RewriteOptions{})
	require.NoError(t, err)
	data, err := onnx.Encode(r.Model)
	require.NoError(t, err)
	back, err := onnx.Decode(data, "")
	require.NoError(t, err)
	require.Equal(t, m.Configurations[0].Name, back.Configurations[0].Name)
	stages, clones := map[string]int64{}, 0
	for _, n := range back.Graph.Nodes {
		stages[n.Name] = n.Stage("pipe")
		original, clone := strings.CutSuffix(n.Name, "_recompute")
		if !clone {
			continue
		}
		clones++
		assert.Equal(t, stages[original], n.Stage("pipe"), n.Name)
		for i := range n.Devices()[0].Sharding {
			s := &n.Devices()[0].Sharding[i]
			assert.Equal(t, back.Graph.ValueName(n.Output(i)), back.Graph.ShardedTensor(n, s), n.Name)
		}
	}
	assert.Positive(t, clones)
}
