package graph

// NodeID is the index of a node in Graph.Nodes.
type NodeID int32

// ValueID is the index of a value in Graph.Values.
type ValueID int32

// NoNode and NoValue stand for an absent node or value: the producer of a
// graph input, or an optional operand that is left out.
const (
	NoNode  NodeID  = -1
	NoValue ValueID = -1
)

// Kind identifies an operator. The kinds are the rows of the table in package
// graph/op, which alone gives them meaning; 0 is an operator without a row.
type Kind uint16

// Property is one entry of a metadata list.
type Property struct {
	Key, Value string
	Extra      []byte // wire fields besides the two
}
