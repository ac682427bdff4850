package allocator

// Piece is a part of a segment that an allocator is restored with: a block, free memory, or addresses without memory.
type Piece struct {
	Addr, Size int64
	Asked      int64 // of a block
	Held       bool  // it is a block
	Hole       bool  // it has no memory, in an expandable segment
}

// Restore adds a segment that another allocator of the same rules has left, as pieces that lie behind each other. It
// returns its blocks, in order. No two segments share an address.
func (c *Caching) Restore(s Stream, large, expanding bool, pieces []Piece) (blocks []Block) {
	size := int64(leastBlock)
	if large {
		size = mostSmall + 1
	}
	p := c.pool(s.Pool, size)
	var e *expandable
	if expanding {
		e = &expandable{addr: pieces[0].Addr, page: smallSegment}
		if large {
			e.page = c.conf.largeSegment()
		}
	}
	var last *piece
	for _, x := range pieces {
		y := &piece{pool: p, stream: s.ID, addr: x.Addr, size: x.Size, asked: x.Asked, held: x.Held, unmapped: x.Hole,
			segment: e}
		y.join(last, nil)
		last = y
		c.next = max(c.next, roundUp(x.Addr+x.Size, segmentUnit))
		switch {
		case x.Hole:
			p.unmapped.add(y)
			continue
		case x.Held:
			c.usage.Asked += x.Asked
			c.usage.Allocated += x.Size
			c.active += x.Size
			blocks = append(blocks, Block{y})
		default:
			p.put(y)
		}
		c.usage.Reserved += x.Size
	}
	return blocks
}

// Pieces is how many free pieces there are.
func (c *Caching) Pieces() (n int) {
	for _, key := range c.keys {
		for _, run := range c.pools[key].free.runs {
			n += len(run)
		}
	}
	return n
}

// ReleaseAt gives the free memory between two addresses back to the device: segments that are free as a whole, and
// whole pages.
func (c *Caching) ReleaseAt(addr, size int64) {
	for _, key := range c.keys {
		p := c.pools[key]
		for _, x := range p.free.all() {
			switch {
			case x.addr+x.size <= addr || addr+size <= x.addr:
			case x.segment != nil:
				if c.strip(x) {
					p.unmapped.remove(x)
				}
			case x.whole():
				c.release(x)
			}
		}
	}
}
