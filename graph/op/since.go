package op

import "memopt/graph"

// widening is the first version of ONNX's operator set behind which an operator's schema only changes
// by more element types, inputs or attributes that may be left out, but for the operators of redefined:
// a node of an older version is a node of the newer one (ONNX's Changelog.md).
const widening = 19

// redefined has the versions, from widening on, that change the meaning of nodes of an older version.
var redefined = map[string]int64{
	"DFT":                20, // the axis became an input, and the last one the default
	"GridSample":         20, // the modes have other names
	"GroupNormalization": 21, // scale and bias by channel, no longer by group
	"Attention":          24,
}

// sameIn reports whether a node of one version of its domain means the same in another. It is false for
// operators that are not in the table.
func sameIn(n *graph.Node, from, to int64) bool {
	domain := graph.CanonicalDomain(n.Domain)
	kind := byName.of(opKey{domain, n.Op})
	if kind == Unknown {
		return false
	}
	info := &table[kind]
	if info.SinceVersion(from) == 0 || info.SinceVersion(to) == 0 {
		return false
	}
	for _, v := range info.Since {
		v := int64(v)
		switch {
		case v > from && v <= to && (domain != "" || v < widening || redefined[n.Op] == v):
			return false
		case v > to && v <= from:
			return false // it may use a feature of the newer version
		}
	}
	return true
}
