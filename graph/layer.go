package graph

import (
	"cmp"
	"regexp"
	"strings"
)

// NoLayer stands for the layer of names that mention no layer.
const NoLayer = "(other)"

// layerNumber finds the first path component of a name that is, or ends in, a number:
// the "h.0" of /transformer/h.0/attn/Softmax.
var layerNumber = regexp.MustCompile(`^(.*?[A-Za-z_]+[._]?\d+)(?:[/.]|$)`)

// LayerOf returns the layer that a node's name mentions, as exporters name nodes: the path up to
// the first component with a number, else the whole path. It is NoLayer for a name without a path.
func LayerOf(name string) string {
	dir := name
	if i := strings.LastIndexAny(name, "/"); i >= 0 {
		dir = name[:i]
	} else if i := strings.LastIndexByte(name, '.'); i >= 0 {
		dir = name[:i]
	} else {
		return NoLayer
	}
	if m := layerNumber.FindStringSubmatch(dir); m != nil {
		return m[1]
	}
	return cmp.Or(dir, NoLayer)
}

// LayerOfValue is the layer of the node that makes a value, or, where no node does, the one that the
// value's own name mentions.
func (g *Graph) LayerOfValue(id ValueID) string {
	v := &g.Values[id]
	if v.Def == NoNode {
		return LayerOf(v.Name)
	}
	return LayerOf(g.NodeLabel(v.Def))
}
