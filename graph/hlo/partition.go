package hlo

import (
	"strconv"
	"strings"
)

// collectives are the opcodes of values that cross devices.
var collectives = map[string]bool{"all-gather": true, "all-reduce": true, "all-to-all": true,
	"collective-broadcast": true, "collective-permute": true, "partition-id": true, "ragged-all-to-all": true,
	"reduce-scatter": true}

// IsSharding reports whether an instruction states a sharding and computes no data: the custom-calls of the
// partitioner (xla/service/custom_call_sharding_helper.h) and of Shardy, whose operand and result have one shape.
func (in *Instruction) IsSharding() bool {
	return in.Opcode == "custom-call" && len(in.Operands) == 1 &&
		(in.Target == "Sharding" || strings.HasPrefix(in.Target, "xla.sdy."))
}

// IsWhole reports whether shapes are those of all devices together: parameters are to be divided and no partitioner has
// run yet. A partitioner leaves shardings at parameters, replaces the calls that state others, and adds collectives.
func (m *Module) IsWhole() bool {
	divided := int64(1)
	for _, in := range m.Computations[m.Entry].Instructions {
		if in.Opcode == "parameter" {
			divided = max(divided, tiles(in.Sharding))
		}
	}
	if m.Scheduled || divided == 1 {
		return false
	}
	crossing := false
	for _, c := range m.Computations {
		for i := range c.Instructions {
			in := &c.Instructions[i]
			if in.IsSharding() {
				return true
			}
			crossing = crossing || collectives[strings.TrimSuffix(in.Opcode, "-start")]
		}
	}
	return !crossing
}

// Devices is how many devices the shardings of the entry's parameters speak of, at least Partitions.
func (m *Module) Devices() int64 {
	n := m.Partitions
	for _, in := range m.Computations[m.Entry].Instructions {
		if in.Opcode == "parameter" {
			n = max(n, devices(in.Sharding))
		}
	}
	return n
}

// Part is the shape that a device has of a value that is divided by the instruction's sharding: each dim by its tiles,
// rounded up. A value without a sharding, or with one that is not known here, is whole on each device.
func (in *Instruction) Part() Shape { return part(in.Shape, in.Sharding) }

func part(s Shape, sharding string) Shape {
	if s.IsTuple() {
		list := tupleSharding(sharding)
		if len(list) != len(s.Tuple) {
			return s
		}
		out := s
		out.Tuple = make([]Shape, len(s.Tuple))
		for i := range s.Tuple {
			out.Tuple[i] = part(s.Tuple[i], list[i])
		}
		return out
	}
	by := tiling(sharding)
	if len(by) < len(s.Dims) {
		return s
	}
	out := s
	out.Dims = make([]int64, len(s.Dims))
	for i, d := range s.Dims {
		out.Dims[i] = (d + by[i] - 1) / by[i]
	}
	return out
}

// tiling reads the tiles by dim of {devices=[2,1,4]<=[8] last_tile_dim_replicate}; nil of another sharding.
func tiling(sharding string) []int64 {
	_, rest, ok := strings.Cut(sharding, "devices=[")
	text, _, closed := strings.Cut(rest, "]")
	if !ok || !closed || strings.HasPrefix(sharding, "{{") {
		return nil
	}
	var out []int64
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		if err != nil || n < 1 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// tupleSharding splits {{...}, {...}} into the shardings of a tuple's elements.
func tupleSharding(sharding string) (out []string) {
	inner, ok := strings.CutPrefix(strings.TrimSpace(sharding), "{")
	if !ok || !strings.HasPrefix(inner, "{") {
		return nil
	}
	depth, start := 0, 0
	for i := range len(inner) {
		switch inner[i] {
		case '{':
			if depth++; depth == 1 {
				start = i
			}
		case '}':
			if depth--; depth == 0 {
				out = append(out, inner[start:i+1])
			}
		}
	}
	return out
}

// devices is how many devices a sharding speaks of; 1 without a tiling.
func devices(sharding string) int64 { return product(tiling(sharding)) }

// tiles is how many parts a value is divided into: devices, without the dims behind the data's that hold copies, for
// example 1 of {devices=[1,1,8]<=[8] last_tile_dim_replicate}.
func tiles(sharding string) int64 {
	by := tiling(sharding)
	copies := 0
	if strings.Contains(sharding, "last_tile_dim_replicate") {
		copies = 1
	}
	if _, rest, ok := strings.Cut(sharding, "last_tile_dims={"); ok {
		names, _, _ := strings.Cut(rest, "}")
		copies = 1 + strings.Count(names, ",")
	}
	return product(by[:max(0, len(by)-copies)])
}

// product multiplies; 1 where that is more than any number of devices.
func product(list []int64) int64 {
	n := int64(1)
	for _, t := range list {
		if n *= t; n > 1<<31 {
			return 1
		}
	}
	return n
}
