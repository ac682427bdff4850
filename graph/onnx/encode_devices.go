package onnx

import (
	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
)

func (e *encoder) configurations(list []graph.DeviceConfiguration) {
	for i := range list {
		c := &list[i]
		at := e.begin(modelConfiguration)
		e.raw(c.Extra)
		e.optText(configName, c.Name)
		e.optNumber(configNumDevices, int64(c.NumDevices))
		for _, name := range c.Devices {
			e.text(configDevice, name)
		}
		e.end(at)
	}
}

func (e *encoder) devices(g *graph.Graph, n *graph.Node) {
	for i := range n.Devices() {
		d := &n.Devices()[i]
		at := e.begin(nodeDevices)
		e.raw(d.Extra)
		e.optText(devicesConfiguration, d.Configuration)
		for k := range d.Sharding {
			e.sharding(g, n, &d.Sharding[k])
		}
		if d.Stage != graph.NoStage {
			e.number(devicesStage, d.Stage)
		}
		e.end(at)
	}
}

func (e *encoder) sharding(g *graph.Graph, n *graph.Node, s *graph.Sharding) {
	at := e.begin(devicesSharding)
	e.raw(s.Extra)
	e.optText(shardingTensor, g.ShardedTensor(n, s))
	e.numbers(shardingDevice, s.Devices)
	for i := range s.Groups {
		group := e.begin(shardingGroup)
		e.raw(s.Groups[i].Extra)
		e.optNumber(entryKey, s.Groups[i].Key)
		e.numbers(entryValue, s.Groups[i].Devices)
		e.end(group)
	}
	for i := range s.Axes {
		e.shardedAxis(&s.Axes[i])
	}
	e.end(at)
}

func (e *encoder) shardedAxis(a *graph.ShardedAxis) {
	at := e.begin(shardingAxis)
	e.raw(a.Extra)
	e.optNumber(axisAxis, a.Axis)
	for i := range a.Parts {
		p := &a.Parts[i]
		part := e.begin(axisPart)
		e.raw(p.Extra)
		switch p.Kind {
		case graph.BlockNumber:
			e.number(partBlocks, p.Blocks)
		case graph.BlockSymbol:
			e.text(partSymbol, p.Symbol)
		}
		e.optNumber(partShards, p.Shards)
		e.end(part)
	}
	e.end(at)
}

// numbers writes a repeated integer field, element by element, as readers of any version take it.
func (e *encoder) numbers(num protowire.Number, list []int64) {
	for _, v := range list {
		e.number(num, v)
	}
}
