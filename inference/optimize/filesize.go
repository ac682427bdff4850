package optimize

import (
	"math/bits"

	"memopt/graph"
)

// varint is how many bytes a number takes in a file.
func varint(n int64) int64 { return int64(bits.Len64(uint64(n)|1)+6) / 7 }

// field is how many bytes a text or a message of a length takes as a field.
func field(length int64) int64 { return 1 + varint(length) + length }

// text is how many bytes a text takes.
func text(s string) int64 {
	if s == "" {
		return 0
	}
	return field(int64(len(s)))
}

// tensorBytes is how many bytes a tensor takes, which has its contents as raw data.
func tensorBytes(name string, dims []int64, contents int64) int64 {
	const dtype = 2
	sum := dtype + text(name) + field(contents)
	for _, d := range dims {
		sum += 1 + varint(d)
	}
	return sum
}

// nodeBytes is how many bytes a node takes, at least: attributes other than tensors count with their
// names alone.
func nodeBytes(g *graph.Graph, n *graph.Node) int64 {
	sum := text(n.Name) + text(n.Op) + text(n.Domain)
	for _, list := range [][]graph.ValueID{n.Inputs, n.Outputs} {
		for _, v := range list {
			sum += field(int64(len(g.ValueName(v))))
		}
	}
	for i := range n.Attrs {
		const kind = 3
		attr := kind + text(n.Attrs[i].Name)
		if t, ok := n.Attrs[i].Value.(*graph.TensorData); ok && t != nil {
			b, _ := t.Bytes()
			attr += field(tensorBytes("", t.Dims, b))
		}
		sum += field(attr)
	}
	return field(sum)
}
