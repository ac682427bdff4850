package graph_test

import (
	"math"

	"memopt/graph"
)

// Device annotations of random models: most are not valid, and none may be lost.

func (r *anything) configurations() (list []graph.DeviceConfiguration) {
	for range r.IntN(3) {
		c := graph.DeviceConfiguration{Name: r.word(), Extra: r.extra(),
			NumDevices: pick[int32](r, 0, 2, -1, math.MaxInt32)}
		for range r.IntN(3) {
			c.Devices = append(c.Devices, r.word())
		}
		list = append(list, c)
	}
	return list
}

func (r *anything) int64s() (list []int64) {
	for range r.IntN(3) {
		list = append(list, pick[int64](r, 0, 1, -1, math.MaxInt64, math.MinInt64))
	}
	return list
}

func (r *anything) devices() (list []graph.NodeDevices) {
	if r.IntN(3) > 0 {
		return nil
	}
	for range r.IntN(3) {
		d := graph.NodeDevices{Configuration: r.word(), Extra: r.extra(),
			Stage: pick[int64](r, graph.NoStage, 0, 1, math.MinInt32, math.MaxInt32)}
		for range r.IntN(3) {
			d.Sharding = append(d.Sharding, r.sharding())
		}
		list = append(list, d)
	}
	return list
}

func (r *anything) sharding() graph.Sharding {
	s := graph.Sharding{Operand: graph.NoOperand, Tensor: r.word(), Devices: r.int64s(), Extra: r.extra()}
	for range r.IntN(3) {
		s.Groups = append(s.Groups, graph.DeviceGroup{Key: int64(r.IntN(3)), Devices: r.int64s(), Extra: r.extra()})
	}
	for range r.IntN(3) {
		a := graph.ShardedAxis{Axis: pick[int64](r, 0, -1, math.MaxInt64), Extra: r.extra()}
		for range r.IntN(3) {
			part := graph.ShardedPart{Shards: int64(r.IntN(3)), Extra: r.extra()}
			switch part.Kind = graph.BlockKind(r.IntN(3)); part.Kind {
			case graph.BlockNumber:
				part.Blocks = int64(r.IntN(3))
			case graph.BlockSymbol:
				part.Symbol = r.word()
			}
			a.Parts = append(a.Parts, part)
		}
		s.Axes = append(s.Axes, a)
	}
	return s
}
