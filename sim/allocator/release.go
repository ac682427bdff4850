package allocator

// whole reports whether a free piece is all of a segment that can be given back.
func (x *piece) whole() bool { return x.prev == nil && x.next == nil && x.segment == nil }

// release gives a segment back to the device that is one free block (release_block).
func (c *Caching) release(x *piece) {
	x.pool.free.remove(x)
	c.usage.Reserved -= x.size
}

// EmptyCache waits for all streams, and gives free segments and free pages back to the device, as
// torch.cuda.empty_cache does (release_cached_blocks).
func (c *Caching) EmptyCache() {
	for _, s := range c.streams {
		for _, x := range c.waiting[s] {
			c.passed(x)
		}
		c.waiting[s], c.done[s] = nil, 0
	}
	for _, key := range c.keys {
		if key.private != 0 { // a captured graph needs its pool to stay
			continue
		}
		p := c.pools[key]
		for _, x := range p.free.all() {
			switch {
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

// releaseOversize gives segments of max_split_size and more back to the device: one that is large enough, or the
// largest ones (release_available_cached_blocks).
func (c *Caching) releaseOversize(r *request) bool {
	if c.conf.MaxSplit == 0 {
		return false
	}
	key := r.key()
	key.size = max(key.size, c.conf.MaxSplit)
	for x := range r.pool.free.from(key) {
		if x.stream != r.stream || x.segment != nil {
			break
		}
		if x.whole() {
			c.release(x)
		}
		return true
	}
	var list []*piece
	released := int64(0)
	for x := range r.pool.free.before(key) {
		if released >= key.size || x.size < c.conf.MaxSplit || x.stream != r.stream {
			break
		}
		if x.whole() {
			list = append(list, x)
			released += x.size
		}
	}
	for _, x := range list {
		c.release(x)
	}
	return released >= key.size
}

// collect gives free segments of large blocks back that were not used for longer than the mean, until the reserved
// bytes are below the threshold (garbage_collect_cached_blocks).
func (c *Caching) collect() {
	threshold := int64(c.conf.Garbage * float64(c.limit))
	target := c.usage.Reserved - threshold
	p := c.pools[poolKey{large: true}]
	if target <= 0 || p == nil {
		return
	}
	var list []*piece
	age := int64(0)
	for _, x := range p.free.all() {
		if x.whole() {
			list = append(list, x)
			age += p.looks - x.born
		}
	}
	got := int64(0)
	for freed := true; got < target && freed && len(list) > 0; {
		freed = false
		mean := float64(age) / float64(len(list))
		var kept []*piece
		for _, x := range list {
			old := p.looks - x.born
			if float64(old) < mean {
				kept = append(kept, x)
				continue
			}
			freed = true
			got += x.size
			age -= old
			c.release(x)
		}
		list = kept
	}
}
