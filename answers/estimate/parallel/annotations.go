package parallel

import (
	"fmt"

	"memopt/graph"
	"memopt/hint"
)

// ShardError is an annotation of the file that contradicts itself, the model, or the layout.
type ShardError struct{ Err error }

func (e *ShardError) Error() string { return e.Err.Error() }

func (e *ShardError) Unwrap() error { return e.Err }

// annotations takes the shardings of a model's file, if it has some, in place of Megatron's rule:
// values that annotations shard are divided so, and parameters that no annotation shards stay whole.
func (d *divider) annotations() (any bool, err error) {
	for _, n := range d.g.Nodes {
		for _, conf := range n.Devices() {
			for i := range conf.Sharding {
				found, err := d.annotation(n, &conf.Sharding[i])
				if err != nil {
					return false, &ShardError{fmt.Errorf("node %q (%s): sharding of %q: %w", d.g.NodeLabel(n.ID), n.Op,
						d.g.ShardedTensor(n, &conf.Sharding[i]), err)}
				}
				any = any || found
			}
		}
	}
	if !any {
		return false, nil
	}
	for _, p := range d.params {
		if d.fixed[p] {
			continue
		}
		d.ban[p] = "no annotation shards it"
	}
	d.annotated = true
	d.reset()
	for _, p := range d.params {
		if d.fixed[p] {
			d.role[p] = "sharded by the file"
		}
	}
	return true, nil
}

// annotation notes the division of a value by a sharding; axes that are cut into one shard are not
// divided.
func (d *divider) annotation(n *graph.Node, s *graph.Sharding) (found bool, err error) {
	v := s.Value(n)
	for i := range s.Axes {
		a := &s.Axes[i]
		shards := a.Shards()
		if shards == 1 {
			continue
		}
		c := cut{kind: tensor, axis: normal(a.Axis, len(d.dims[v]))}
		switch {
		case shards != d.ways:
			return false, fmt.Errorf("%d shards, and %v is %d; they have to agree", shards,
				hint.TensorParallel, d.ways)
		case found || d.fixed[v] && d.fixes[v] != c:
			return false, fmt.Errorf("it is sharded along two axes, or otherwise at another node: " +
				"one axis is supported")
		case d.dims[v] == nil:
			return false, fmt.Errorf("its dims are not known")
		}
		found = true
		d.fixed[v], d.fixes[v] = true, c
	}
	return found, nil
}
