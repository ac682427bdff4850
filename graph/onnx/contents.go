package onnx

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/internal/mapfile"
)

// ContentsSHA256 returns the SHA-256, in hexadecimal, of the contents that StructureSHA256 leaves
// out: those of the main graph's initializers, sparse ones included, in the order of their names, but
// for those whose names skip says true of; and those of tensors in attributes of the main graph's
// nodes and of the graphs in them, in the order of the nodes, and of the functions'. Each comes with
// its element type and dims. Two models of equal structure and equal contents compute the same, once
// those that are skipped are equal, too.
func ContentsSHA256(m *graph.Model, skip func(name string) bool) (text string, err error) {
	defer mapfile.Guard(&err)()
	c := &contents{s: structure{h: sha256.New()}}
	c.s.text("memopt.contents/v1")
	c.initializers(m.Graph, skip)
	c.nodes(m.Graph)
	for _, f := range m.Functions {
		for i := range f.AttrDefaults {
			c.attr(f.AttrDefaults[i].Value)
		}
		c.nodes(f.Body)
	}
	c.s.flush()
	return hex.EncodeToString(c.s.h.Sum(nil)), c.err
}

// contents feeds a hash with tensors. After an error it ignores them.
type contents struct {
	s   structure
	err error
}

// initializers feeds the initializers of a graph.
func (c *contents) initializers(g *graph.Graph, skip func(name string) bool) {
	list := slices.Concat(g.Initializers, g.Sparse)
	slices.SortFunc(list, func(a, b graph.ValueID) int {
		return cmp.Compare(g.ValueName(a), g.ValueName(b))
	})
	for _, v := range list {
		name := g.ValueName(v)
		if skip(name) {
			continue
		}
		c.s.text(name)
		if t := g.Values[v].Data; t != nil {
			c.tensor(t)
		} else {
			c.sparse(g.Values[v].SparseData)
		}
	}
}

// nodes feeds the tensors in nodes' attributes.
func (c *contents) nodes(g *graph.Graph) {
	for _, n := range g.Nodes {
		for i := range n.Attrs {
			c.attr(n.Attrs[i].Value)
		}
	}
}

func (c *contents) attr(value any) {
	switch v := value.(type) {
	case *graph.TensorData:
		c.tensor(v)
	case *graph.Sparse:
		c.sparse(v)
	case *graph.Graph:
		c.graph(v)
	case []*graph.TensorData:
		for _, t := range v {
			c.tensor(t)
		}
	case []*graph.Sparse:
		for _, t := range v {
			c.sparse(t)
		}
	case []*graph.Graph:
		for _, g := range v {
			c.graph(g)
		}
	}
}

// graph feeds a graph in an attribute.
func (c *contents) graph(g *graph.Graph) {
	c.initializers(g, func(string) bool { return false })
	c.nodes(g)
}

func (c *contents) sparse(t *graph.Sparse) {
	c.s.ints(t.Dims)
	c.tensor(t.Values)
	c.tensor(t.Indices)
}

func (c *contents) tensor(t *graph.TensorData) {
	if c.err != nil {
		return
	}
	c.s.int(int64(t.DType))
	c.s.ints(t.Dims)
	hashAll(&c.s, t.Strings, c.s.text)
	if t.Source == nil {
		return
	}
	data, err := t.Source.Bytes()
	if err != nil {
		c.err = fmt.Errorf("tensor %q: %w", t.Name, err)
		return
	}
	c.s.list(len(data))
	c.s.flush()
	c.s.h.Write(data)
}
