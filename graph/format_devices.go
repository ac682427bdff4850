package graph

// The text form of device annotations: see Format.

func (p *printer) configurations(list []DeviceConfiguration) {
	p.row("[", len(list), "]", func(i int) {
		c := &list[i]
		p.inlineNotes("", nil, c.Extra)
		p.quote(c.Name)
		p.str(" : ")
		p.int(int64(c.NumDevices))
		p.str(" ")
		p.row("[", len(c.Devices), "]", func(k int) { p.quote(c.Devices[k]) })
	})
}

func (p *printer) devices(g *Graph, n *Node) {
	list := n.Devices()
	p.row("[", len(list), "]", func(i int) {
		d := &list[i]
		p.inlineNotes("", nil, d.Extra)
		p.quote(d.Configuration)
		if d.Stage != NoStage {
			p.str(" @ ")
			p.int(d.Stage)
		}
		p.str(" ")
		p.row("[", len(d.Sharding), "]", func(k int) { p.sharding(g, n, &d.Sharding[k]) })
	})
}

func (p *printer) sharding(g *Graph, n *Node, s *Sharding) {
	p.inlineNotes("", nil, s.Extra)
	p.quote(g.ShardedTensor(n, s))
	p.str(" ")
	p.ints(s.Devices)
	p.str(" ")
	p.row("{", len(s.Groups), "}", func(i int) {
		p.inlineNotes("", nil, s.Groups[i].Extra)
		p.int(s.Groups[i].Key)
		p.str(": ")
		p.ints(s.Groups[i].Devices)
	})
	p.str(" ")
	p.row("[", len(s.Axes), "]", func(i int) {
		a := &s.Axes[i]
		p.inlineNotes("", nil, a.Extra)
		p.int(a.Axis)
		p.str(": ")
		p.row("[", len(a.Parts), "]", func(k int) { p.shardedPart(&a.Parts[k]) })
	})
}

func (p *printer) shardedPart(part *ShardedPart) {
	p.inlineNotes("", nil, part.Extra)
	switch part.Kind {
	case BlockNumber:
		p.int(part.Blocks)
	case BlockSymbol:
		p.quote(part.Symbol)
	default:
		p.str("?")
	}
	p.str(" : ")
	p.int(part.Shards)
}

func (p *printer) ints(list []int64) {
	p.row("[", len(list), "]", func(i int) { p.int(list[i]) })
}
