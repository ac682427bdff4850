package allocator

import (
	"cmp"
	"slices"
)

// Caching is PyTorch's caching allocator of a device. It takes segments from the device, cuts blocks out of them, and
// keeps freed blocks for later requests of the same stream.
type Caching struct {
	conf   Conf
	memory Memory
	limit  int64 // the bytes that are allowed; 0: all
	usage  Usage
	active int64 // bytes in blocks, those that wait for streams included
	// Offer gives a segment of so many bytes for a stream its address, if it has one for it, which lies in no other
	// segment; else, and where it is nil, segments lie behind each other.
	Offer   func(bytes int64, s Stream) (addr int64, ok bool)
	next    int64 // the end of the highest segment so far
	pools   map[poolKey]*pool
	keys    []poolKey // of pools, sorted
	waiting map[int64][]*piece
	streams []int64       // of waiting, sorted
	done    map[int64]int // by stream: how many of its blocks have no work before them any more
	blocks  []*piece      // by number, of Take
}

// Stream is where the work runs that a block is for: a stream of the device, and the pool that its blocks are kept
// apart in, 0 but for graphs that were captured.
type Stream struct {
	ID   int64
	Pool int64
}

// poolKey names a pool of free blocks.
type poolKey struct {
	private int64
	large   bool
}

// pool has the free blocks of a kind.
type pool struct {
	poolKey
	free     set   // by stream, size, address
	unmapped set   // of expandable segments, by stream, address
	looks    int64 // how often a free block was looked for, where garbage is collected
}

// piece is a part of a segment: a block that is in use, waits or is free, or addresses without memory.
type piece struct {
	pool       *pool
	stream     int64
	addr, size int64
	asked      int64
	prev, next *piece
	users      []int64 // streams beside its own that have used it
	events     int     // uses that are not done, once it was given up
	born       int64   // pool.looks when it became free
	segment    *expandable
	held       bool // it is a block, or waits
	unmapped   bool
}

// Block is memory that [Caching] has handed out.
type Block struct{ p *piece }

// Address is where the block begins.
func (b Block) Address() int64 { return b.p.addr }

// Size is the bytes of the block, which may be more than were asked for.
func (b Block) Size() int64 { return b.p.size }

// Asked is the bytes that were asked for.
func (b Block) Asked() int64 { return b.p.asked }

// NewCaching returns an allocator without segments.
func NewCaching(conf Conf, memory Memory) *Caching {
	c := &Caching{conf: conf, memory: memory, next: segmentUnit, pools: map[poolKey]*pool{},
		waiting: map[int64][]*piece{}, done: map[int64]int{}}
	if conf.Fraction > 0 && memory.Total > 0 {
		c.limit = int64(conf.Fraction * float64(memory.Total))
	}
	return c
}

// Usage is the memory at this moment.
func (c *Caching) Usage() Usage { return c.usage }

// Active is the bytes of blocks in use, and of those that wait for other streams.
func (c *Caching) Active() int64 { return c.active }

// bySize orders free blocks (BlockComparatorSize).
func bySize(a, b *piece) int {
	return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.size, b.size), cmp.Compare(a.addr, b.addr))
}

// byAddress orders addresses without memory (BlockComparatorAddress).
func byAddress(a, b *piece) int {
	return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.addr, b.addr))
}

// pool finds the pool for a size, or makes it.
func (c *Caching) pool(private, size int64) *pool {
	key := poolKey{private, size > mostSmall}
	p := c.pools[key]
	if p == nil {
		p = &pool{poolKey: key, free: set{order: bySize}, unmapped: set{order: byAddress}}
		c.pools[key] = p
		at, _ := slices.BinarySearchFunc(c.keys, key, comparePools)
		c.keys = slices.Insert(c.keys, at, key)
	}
	return p
}

// comparePools orders pools as they are released: large blocks first, those of graphs last.
func comparePools(a, b poolKey) int {
	large := func(k poolKey) int {
		if k.large {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.private, b.private), cmp.Compare(large(a), large(b)))
}

// put makes a piece free.
func (p *pool) put(x *piece) {
	x.born = p.looks
	p.free.add(x)
}

// Take implements [Allocator] on the default stream.
func (c *Caching) Take(block int32, bytes int64) error {
	b, err := c.Alloc(bytes, Stream{})
	if err != nil {
		return err
	}
	for int(block) >= len(c.blocks) {
		c.blocks = append(c.blocks, nil)
	}
	c.blocks[block] = b.p
	return nil
}

// Give implements [Allocator].
func (c *Caching) Give(block int32) {
	c.Free(Block{c.blocks[block]})
	c.blocks[block] = nil
}

// request is a block that is looked for.
type request struct {
	pool    *pool
	stream  int64
	size    int64
	segment int64 // the bytes of a new segment for it
	found   *piece
}

// key is a piece that free ones which fit do not come before.
func (r *request) key() *piece { return &piece{stream: r.stream, size: r.size} }

// Alloc hands out a block of at least so many bytes. The error is an *OutOfMemoryError. PyTorch asks for no block where
// a tensor is empty; 0 bytes give a block of the least size.
func (c *Caching) Alloc(bytes int64, s Stream) (Block, error) {
	c.process()
	if bytes > endless {
		return Block{}, c.fail(bytes, bytes)
	}
	size := c.conf.Rounded(bytes)
	r := &request{pool: c.pool(s.Pool, size), stream: s.ID, size: size, segment: c.conf.segment(size)}
	if !c.find(r) {
		if c.limit > 0 && c.conf.Garbage > 0 {
			c.collect()
		}
		ok := c.extend(r) || c.releaseOversize(r) && c.extend(r)
		if !ok {
			c.EmptyCache()
			ok = c.extend(r)
		}
		if !ok {
			return Block{}, c.fail(bytes, r.segment)
		}
	}
	return Block{c.hand(r, bytes)}, nil
}

// find takes the smallest free block that is large enough out of its pool (get_free_block).
func (c *Caching) find(r *request) bool {
	if c.limit > 0 && c.conf.Garbage > 0 {
		r.pool.looks++
	}
	var best *piece
	for x := range r.pool.free.from(r.key()) {
		if x.stream != r.stream {
			break
		}
		if best == nil {
			if x.segment != nil && !c.conf.Expandable {
				continue // expandable segments were switched off
			}
			best = x
			if x.segment == nil {
				break
			}
			continue
		}
		// A block that can grow counts with the bytes that it can grow to.
		if x.growable() >= best.growable() {
			break
		}
		if best = x; x.segment == nil {
			break
		}
	}
	switch limit := c.conf.maxSplit(); {
	case best == nil, r.size < limit && best.size >= limit:
		return false
	case r.size >= limit && best.size >= r.size+c.conf.maxRounding():
		return false
	}
	r.pool.free.remove(best)
	r.found = best
	return true
}

// growable is the size that a free block can grow to.
func (x *piece) growable() int64 {
	if x.next != nil && x.next.unmapped {
		return x.size + x.next.size
	}
	return x.size
}

// cuts reports whether the rest of a block becomes a free block (should_split).
func (c *Caching) cuts(x *piece, size int64) bool {
	rest := x.size - size
	if !x.pool.large || c.conf.Expandable {
		return rest >= leastBlock
	}
	return size < c.conf.maxSplit() && rest > mostSmall
}

// hand makes the block of a request out of the piece that was found (alloc_found_block).
func (c *Caching) hand(r *request, bytes int64) *piece {
	x := r.found
	if c.cuts(x, r.size) {
		rest := x
		x = &piece{pool: rest.pool, stream: rest.stream, addr: rest.addr, size: r.size, segment: rest.segment}
		x.join(rest.prev, rest)
		rest.addr += r.size
		rest.size -= r.size
		r.pool.put(rest)
	}
	x.held, x.asked = true, bytes
	c.usage.Asked += bytes
	c.usage.Allocated += x.size
	c.active += x.size
	return x
}

// join puts a piece between two neighbours, of which there may be none.
func (x *piece) join(prev, next *piece) {
	if x.prev, x.next = prev, next; prev != nil {
		prev.next = x
	}
	if next != nil {
		next.prev = x
	}
}

// extend gets memory of the device for a request (alloc_block).
func (c *Caching) extend(r *request) bool {
	switch {
	case c.limit > 0 && c.usage.Reserved+r.segment > c.limit:
		return false
	case c.conf.Expandable:
		r.found = c.expand(r)
		return r.found != nil
	case r.segment > c.memory.free(c.usage.Reserved):
		return false
	}
	c.usage.Reserved += r.segment
	r.found = &piece{pool: r.pool, stream: r.stream, size: r.segment,
		addr: c.place(r.segment, Stream{r.stream, r.pool.private})}
	return true
}

// place is the address of a new segment.
func (c *Caching) place(bytes int64, s Stream) int64 {
	if c.Offer != nil {
		if addr, ok := c.Offer(bytes, s); ok {
			c.next = max(c.next, roundUp(addr+bytes, segmentUnit))
			return addr
		}
	}
	addr := c.next
	c.next += roundUp(bytes, segmentUnit)
	return addr
}

// Record notes that another stream uses a block (recordStream).
func (c *Caching) Record(b Block, stream int64) {
	if stream != b.p.stream && !slices.Contains(b.p.users, stream) {
		b.p.users = append(b.p.users, stream)
	}
}

// Free gives a block up. It is free at once, unless other streams have used it: then [Caching.Done] of all of them
// must have said that their work is done.
func (c *Caching) Free(b Block) {
	c.Request(b)
	if len(b.p.users) == 0 {
		c.Complete(b)
		return
	}
	for _, s := range b.p.users {
		if _, ok := c.waiting[s]; !ok {
			at, _ := slices.BinarySearch(c.streams, s)
			c.streams = slices.Insert(c.streams, at, s)
		}
		c.waiting[s] = append(c.waiting[s], b.p)
		b.p.events++
	}
	b.p.users = nil
}

// Request says that a block is no longer held (free_requested).
func (c *Caching) Request(b Block) {
	c.usage.Asked -= b.p.asked
	c.usage.Allocated -= b.p.size
}

// Complete makes a block free that was requested to be (free_completed).
func (c *Caching) Complete(b Block) {
	x := b.p
	x.held = false
	c.active -= x.size
	for _, y := range [2]*piece{x.prev, x.next} {
		x.merge(y)
	}
	x.pool.put(x)
}

// Done says that all work that a stream has got so far is done.
func (c *Caching) Done(stream int64) { c.done[stream] = len(c.waiting[stream]) }

// process makes the blocks free whose streams are done (process_events).
func (c *Caching) process() {
	for _, s := range c.streams {
		list := c.waiting[s]
		for _, x := range list[:c.done[s]] {
			c.passed(x)
		}
		c.waiting[s], c.done[s] = list[c.done[s]:], 0
	}
}

// passed notes that one stream no longer uses a block.
func (c *Caching) passed(x *piece) {
	if x.events--; x.events == 0 {
		c.Complete(Block{x})
	}
}

// merge joins a free neighbour to a piece (try_merge_blocks).
func (x *piece) merge(y *piece) {
	if y == nil || y.held || y.unmapped != x.unmapped {
		return
	}
	from := &y.pool.free
	if y.unmapped {
		from = &y.pool.unmapped
	}
	from.remove(y)
	if x.prev == y {
		x.addr = y.addr
		x.join(y.prev, x.next)
	} else {
		x.join(x.prev, y.next)
	}
	x.size += y.size
}
