package allocator

// expandable is a segment that grows: addresses for more than the device has, of which pages have memory.
type expandable struct {
	addr, page int64
	pages      int64 // that there are addresses for
}

// endless is the memory that a device without an end has, to the addresses of a segment.
const endless = 1 << 42

// newExpandable makes a segment for the request of a pool. Its addresses are free, and one and an eighth of the device.
func (c *Caching) newExpandable(r *request) *piece {
	total := c.memory.Total
	if total == 0 {
		total = endless
	}
	e := &expandable{page: smallSegment}
	if r.pool.large {
		e.page = c.conf.largeSegment()
	}
	e.pages = (total + total/8 + e.page - 1) / e.page
	e.addr = c.place(e.page*e.pages, Stream{r.stream, r.pool.private})
	x := &piece{pool: r.pool, stream: r.stream, addr: e.addr, size: e.page * e.pages, segment: e, unmapped: true}
	r.pool.unmapped.add(x)
	return x
}

// expand grows an expandable segment until it has a free block for a request (try_allocate_expandable_block). The block
// is nil where the device has too little memory; pages that were mapped until then stay free.
func (c *Caching) expand(r *request) *piece {
	x := c.growing(r)
	if x.unmapped && !c.back(x, min(x.size, r.size)) {
		return nil
	}
	for x.size < r.size { // behind a free block are addresses without memory
		next := x.next
		if !c.back(next, min(r.size-x.size, next.size)) {
			return nil
		}
		x = next // which has become one with x
	}
	r.pool.free.remove(x)
	return x
}

// growing is the lowest place with addresses enough for a request: free ones, and such without memory
// (find_expandable_block).
func (c *Caching) growing(r *request) *piece {
	for x := range r.pool.unmapped.from(&piece{stream: r.stream}) {
		if x.stream != r.stream {
			break
		}
		if x.prev != nil && !x.prev.held {
			x = x.prev
		}
		room := int64(0)
		for y := x; room < r.size && y != nil && !y.held; y = y.next {
			room += y.size
		}
		if room >= r.size {
			return x
		}
	}
	return c.newExpandable(r)
}

// back gives the first addresses of a piece memory, in whole pages: so many bytes or more (map_block).
func (c *Caching) back(x *piece, bytes int64) bool {
	bytes = roundUp(bytes, x.segment.page)
	if bytes > c.memory.free(c.usage.Reserved) {
		return false
	}
	p := x.pool
	p.unmapped.remove(x)
	x.unmapped = false
	if bytes < x.size {
		rest := &piece{pool: p, stream: x.stream, addr: x.addr + bytes, size: x.size - bytes, segment: x.segment,
			unmapped: true}
		rest.join(x, x.next)
		p.unmapped.add(rest)
		x.size = bytes
	}
	x.merge(x.prev)
	x.merge(x.next)
	p.put(x)
	c.usage.Reserved += bytes
	return true
}

// strip gives the memory of the whole pages of a free piece back to the device (unmap_block). It reports whether all of
// the piece's segment has become addresses without memory.
func (c *Caching) strip(x *piece) bool {
	e, p := x.segment, x.pool
	begin := e.addr + roundUp(x.addr-e.addr, e.page)
	end := e.addr + (x.addr+x.size-e.addr)/e.page*e.page
	if begin >= end {
		return false
	}
	p.free.remove(x)
	for _, rest := range [2]*piece{{addr: x.addr, size: begin - x.addr}, {addr: end, size: x.addr + x.size - end}} {
		if rest.size == 0 {
			continue
		}
		rest.pool, rest.stream, rest.segment = p, x.stream, e
		if rest.addr < begin {
			rest.join(x.prev, x)
		} else {
			rest.join(x, x.next)
		}
		p.put(rest)
	}
	x.addr, x.size, x.unmapped = begin, end-begin, true
	x.merge(x.prev)
	x.merge(x.next)
	p.unmapped.add(x)
	c.usage.Reserved -= end - begin
	return x.prev == nil && x.next == nil
}
