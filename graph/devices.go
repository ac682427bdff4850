package graph

import "slices"

// A model may assign its nodes to devices (IR version 11, "multi-device annotations"): the stage of
// a pipeline that a node is in, and how tensors are sharded. The meaning of a graph does not depend
// on it. The types here hold a file's statements, valid or not; [CheckDevices] says whether they
// are. Parts of them are shared between copies of a node and must not be edited in place.

// DeviceConfiguration is a set of devices that annotations of nodes refer to by its name.
type DeviceConfiguration struct {
	Name       string
	NumDevices int32
	Devices    []string // names, one for each device, or empty
	Extra      []byte
}

// NodeDevices is how a node runs in one device configuration.
type NodeDevices struct {
	Configuration string     // the name of a DeviceConfiguration
	Stage         int64      // of the pipeline; NoStage if the file states no stage
	Sharding      []Sharding // of the node's operands
	Extra         []byte
}

// NoStage is the stage of a node outside all stages.
const NoStage int64 = -1 << 63

// Sharding is how one operand of a node is divided among devices. Along each of Axes it is cut into
// shards; along the others each device has all of it.
type Sharding struct {
	// Operand identifies the operand: input i is i, output i is OutputOperand(i). A name of no
	// operand of the node is NoOperand, and Tensor has it; otherwise Tensor is empty, so that it
	// follows when operands are replaced.
	Operand int32
	Tensor  string
	Devices []int64       // devices, or keys of Groups
	Groups  []DeviceGroup // sets of devices that have the same shard
	Axes    []ShardedAxis
	Extra   []byte
}

// NoOperand is the Operand of a sharding whose tensor is no operand of its node.
const NoOperand int32 = -1 << 31

// OutputOperand is the Operand of a sharding of output i.
func OutputOperand(i int) int32 { return int32(-1 - i) }

// DeviceGroup names a set of devices.
type DeviceGroup struct {
	Key     int64
	Devices []int64
	Extra   []byte
}

// ShardedAxis is the sharding of one axis, counted from the end if negative. It has one part unless
// several axes have become one by a reshape.
type ShardedAxis struct {
	Axis  int64
	Parts []ShardedPart
	Extra []byte
}

// ShardedPart says that so many blocks are divided into so many shards.
type ShardedPart struct {
	Kind   BlockKind
	Blocks int64  // of BlockNumber
	Symbol string // of BlockSymbol
	Shards int64
	Extra  []byte
}

// BlockKind says how the blocks of a ShardedPart are given.
type BlockKind uint8

// Not at all, where the whole axis is meant; as a number; as a symbol.
const (
	BlockUnstated BlockKind = iota
	BlockNumber
	BlockSymbol
)

// Shards is into how many parts the axis is cut.
func (a *ShardedAxis) Shards() int64 {
	n := int64(1)
	for _, p := range a.Parts {
		n *= p.Shards
	}
	return n
}

// Value returns the operand that a sharding of the node is about, or NoValue.
func (s *Sharding) Value(n *Node) ValueID {
	switch {
	case s.Operand == NoOperand:
		return NoValue
	case s.Operand < 0:
		return n.Output(int(-1 - s.Operand))
	}
	return n.Input(int(s.Operand))
}

// OperandOf returns the Operand of a sharding of v at this node, NoOperand if v is not an operand
// of it. If two inputs are the same value, it is the first.
func (n *Node) OperandOf(v ValueID) int32 {
	if v == NoValue {
		return NoOperand
	}
	if i := slices.Index(n.Outputs, v); i >= 0 {
		return OutputOperand(i)
	}
	if i := slices.Index(n.Inputs, v); i >= 0 {
		return int32(i)
	}
	return NoOperand
}

// ResolveShardings turns the tensors that shardings name into operands of the node.
func (g *Graph) ResolveShardings(n *Node) {
	if n.rare == nil {
		return
	}
	for _, d := range n.rare.Devices {
		for i := range d.Sharding {
			s := &d.Sharding[i]
			if id, ok := g.Lookup(s.Tensor); ok && s.Operand == NoOperand {
				if s.Operand = n.OperandOf(id); s.Operand != NoOperand {
					s.Tensor = ""
				}
			}
		}
	}
}

// ShardedTensor is the name of the tensor that a sharding of a node is about.
func (g *Graph) ShardedTensor(n *Node, s *Sharding) string {
	if s.Operand == NoOperand {
		return s.Tensor
	}
	return g.ValueName(s.Value(n))
}

// Devices is Rare.Devices.
func (n *Node) Devices() []NodeDevices {
	if n.rare == nil {
		return nil
	}
	return n.rare.Devices
}

// Stage returns the node's stage of the pipeline in a configuration, or in any where the name is
// empty.
func (n *Node) Stage(configuration string) int64 {
	for i := range n.Devices() {
		d := &n.rare.Devices[i]
		if d.Stage != NoStage && (configuration == "" || d.Configuration == configuration) {
			return d.Stage
		}
	}
	return NoStage
}

// WithStages adds the stages of another node's annotations to a list, for the configurations that
// the list does not speak of.
func WithStages(list, other []NodeDevices) []NodeDevices {
	own := len(list)
	for i := range other {
		named := func(d NodeDevices) bool { return d.Configuration == other[i].Configuration }
		if other[i].Stage == NoStage || slices.ContainsFunc(list[:own], named) {
			continue
		}
		list = append(list[:len(list):len(list)],
			NodeDevices{Configuration: other[i].Configuration, Stage: other[i].Stage})
	}
	return list
}

// InheritStages gives the node the stages of another one in whose place it stands, for the
// configurations that its own annotations do not speak of.
func (n *Node) InheritStages(other *Node) {
	if len(other.Devices()) > 0 {
		n.EditRare(func(r *Rare) { r.Devices = WithStages(r.Devices, other.Devices()) })
	}
}

// WithSharding adds a sharding to a list's entry for a configuration, unless that has one of the
// same operand. It changes no part that other nodes may share.
func WithSharding(list []NodeDevices, configuration string, s Sharding) []NodeDevices {
	list = slices.Clone(list)
	i := slices.IndexFunc(list, func(d NodeDevices) bool { return d.Configuration == configuration })
	if i < 0 {
		return append(list, NodeDevices{Configuration: configuration, Stage: NoStage, Sharding: []Sharding{s}})
	}
	own := list[i].Sharding
	if !slices.ContainsFunc(own, func(o Sharding) bool { return o.Operand == s.Operand }) {
		list[i].Sharding = append(own[:len(own):len(own)], s)
	}
	return list
}
