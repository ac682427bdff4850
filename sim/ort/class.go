package ort

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"strings"

	"memopt/graph"
)

// classKey is a digest of a node's operator and attributes.
type classKey [sha256.Size]byte

// classOf digests the properties of a node that determine its results on given inputs.
func classOf(n *graph.Node) classKey {
	h := sha256.New()
	fmt.Fprintf(h, "%d %q %q %d", n.Kind, n.Domain, n.Rare().Overload, len(n.Outputs))
	attrs := n.Attrs
	if len(attrs) > 1 {
		attrs = slices.Clone(attrs)
		slices.SortFunc(attrs, func(x, y graph.Attr) int { return strings.Compare(x.Name, y.Name) })
	}
	for i := range attrs {
		fmt.Fprintf(h, " %q=%T", attrs[i].Name, attrs[i].Value)
		digest(h, attrs[i].Value)
	}
	return classKey(h.Sum(nil))
}

// digest adds the value of an attribute to a digest: for tensors their contents, or where these
// lie.
func digest(h hash.Hash, value any) {
	switch v := value.(type) {
	case *graph.TensorData:
		digestTensor(h, v)
	case []*graph.TensorData:
		for _, t := range v {
			digestTensor(h, t)
		}
	case *graph.Sparse:
		digestSparse(h, v)
	case []*graph.Sparse:
		for _, s := range v {
			digestSparse(h, s)
		}
	case string:
		fmt.Fprintf(h, "%q", v)
	case []string:
		fmt.Fprintf(h, "%q", v)
	default:
		fmt.Fprintf(h, "%v", v)
	}
}

func digestSparse(h hash.Hash, s *graph.Sparse) {
	if s == nil {
		return
	}
	fmt.Fprintf(h, "sparse %v", s.Dims)
	digestTensor(h, s.Values)
	digestTensor(h, s.Indices)
}

// digestTensor adds a tensor. Contents outside the file are not read: their place stands for them.
func digestTensor(h hash.Hash, t *graph.TensorData) {
	if t == nil {
		return
	}
	fmt.Fprintf(h, "tensor %q %d %v %q", t.Name, t.DType, t.Dims, t.Strings)
	if t.External != nil {
		fmt.Fprintf(h, " at %+v", *t.External)
		return
	}
	if t.Source == nil {
		return
	}
	raw, err := t.Source.Bytes()
	if err != nil {
		fmt.Fprintf(h, " %v", err) // whoever needs the contents says so
	}
	fmt.Fprintf(h, " %d ", len(raw))
	h.Write(raw)
}
