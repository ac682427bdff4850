package onnx

import "memopt/graph"

// The multi-device annotations of IR version 11.

func (d *decoder) configuration(f *field, list *[]graph.DeviceConfiguration) error {
	r, err := f.sub("ModelProto.configuration")
	if err != nil {
		return err
	}
	var c graph.DeviceConfiguration
	err = r.each(func(f *field) error {
		switch f.num {
		case configName:
			return text(f, "DeviceConfigurationProto.name", &c.Name, &c.Extra)
		case configNumDevices:
			return number32(f, "DeviceConfigurationProto.num_devices", &c.NumDevices, &c.Extra)
		case configDevice:
			s, err := f.string("DeviceConfigurationProto.device")
			c.Devices = append(c.Devices, s)
			return err
		}
		keep(&c.Extra, f)
		return nil
	})
	*list = append(*list, c)
	return err
}

// number32 is number for a field of 32 bits; other decoders cut longer numbers to these.
func number32(f *field, what string, dst *int32, extra *[]byte) error {
	v, err := f.varint(what)
	if *dst = int32(v); *dst == 0 && err == nil {
		keep(extra, f)
	}
	return err
}

// devices reads an annotation of a node, whose operands are resolved afterwards.
func (d *decoder) devices(f *field, list *[]graph.NodeDevices) error {
	r, err := f.sub("NodeProto.device_configurations")
	if err != nil {
		return err
	}
	c := graph.NodeDevices{Stage: graph.NoStage}
	err = r.each(func(f *field) error {
		switch f.num {
		case devicesConfiguration:
			return d.label(f, "NodeDeviceConfigurationProto.configuration_id", &c.Configuration, &c.Extra)
		case devicesStage:
			v, err := f.varint("NodeDeviceConfigurationProto.pipeline_stage")
			c.Stage = int64(int32(v)) // 32 bits: other decoders cut longer numbers
			return err
		case devicesSharding:
			s, err := d.sharding(f)
			c.Sharding = append(c.Sharding, s)
			return err
		}
		keep(&c.Extra, f)
		return nil
	})
	*list = append(*list, c)
	return err
}

func (d *decoder) sharding(f *field) (graph.Sharding, error) {
	s := graph.Sharding{Operand: graph.NoOperand}
	r, err := f.sub("NodeDeviceConfigurationProto.sharding_spec")
	if err != nil {
		return s, err
	}
	return s, r.each(func(f *field) (err error) {
		switch f.num {
		case shardingTensor:
			return d.label(f, "ShardingSpecProto.tensor_name", &s.Tensor, &s.Extra)
		case shardingDevice:
			s.Devices, err = varints(s.Devices, f, "ShardingSpecProto.device")
		case shardingGroup:
			var g graph.DeviceGroup
			g, err = deviceGroup(f)
			s.Groups = append(s.Groups, g)
		case shardingAxis:
			var a graph.ShardedAxis
			a, err = d.shardedAxis(f)
			s.Axes = append(s.Axes, a)
		default:
			keep(&s.Extra, f)
		}
		return err
	})
}

func deviceGroup(f *field) (g graph.DeviceGroup, err error) {
	r, err := f.sub("ShardingSpecProto.index_to_device_group_map")
	if err != nil {
		return g, err
	}
	return g, r.each(func(f *field) (err error) {
		switch f.num {
		case entryKey:
			return number(f, "IntIntListEntryProto.key", &g.Key, &g.Extra)
		case entryValue:
			g.Devices, err = varints(g.Devices, f, "IntIntListEntryProto.value")
		default:
			keep(&g.Extra, f)
		}
		return err
	})
}

func (d *decoder) shardedAxis(f *field) (a graph.ShardedAxis, err error) {
	r, err := f.sub("ShardingSpecProto.sharded_dim")
	if err != nil {
		return a, err
	}
	return a, r.each(func(f *field) error {
		switch f.num {
		case axisAxis:
			return number(f, "ShardedDimProto.axis", &a.Axis, &a.Extra)
		case axisPart:
			p, err := d.shardedPart(f)
			a.Parts = append(a.Parts, p)
			return err
		}
		keep(&a.Extra, f)
		return nil
	})
}

// shardedPart reads a SimpleShardedDimProto: of its blocks, which are a oneof, the last counts.
func (d *decoder) shardedPart(f *field) (p graph.ShardedPart, err error) {
	r, err := f.sub("ShardedDimProto.simple_sharding")
	if err != nil {
		return p, err
	}
	return p, r.each(func(f *field) error {
		var unused []byte // Kind says that the field is there
		switch f.num {
		case partBlocks:
			p.Kind, p.Symbol = graph.BlockNumber, ""
			return number(f, "SimpleShardedDimProto.dim_value", &p.Blocks, &unused)
		case partSymbol:
			p.Kind, p.Blocks = graph.BlockSymbol, 0
			return d.label(f, "SimpleShardedDimProto.dim_param", &p.Symbol, &unused)
		case partShards:
			return number(f, "SimpleShardedDimProto.num_shards", &p.Shards, &p.Extra)
		}
		keep(&p.Extra, f)
		return nil
	})
}
