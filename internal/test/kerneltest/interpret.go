package kerneltest

import (
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/op"
)

// Interpret runs a model in the plainest way: node after node in topological order, every value in
// its own memory. It is a second opinion on the results of a session with a planned arena. Types
// are inferred first. Subgraphs are not run. For an accelerator, the host's device runs it.
func Interpret(d executor.Device, m *graph.Model, inputs map[string]*executor.Tensor) ([]*executor.Tensor, error) {
	if a, ok := d.(executor.Accelerator); ok {
		d = a.Host()
	}
	if _, err := op.InferAsIs(m); err != nil {
		return nil, err
	}
	order, err := graph.Topological(m.Graph)
	if err != nil {
		return nil, err
	}
	pool := executor.NewPool(1)
	defer pool.Close()
	values := make([]*executor.Tensor, len(m.Graph.Values))
	for i := range m.Graph.Values {
		v := &m.Graph.Values[i]
		if t := inputs[v.Name]; t != nil && v.Input {
			values[i] = t
		} else if v.Data != nil {
			if values[i], err = dataset.FromData(v.Data); err != nil {
				return nil, err
			}
		}
	}
	for _, id := range order {
		if err := interpretNode(d, m, id, values, pool); err != nil {
			return nil, err
		}
	}
	var outs []*executor.Tensor
	for _, o := range m.Graph.Outputs {
		outs = append(outs, values[o.Value])
	}
	return outs, nil
}

func interpretNode(
	d executor.Device, m *graph.Model, id graph.NodeID, values []*executor.Tensor, pool *executor.Pool,
) error {
	n := m.Graph.Nodes[id]
	info := op.Of(n.Kind)
	p := &executor.Prep{Node: n, Label: m.Graph.NodeLabel(id), Info: info, Seed: uint64(id), Threads: pool.Threads(),
		Version: info.VersionOf(n, graph.OpsetVersion(m.Opsets, info.Domain))}
	var in, out []*executor.Tensor
	for slot, v := range n.Inputs {
		if v == graph.NoValue {
			in, p.In = append(in, nil), append(p.In, graph.Undefined)
			continue
		}
		if values[v] == nil {
			return p.Errorf("input %d (%q) has no data", slot, m.Graph.Values[v].Name)
		}
		in, p.In = append(in, values[v]), append(p.In, values[v].DType)
	}
	for _, v := range n.Outputs {
		if v == graph.NoValue {
			out, p.Out = append(out, nil), append(p.Out, graph.Undefined)
			continue
		}
		values[v] = &executor.Tensor{DType: m.Graph.Values[v].Type.DType}
		out, p.Out = append(out, values[v]), append(p.Out, values[v].DType)
	}
	k, err := d.Kernel(p)
	if err != nil {
		return err
	}
	return executor.Invoke(k, executor.NewCtx(p, pool, &memory{inPlace: -1}, in, out))
}
