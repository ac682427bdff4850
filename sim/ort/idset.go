package ort

import "math/bits"

// setID names a set of numbers held by idSets. Equal sets have equal names.
type setID uint32

const emptySet setID = 0

// idSets holds sets of numbers as big-endian Patricia trees with shared, unique
// nodes (Okasaki and Gill, Fast Mergeable Integer Maps, 1998). Chains of nodes that lead
// to ever more outputs would need quadratic space as lists or bitmaps; here a
// set that has one number more than another shares all but a path with it.
type idSets struct {
	nodes  []idNode
	intern map[idNode]setID
	unions map[[2]setID]setID
}

// idNode is a leaf (bit 0) that holds a number, or a branch: the numbers in left agree
// with prefix above bit and have a 0 there, those in right a 1.
type idNode struct {
	prefix      uint32
	bit         uint32
	left, right setID
}

func newIDSets() *idSets {
	return &idSets{nodes: make([]idNode, 1), intern: map[idNode]setID{}, unions: map[[2]setID]setID{}}
}

func (s *idSets) make(n idNode) setID {
	if id, ok := s.intern[n]; ok {
		return id
	}
	id := setID(len(s.nodes))
	s.nodes = append(s.nodes, n)
	s.intern[n] = id
	return id
}

// single returns the set {x}.
func (s *idSets) single(x uint32) setID { return s.make(idNode{prefix: x}) }

// above clears the given bit and those below it.
func above(x, bit uint32) uint32 { return x &^ (bit | (bit - 1)) }

// join puts two disjoint trees with different prefixes under one branch.
func (s *idSets) join(a, b setID) setID {
	pa, pb := s.nodes[a].prefix, s.nodes[b].prefix
	bit := uint32(1) << (31 - bits.LeadingZeros32(pa^pb))
	if pa&bit != 0 {
		a, b = b, a
	}
	return s.make(idNode{prefix: above(pa, bit), bit: bit, left: a, right: b})
}

// union returns a ∪ b.
func (s *idSets) union(a, b setID) setID {
	switch {
	case a == b || b == emptySet:
		return a
	case a == emptySet:
		return b
	case a > b:
		a, b = b, a
	}
	if u, ok := s.unions[[2]setID{a, b}]; ok {
		return u
	}
	u := s.merge(a, b)
	s.unions[[2]setID{a, b}] = u
	return u
}

func (s *idSets) merge(a, b setID) setID {
	na, nb := s.nodes[a], s.nodes[b]
	if na.bit < nb.bit {
		a, b, na, nb = b, a, nb, na
	}
	switch {
	case na.bit == nb.bit && na.prefix == nb.prefix:
		if na.bit == 0 {
			return a
		}
		return s.make(idNode{na.prefix, na.bit, s.union(na.left, nb.left), s.union(na.right, nb.right)})
	case na.bit == nb.bit || above(nb.prefix, na.bit) != na.prefix:
		return s.join(a, b)
	case nb.prefix&na.bit == 0:
		return s.make(idNode{na.prefix, na.bit, s.union(na.left, b), na.right})
	}
	return s.make(idNode{na.prefix, na.bit, na.left, s.union(na.right, b)})
}
