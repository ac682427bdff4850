package autograd

import "memopt/graph"

// Device annotations: a gradient is made where its forward node runs, and is sharded like its
// value.

// annotate gives a new node the stages of the forward node whose rule is at work, and this node's
// shardings of operands that both have; the gradient of an output is sharded as the output is.
// Outside of rules, it gives the stages of the producer of its first input that has some.
func (j *joint) annotate(n *graph.Node) {
	if len(j.m.Configurations) == 0 {
		return
	}
	of := j.node
	if of == nil {
		of = j.owner
	}
	for i := 0; of == nil && i < len(n.Inputs); i++ {
		if v := n.Inputs[i]; v != None && j.g.Values[v].Def != graph.NoNode {
			if maker := j.g.Nodes[j.g.Values[v].Def]; len(maker.Devices()) > 0 {
				of = maker
			}
		}
	}
	if of == nil || len(of.Devices()) == 0 {
		return
	}
	n.InheritStages(of)
	if of == j.node {
		for i := range of.Devices() {
			j.shardAlike(n, of, &of.Devices()[i])
		}
	}
}

// shardAlike gives a node the shardings of a forward node's operands, and of their gradients.
func (j *joint) shardAlike(n, of *graph.Node, d *graph.NodeDevices) {
	for i := range d.Sharding {
		v := d.Sharding[i].Value(of)
		if v == None {
			continue
		}
		j.shard(n, v, d.Configuration, &d.Sharding[i])
		if d.Sharding[i].Operand < 0 && int(v) < len(j.grads) && j.grads[v] != None {
			j.shard(n, j.grads[v], d.Configuration, &d.Sharding[i])
		}
	}
}

// shard gives a node a sharding of v, in a configuration, if v is its operand and has no sharding
// yet.
func (j *joint) shard(n *graph.Node, v Value, configuration string, like *graph.Sharding) {
	s := *like
	s.Tensor, s.Operand = "", n.OperandOf(v)
	if s.Operand == graph.NoOperand {
		return
	}
	n.EditRare(func(r *graph.Rare) { r.Devices = graph.WithSharding(r.Devices, configuration, s) })
}

// shardGradient shards a gradient that a rule has just made as the input whose gradient it is.
func (j *joint) shardGradient(of *graph.Node, input int, g Value) {
	if len(j.m.Configurations) == 0 || j.g.Values[g].Def == graph.NoNode {
		return
	}
	x, maker := of.Inputs[input], j.g.Nodes[j.g.Values[g].Def]
	for _, d := range of.Devices() {
		for i := range d.Sharding {
			if d.Sharding[i].Value(of) == x {
				j.shard(maker, g, d.Configuration, &d.Sharding[i])
			}
		}
	}
}
