package onnx

import "memopt/graph"

// Size returns how many bytes a model takes: those of its file, and those of the contents that lie
// outside of it. Contents that several tensors share in external data count once.
func Size(m *graph.Model) (file, outside int64, err error) {
	e, err := encode(m, nil)
	if err != nil {
		return 0, 0, err
	}
	seen := map[graph.External]bool{}
	return e.size, outsideOf(m.Graph, seen), nil
}

// outsideOf sums up the contents of a graph that lie outside the file, and notes them.
func outsideOf(g *graph.Graph, seen map[graph.External]bool) (sum int64) {
	tensor := func(t *graph.TensorData) {
		if t == nil || t.External == nil {
			return
		}
		n, err := t.Bytes()
		key := graph.External{Location: t.External.Location, Offset: t.External.Offset, Length: n}
		if err == nil && !seen[key] {
			seen[key] = true
			sum += n
		}
	}
	for _, v := range g.Initializers {
		tensor(g.Values[v].Data)
	}
	for _, n := range g.Nodes {
		for i := range n.Attrs {
			if t, ok := n.Attrs[i].Value.(*graph.TensorData); ok {
				tensor(t)
			}
		}
		n.Subgraphs(func(_ string, sub *graph.Graph) { sum += outsideOf(sub, seen) })
	}
	return sum
}
