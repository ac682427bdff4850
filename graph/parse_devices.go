package graph

import "math"

// The text form of device annotations: see Format.

func (p *parser) configurations() []DeviceConfiguration {
	var list []DeviceConfiguration
	p.expect("[")
	p.items("]", func() {
		c := DeviceConfiguration{Extra: p.notes().extra, Name: p.quoted("a quoted configuration")}
		p.expect(":")
		at := p.tok.at
		devices := p.integer()
		if c.NumDevices = int32(devices); int64(c.NumDevices) != devices {
			p.fail(at, "%d devices are more than 32 bits hold", devices)
		}
		p.expect("[")
		p.items("]", func() { c.Devices = append(c.Devices, p.quoted("a quoted device")) })
		list = append(list, c)
	})
	return list
}

// devices reads the annotations of a node, whose operands are resolved afterwards.
func (p *parser) devices() []NodeDevices {
	var list []NodeDevices
	p.expect("[")
	p.items("]", func() {
		d := NodeDevices{Extra: p.notes().extra, Configuration: p.quoted("a quoted configuration"), Stage: NoStage}
		if at := p.tok.at; p.accept("@") {
			if d.Stage = p.integer(); d.Stage < math.MinInt32 || d.Stage > math.MaxInt32 {
				p.fail(at, "stage %d is no number of 32 bits", d.Stage)
			}
		}
		p.expect("[")
		p.items("]", func() { d.Sharding = append(d.Sharding, p.sharding()) })
		list = append(list, d)
	})
	return list
}

func (p *parser) sharding() Sharding {
	s := Sharding{Extra: p.notes().extra, Operand: NoOperand, Tensor: p.quoted("a quoted tensor"), Devices: p.ints()}
	p.expect("{")
	p.items("}", func() {
		g := DeviceGroup{Extra: p.notes().extra, Key: p.integer()}
		p.expect(":")
		g.Devices = p.ints()
		s.Groups = append(s.Groups, g)
	})
	p.expect("[")
	p.items("]", func() {
		a := ShardedAxis{Extra: p.notes().extra, Axis: p.integer()}
		p.expect(":")
		p.expect("[")
		p.items("]", func() { a.Parts = append(a.Parts, p.shardedPart()) })
		s.Axes = append(s.Axes, a)
	})
	return s
}

func (p *parser) shardedPart() ShardedPart {
	part := ShardedPart{Extra: p.notes().extra}
	switch {
	case p.accept("?"):
	case p.tok.kind == tokQuoted:
		part.Kind, part.Symbol = BlockSymbol, p.quoted("a quoted symbol")
	default:
		part.Kind, part.Blocks = BlockNumber, p.integer()
	}
	p.expect(":")
	part.Shards = p.integer()
	return part
}

func (p *parser) ints() (list []int64) {
	p.expect("[")
	p.items("]", func() { list = append(list, p.integer()) })
	return list
}
