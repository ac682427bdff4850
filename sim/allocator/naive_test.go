package allocator_test

import (
	"slices"

	"memopt/sim/allocator"
)

// naive is PyTorch's allocator written a second time from the same rules: a list of segments, each a list of cells in
// the order of addresses, and every question is answered by looking at all of them.
type naive struct {
	conf         allocator.Conf
	total, other int64
	segments     []*strip
	tick         map[[2]int64]int64 // by pool (private, large): how often a free cell was looked for
	next         int64
	queue        map[int64][]*cell // by stream: cells that it still uses
	ready        map[int64]int
	asked        int64
}

// strip is a segment.
type strip struct {
	stream, private int64
	large           bool
	page            int64 // of an expandable one; else 0
	addr            int64
	cells           []*cell
}

type cell struct {
	addr, size int64
	asked      int64
	use        string // "free", "held", "waits" or "hole"
	since      int64
	users      map[int64]bool
	left       int
}

func newNaive(conf allocator.Conf, m allocator.Memory) *naive {
	return &naive{conf: conf, total: m.Total, other: m.Other, next: 2 << 20, tick: map[[2]int64]int64{},
		queue: map[int64][]*cell{}, ready: map[int64]int{}}
}

const mib = 1 << 20

func upTo(n, unit int64) int64 {
	if r := n % unit; r != 0 {
		return n + unit - r
	}
	return n
}

func (n *naive) reserved() (sum int64) {
	for _, s := range n.segments {
		for _, c := range s.cells {
			if c.use != "hole" {
				sum += c.size
			}
		}
	}
	return sum
}

func (n *naive) bytesOf(uses ...string) (sum int64) {
	for _, s := range n.segments {
		for _, c := range s.cells {
			if slices.Contains(uses, c.use) {
				sum += c.size
			}
		}
	}
	return sum
}

func (n *naive) room() int64 {
	if n.total == 0 {
		return 1 << 60
	}
	return n.total - n.other - n.reserved()
}

func (n *naive) largePage() int64 {
	if n.conf.LargeSegment > 0 {
		return n.conf.LargeSegment
	}
	return 20 * mib
}

// blockSize rounds a request up.
func (n *naive) blockSize(bytes int64) int64 {
	if bytes < 512 {
		return 512
	}
	power := int64(1)
	for power*2 <= bytes {
		power *= 2
	}
	class := 0
	for class < 15 && int64(mib)<<(class+1) <= power {
		class++
	}
	if d := n.conf.Divisions[class]; d > 1 && bytes > 512*d {
		// The smallest of power, power + power/d, power + 2 power/d, … that holds the request.
		for size := power; ; size += power / d {
			if size >= bytes {
				return size
			}
		}
	}
	return upTo(bytes, 512)
}

func (n *naive) collects() bool { return n.conf.Garbage > 0 && n.conf.Fraction > 0 && n.total > 0 }

// alloc is the address and size of a block; ok is false where memory runs out.
func (n *naive) alloc(bytes, stream, private int64) (c *cell, ok bool) {
	for _, s := range sortedKeys(n.queue) {
		for range n.ready[s] {
			n.left(n.queue[s][0])
			n.queue[s] = n.queue[s][1:]
		}
		n.ready[s] = 0
	}
	size := n.blockSize(bytes)
	large := size > mib
	segment := int64(2 * mib)
	if large {
		if segment = n.largePage(); size >= 10*mib {
			segment = upTo(size, 2*mib)
		}
	}
	s, at := n.best(size, stream, private, large)
	if s == nil {
		if n.collects() {
			n.garbage()
		}
		if s, at = n.grow(size, segment, stream, private, large); s == nil && n.conf.MaxSplit > 0 &&
			n.giveBackLarge(size, stream, private, large) {
			s, at = n.grow(size, segment, stream, private, large)
		}
		if s == nil {
			n.empty()
			if s, at = n.grow(size, segment, stream, private, large); s == nil {
				return nil, false
			}
		}
	}
	c = s.cells[at]
	rest := c.size - size
	cut := rest > mib && (n.conf.MaxSplit == 0 || size < n.conf.MaxSplit)
	if !large || n.conf.Expandable {
		cut = rest >= 512
	}
	if cut {
		s.cells = slices.Insert(s.cells, at+1, &cell{addr: c.addr + size, size: rest, use: "free",
			since: n.tick[s.pool()]})
		c.size = size
	}
	c.use, c.asked, c.users = "held", bytes, map[int64]bool{}
	n.asked += bytes
	return c, true
}

func (s *strip) pool() [2]int64 {
	if s.large {
		return [2]int64{s.private, 1}
	}
	return [2]int64{s.private, 0}
}

func sortedKeys[T any](m map[int64]T) (list []int64) {
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// candidate is a free cell.
type candidate struct {
	s  *strip
	at int
}

func (c candidate) cell() *cell { return c.s.cells[c.at] }

// free lists the free cells of a pool and stream by size, then address.
func (n *naive) free(stream, private int64, large bool) (list []candidate) {
	for _, s := range n.segments {
		if s.stream != stream || s.private != private || s.large != large {
			continue
		}
		for i, c := range s.cells {
			if c.use == "free" {
				list = append(list, candidate{s, i})
			}
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		x, y := a.cell(), b.cell()
		if x.size != y.size {
			return int(min(max(x.size-y.size, -1), 1))
		}
		return int(min(max(x.addr-y.addr, -1), 1))
	})
	return list
}

// reach is the bytes that a free cell could have.
func (c candidate) reach() int64 {
	if c.at+1 < len(c.s.cells) && c.s.cells[c.at+1].use == "hole" {
		return c.cell().size + c.s.cells[c.at+1].size
	}
	return c.cell().size
}

func (n *naive) best(size, stream, private int64, large bool) (*strip, int) {
	if n.collects() {
		n.tick[(&strip{private: private, large: large}).pool()]++
	}
	var fits []candidate
	for _, c := range n.free(stream, private, large) {
		if c.cell().size >= size && (c.s.page == 0 || n.conf.Expandable) {
			fits = append(fits, c)
		}
	}
	if len(fits) == 0 {
		return nil, 0
	}
	i := 0
	for fits[i].s.page > 0 && i+1 < len(fits) && fits[i+1].reach() < fits[i].reach() {
		i++
	}
	got := fits[i].cell().size
	if m := n.conf.MaxSplit; m > 0 {
		slack := n.conf.MaxRounding
		if slack == 0 {
			slack = 20 * mib
		}
		if size < m && got >= m || size >= m && got >= size+slack {
			return nil, 0
		}
	}
	return fits[i].s, fits[i].at
}

func (n *naive) allowed(more int64) bool {
	return n.conf.Fraction == 0 || n.total == 0 || n.reserved()+more <= int64(n.conf.Fraction*float64(n.total))
}

func (n *naive) grow(size, segment, stream, private int64, large bool) (*strip, int) {
	if !n.allowed(segment) {
		return nil, 0
	}
	if n.conf.Expandable {
		return n.growExpandable(size, stream, private, large)
	}
	if segment > n.room() {
		return nil, 0
	}
	s := &strip{stream: stream, private: private, large: large, addr: n.next,
		cells: []*cell{{addr: n.next, size: segment, use: "free"}}}
	n.next += upTo(segment, 2*mib)
	n.segments = append(n.segments, s)
	return s, 0
}

// growExpandable looks for the lowest run of free cells and holes that is long enough and has a hole, and fills its
// holes from the left until the request fits.
func (n *naive) growExpandable(size, stream, private int64, large bool) (*strip, int) {
	var chosen *strip
	from := 0
	lowest := int64(-1)
	for _, s := range n.segments {
		if s.page == 0 || s.stream != stream || s.private != private || s.large != large {
			continue
		}
		for i := 0; i < len(s.cells); {
			if s.cells[i].use != "free" && s.cells[i].use != "hole" {
				i++
				continue
			}
			j := i
			for j < len(s.cells) && (s.cells[j].use == "free" || s.cells[j].use == "hole") {
				j++
			}
			// Each hole of the run is a candidate, with the free cell before it.
			for k := i; k < j; k++ {
				if s.cells[k].use != "hole" {
					continue
				}
				begin := k
				if k > i && s.cells[k-1].use == "free" {
					begin = k - 1
				}
				sum := int64(0)
				for _, c := range s.cells[begin:j] {
					sum += c.size
				}
				if sum >= size && (lowest < 0 || s.cells[k].addr < lowest) {
					chosen, from, lowest = s, begin, s.cells[k].addr
				}
			}
			i = j
		}
	}
	if chosen == nil {
		page := int64(2 * mib)
		if large {
			page = n.largePage()
		}
		total := n.total
		if total == 0 {
			total = 1 << 42
		}
		length := upTo(total+total/8, page)
		chosen = &strip{stream: stream, private: private, large: large, page: page, addr: n.next,
			cells: []*cell{{addr: n.next, size: length, use: "hole"}}}
		n.next += upTo(length, 2*mib)
		n.segments = append(n.segments, chosen)
		from = 0
	}
	start := chosen.cells[from].addr
	for {
		at := slices.IndexFunc(chosen.cells, func(c *cell) bool { return c.addr == start })
		have := int64(0)
		if chosen.cells[at].use == "free" {
			have = chosen.cells[at].size
		}
		if have >= size {
			return chosen, at
		}
		hole := at
		if have > 0 {
			hole++
		}
		h := chosen.cells[hole]
		want := min(upTo(min(size-have, h.size), chosen.page), h.size)
		if want > n.room() {
			return nil, 0
		}
		if want < h.size {
			chosen.cells = slices.Insert(chosen.cells, hole+1, &cell{addr: h.addr + want, size: h.size - want,
				use: "hole"})
		}
		h.use, h.size, h.since = "free", want, n.tick[chosen.pool()]
		if hole > 0 && chosen.cells[hole-1].use == "free" {
			start = chosen.cells[hole-1].addr
		}
		n.join(chosen)
		// A free cell that grew is as old as its new part.
		i := slices.IndexFunc(chosen.cells, func(c *cell) bool { return c.addr == start })
		chosen.cells[i].since = n.tick[chosen.pool()]
	}
}

// join makes neighbours of one kind one cell.
func (n *naive) join(s *strip) {
	for i := 0; i+1 < len(s.cells); {
		a, b := s.cells[i], s.cells[i+1]
		if a.use == b.use && (a.use == "free" || a.use == "hole") {
			a.size += b.size
			a.since = max(a.since, b.since)
			s.cells = slices.Delete(s.cells, i+1, i+2)
			continue
		}
		i++
	}
}

// give gives a block up.
func (n *naive) give(c *cell) {
	n.asked -= c.asked
	c.use = "waits"
	if len(c.users) == 0 {
		n.becomeFree(c)
		return
	}
	for _, s := range sortedKeys(c.users) {
		n.queue[s] = append(n.queue[s], c)
		c.left++
	}
}

func (n *naive) left(c *cell) {
	if c.left--; c.left == 0 {
		n.becomeFree(c)
	}
}

func (n *naive) becomeFree(c *cell) {
	for _, s := range n.segments {
		if slices.Contains(s.cells, c) {
			c.use, c.since = "free", n.tick[s.pool()]
			n.join(s)
			return
		}
	}
	panic("a block of no segment")
}

// empty gives everything back that can be.
func (n *naive) empty() {
	for _, s := range sortedKeys(n.queue) {
		for _, c := range n.queue[s] {
			n.left(c)
		}
		n.queue[s], n.ready[s] = nil, 0
	}
	n.segments = slices.DeleteFunc(n.segments, func(s *strip) bool {
		if s.private != 0 {
			return false
		}
		if s.page == 0 {
			return len(s.cells) == 1 && s.cells[0].use == "free"
		}
		stripped := false
		for i := 0; i < len(s.cells); i++ {
			c := s.cells[i]
			if c.use != "free" {
				continue
			}
			lo, hi := s.addr+upTo(c.addr-s.addr, s.page), s.addr+(c.addr+c.size-s.addr)/s.page*s.page
			if lo >= hi {
				continue
			}
			stripped = true
			var parts []*cell
			for _, p := range []*cell{{addr: c.addr, size: lo - c.addr, use: "free"},
				{addr: lo, size: hi - lo, use: "hole"}, {addr: hi, size: c.addr + c.size - hi, use: "free"}} {
				if p.size > 0 {
					p.since = n.tick[s.pool()]
					parts = append(parts, p)
				}
			}
			s.cells = slices.Replace(s.cells, i, i+1, parts...)
			i += len(parts) - 1
		}
		n.join(s)
		return stripped && len(s.cells) == 1 && s.cells[0].use == "hole"
	})
}

// drop gives whole segments back.
func (n *naive) drop(list ...*strip) {
	n.segments = slices.DeleteFunc(n.segments, func(s *strip) bool { return slices.Contains(list, s) })
}

// giveBackLarge frees segments that are not cut: one that is large enough, or the largest until they are.
func (n *naive) giveBackLarge(size, stream, private int64, large bool) bool {
	want := max(size, n.conf.MaxSplit)
	list := n.free(stream, private, large)
	i := slices.IndexFunc(list, func(c candidate) bool { return c.cell().size >= want })
	if i >= 0 && list[i].s.page == 0 {
		n.drop(list[i].s)
		return true
	}
	if i < 0 {
		i = len(list)
	}
	sum := int64(0)
	var gone []*strip
	for i--; i >= 0 && sum < want && list[i].cell().size >= n.conf.MaxSplit; i-- {
		if list[i].s.page == 0 {
			sum += list[i].cell().size
			gone = append(gone, list[i].s)
		}
	}
	n.drop(gone...)
	return sum >= want
}

// garbage frees segments of large blocks by age.
func (n *naive) garbage() {
	aim := n.reserved() - int64(n.conf.Garbage*float64(int64(n.conf.Fraction*float64(n.total))))
	got := int64(0)
	for got < aim {
		var whole []*strip
		age := int64(0)
		now := n.tick[[2]int64{0, 1}]
		for _, s := range n.segments {
			if s.large && s.private == 0 && s.page == 0 && len(s.cells) == 1 && s.cells[0].use == "free" {
				whole = append(whole, s)
				age += now - s.cells[0].since
			}
		}
		var gone []*strip
		for _, s := range whole {
			if float64(now-s.cells[0].since) >= float64(age)/float64(len(whole)) {
				gone = append(gone, s)
				got += s.cells[0].size
			}
		}
		if len(gone) == 0 {
			return
		}
		n.drop(gone...)
	}
}
