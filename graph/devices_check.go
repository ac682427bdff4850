package graph

import (
	"fmt"
	"slices"
)

// CheckDevices holds the device annotations of a model to the definition of IR version 11 and
// returns the first contradiction: a configuration that the model does not have, a tensor that is
// no operand of its node, an axis that the tensor does not have, a device outside the
// configuration, a count of shards below 1 or above the axis.
func CheckDevices(m *Model) error {
	c := deviceChecker{m: m}
	for i := range m.Configurations {
		if err := c.configuration(i); err != nil {
			return err
		}
	}
	return c.graph(m.Graph)
}

type deviceChecker struct {
	m *Model
	g *Graph
}

func (c *deviceChecker) configuration(i int) error {
	d := &c.m.Configurations[i]
	same := func(o DeviceConfiguration) bool { return o.Name == d.Name }
	switch {
	case d.Name == "":
		return fmt.Errorf("device configuration %d has no name", i)
	case slices.IndexFunc(c.m.Configurations, same) != i:
		return fmt.Errorf("device configuration %q is listed twice", d.Name)
	case d.NumDevices < 1:
		return fmt.Errorf("device configuration %q: num_devices is %d, wanted 1 or more", d.Name, d.NumDevices)
	case len(d.Devices) > 0 && len(d.Devices) != int(d.NumDevices):
		return fmt.Errorf("device configuration %q: it names %d devices, and num_devices is %d",
			d.Name, len(d.Devices), d.NumDevices)
	}
	return nil
}

func (c *deviceChecker) graph(g *Graph) error {
	for id, n := range g.Nodes {
		c.g = g
		for k := range n.Devices() {
			if err := c.node(n, &n.rare.Devices[k]); err != nil {
				return fmt.Errorf("node %q (%s): device_configurations %d: %w", g.NodeLabel(NodeID(id)), n.Op, k, err)
			}
		}
		var err error
		n.Subgraphs(func(_ string, sub *Graph) {
			if err == nil {
				err = c.graph(sub)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *deviceChecker) node(n *Node, d *NodeDevices) error {
	named := func(o DeviceConfiguration) bool { return o.Name == d.Configuration }
	at := slices.IndexFunc(c.m.Configurations, named)
	if at < 0 {
		return fmt.Errorf("configuration_id is %q, which the model has no configuration of", d.Configuration)
	}
	if d.Stage != NoStage && d.Stage < 0 {
		return fmt.Errorf("pipeline_stage is %d, wanted 0 or more", d.Stage)
	}
	for i := range d.Sharding {
		if err := c.sharding(n, &d.Sharding[i], &c.m.Configurations[at]); err != nil {
			return fmt.Errorf("sharding of %q: %w", c.g.ShardedTensor(n, &d.Sharding[i]), err)
		}
	}
	return nil
}

func (c *deviceChecker) sharding(n *Node, s *Sharding, conf *DeviceConfiguration) error {
	v := s.Value(n)
	if v == NoValue {
		return fmt.Errorf("the node has no operand of that name")
	}
	for _, device := range s.Devices {
		if err := s.checkDevice(device, conf); err != nil {
			return err
		}
	}
	var seen []int64
	shape := c.g.Values[v].Type.Shape
	for i := range s.Axes {
		axis, err := s.Axes[i].check(shape)
		if err != nil {
			return err
		}
		if slices.Contains(seen, axis) {
			return fmt.Errorf("axis %d is sharded twice", axis)
		}
		seen = append(seen, axis)
	}
	return nil
}

// checkDevice checks a device, or those of the group that it stands for.
func (s *Sharding) checkDevice(device int64, conf *DeviceConfiguration) error {
	list := []int64{device}
	for i := range s.Groups {
		if s.Groups[i].Key == device {
			list = s.Groups[i].Devices
		}
	}
	for _, d := range list {
		if d < 0 || d >= int64(conf.NumDevices) {
			return fmt.Errorf("device %d; configuration %q has devices 0 to %d, and no group has that key",
				d, conf.Name, conf.NumDevices-1)
		}
	}
	return nil
}

// check returns the axis, counted from the front where the rank is known.
func (a *ShardedAxis) check(shape Shape) (int64, error) {
	axis, rank := a.Axis, int64(shape.Rank())
	if shape.Ranked {
		if axis < -rank || axis >= rank {
			return axis, fmt.Errorf("axis %d; the tensor has rank %d", axis, rank)
		}
		if axis < 0 {
			axis += rank
		}
	}
	if len(a.Parts) == 0 {
		return axis, fmt.Errorf("axis %d has no simple_sharding", axis)
	}
	shards := int64(1)
	for i := range a.Parts {
		n := a.Parts[i].Shards
		if n < 1 || n > maxShards/shards {
			return axis, fmt.Errorf("axis %d: num_shards is %d, wanted 1 to %d", axis, n, maxShards/shards)
		}
		shards *= n
	}
	if shape.Ranked {
		if dim, ok := shape.Dims[axis].Const(); ok && shards > dim {
			return axis, fmt.Errorf("axis %d: %d shards of a dim of %d", axis, shards, dim)
		}
	}
	return axis, nil
}

// maxShards bounds the product of shards of an axis: more devices than any machine has.
const maxShards = 1 << 30
