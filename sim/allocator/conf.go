package allocator

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Sizes of PyTorch's allocator in bytes (c10/core/AllocatorConfig.h).
const (
	leastBlock   = 512      // kMinBlockSize: blocks are multiples of it
	mostSmall    = 1 << 20  // kSmallSize: larger blocks are in the pool of large ones
	smallSegment = 2 << 20  // kSmallBuffer: the segment that small blocks are cut out of
	largeSegment = 20 << 20 // kLargeBuffer: that of large blocks below ownSegment
	ownSegment   = 10 << 20 // kMinLargeAlloc: from this size on, a block has a segment of its size
	segmentUnit  = 2 << 20  // kRoundLarge: which is a multiple of it
)

// divisionClasses are the classes of sizes of roundup_power2_divisions: by powers of two from 1 MiB on.
const divisionClasses = 16

// Conf are the options of PyTorch's allocator that change where blocks lie. The zero value has the defaults.
type Conf struct {
	// MaxSplit is max_split_size_mb in bytes: free blocks of that size or more are not cut. 0: all are.
	MaxSplit int64
	// MaxRounding is max_non_split_rounding_mb in bytes: by so many bytes less than a block without cut may exceed its
	// request. 0 means the default, 20 MiB.
	MaxRounding int64
	// LargeSegment is large_segment_size_mb in bytes: the segment for large blocks below 10 MiB, and the page of an
	// expandable segment for large blocks. 0 means the default, 20 MiB.
	LargeSegment int64
	// Divisions is roundup_power2_divisions, by the class of the size. 0 and 1: sizes of this class are not rounded so.
	Divisions [divisionClasses]int64
	// Garbage is garbage_collection_threshold, a share of the allowed bytes: beyond it, free segments that were not
	// used for long are given back before a new one is taken. It takes effect with a Fraction. 0: none.
	Garbage float64
	// Fraction is per_process_memory_fraction, the share of the device that is allowed. 0: no limit.
	Fraction float64
	// Expandable is expandable_segments.
	Expandable bool
}

// largeSegment is the size of the segment for large blocks.
func (c *Conf) largeSegment() int64 {
	if c.LargeSegment > 0 {
		return c.LargeSegment
	}
	return largeSegment
}

func (c *Conf) maxSplit() int64 {
	if c.MaxSplit > 0 {
		return c.MaxSplit
	}
	return math.MaxInt64
}

func (c *Conf) maxRounding() int64 {
	if c.MaxRounding > 0 {
		return c.MaxRounding
	}
	return largeSegment
}

// log2 is the logarithm of a positive number, rounded down.
func log2(n int64) int { return bits.Len64(uint64(n)) - 1 }

// Rounded is the size of the block for a request of so many bytes (round_size).
func (c *Conf) Rounded(n int64) int64 {
	if n < leastBlock {
		return leastBlock
	}
	class := min(max(log2(n)-log2(1<<20), 0), divisionClasses-1)
	if d := c.Divisions[class]; d > 1 && n > leastBlock*d {
		floor := int64(1) << log2(n)
		part := floor >> log2(d)
		switch rest := n & (part - 1); {
		case floor == n:
			return n
		case part == 0:
			return floor << 1
		case rest == 0:
			return n
		default:
			return n - rest + part
		}
	}
	return roundUp(n, leastBlock)
}

// segment is the size of the segment that a block needs if no free block fits (get_allocation_size).
func (c *Conf) segment(n int64) int64 {
	switch {
	case n <= mostSmall:
		return smallSegment
	case n < ownSegment:
		return c.largeSegment()
	}
	return roundUp(n, segmentUnit)
}

// roundUp is n rounded up to a multiple of unit, or n where that is no int64.
func roundUp(n, unit int64) int64 {
	if n > math.MaxInt64-unit {
		return n
	}
	return (n + unit - 1) / unit * unit
}

// ignored are options that do not change where blocks of a device lie.
var ignored = []string{"release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "pinned_use_cuda_host_register",
	"pinned_use_hip_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
	"pinned_reserve_segment_size_mb", "pinned_max_round_threshold_mb", "pinned_max_cached_size_mb",
	"graph_capture_record_stream_reuse", "throw_on_cudamalloc_oom"}

// ParseConf reads options in the form of PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF, for example
// "max_split_size_mb:128,expandable_segments:True".
func ParseConf(text string) (Conf, error) {
	p := &confParser{tokens: confTokens(text)}
	for p.at = 0; p.at < len(p.tokens); {
		if err := p.option(); err != nil {
			return Conf{}, err
		}
		if p.at < len(p.tokens) && !p.take(",") {
			return Conf{}, fmt.Errorf("has %q in place of a comma", p.tokens[p.at])
		}
	}
	if c := &p.conf; c.MaxSplit > 0 && c.MaxSplit < c.largeSegment() {
		return Conf{}, fmt.Errorf("max_split_size_mb:%d: wanted %d or more, the size of a segment of large blocks",
			c.MaxSplit>>20, c.largeSegment()>>20)
	}
	return p.conf, nil
}

// confTokens cuts options at their marks; spaces do not count.
func confTokens(text string) (list []string) {
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			list = append(list, word.String())
			word.Reset()
		}
	}
	for _, r := range text {
		switch {
		case strings.ContainsRune(",:[]", r):
			end()
			list = append(list, string(r))
		case !strings.ContainsRune(" \t\n\v\f\r", r):
			word.WriteRune(r)
		}
	}
	end()
	return list
}

type confParser struct {
	tokens []string
	at     int
	conf   Conf
}

// take goes past a token if it is next.
func (p *confParser) take(token string) bool {
	if p.at < len(p.tokens) && p.tokens[p.at] == token {
		p.at++
		return true
	}
	return false
}

// next is the next token; "" at the end.
func (p *confParser) next() string {
	if p.at == len(p.tokens) {
		return ""
	}
	p.at++
	return p.tokens[p.at-1]
}

// option reads an option and its value.
func (p *confParser) option() (err error) {
	name := p.next()
	if !p.take(":") {
		return fmt.Errorf("option %q has no value: wanted NAME:VALUE", name)
	}
	c := &p.conf
	switch {
	case name == "max_split_size_mb":
		c.MaxSplit, err = p.mebibytes(name, 1)
	case name == "max_non_split_rounding_mb":
		c.MaxRounding, err = p.mebibytes(name, largeSegment>>20)
	case name == "large_segment_size_mb":
		c.LargeSegment, err = p.mebibytes(name, ownSegment>>20+1)
	case name == "garbage_collection_threshold":
		c.Garbage, err = p.share(name, false)
	case name == "per_process_memory_fraction":
		c.Fraction, err = p.share(name, true)
	case name == "expandable_segments":
		value := p.next()
		if c.Expandable = value == "True"; !c.Expandable && value != "False" {
			return fmt.Errorf("expandable_segments:%s: wanted True or False", value)
		}
	case name == "roundup_power2_divisions":
		return p.divisions()
	case name == "backend":
		if value := p.next(); value != "native" {
			return fmt.Errorf("backend:%s: only the native allocator can be simulated", value)
		}
	case slices.Contains(ignored, name):
		p.next()
	default:
		return fmt.Errorf("option %q is not known", name)
	}
	return err
}

// mebibytes reads a number of MiB as bytes.
func (p *confParser) mebibytes(name string, least int64) (int64, error) {
	value := p.next()
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > math.MaxInt64>>21 {
		return 0, fmt.Errorf("%s:%s: wanted a whole number of MiB from %d on", name, value, least)
	}
	return n << 20, nil
}

// share reads a share above 0 and below 1, or 1 where the whole is one, too.
func (p *confParser) share(name string, whole bool) (float64, error) {
	value := p.next()
	x, err := strconv.ParseFloat(value, 64)
	if err == nil && x > 0 && (x < 1 || whole && x == 1) {
		return x, nil
	}
	if whole {
		return 0, fmt.Errorf("%s:%s: wanted a number above 0, at most 1", name, value)
	}
	return 0, fmt.Errorf("%s:%s: wanted a number above 0 and below 1", name, value)
}

// divisions reads a number of divisions for all sizes, or a list by sizes in MiB: [256:1,512:2,>:4].
func (p *confParser) divisions() error {
	d := &p.conf.Divisions
	if !p.take("[") {
		n, err := p.division()
		for i := range d {
			d[i] = n
		}
		return err
	}
	last := -1
	for first := true; !p.take("]"); first = false {
		if !first && !p.take(",") {
			return fmt.Errorf("roundup_power2_divisions: the list ends with %q", p.next())
		}
		size := p.next()
		if !p.take(":") {
			return fmt.Errorf("roundup_power2_divisions: %q has no value: wanted SIZE:DIVISIONS", size)
		}
		n, err := p.division()
		if err != nil {
			return err
		}
		if size == ">" {
			for i := last + 1; i < len(d); i++ {
				d[i] = n
			}
			continue
		}
		mib, err := strconv.ParseInt(size, 10, 64)
		if err != nil || mib < 1 || mib&(mib-1) != 0 {
			return fmt.Errorf("roundup_power2_divisions: size %q: wanted a power of two, in MiB", size)
		}
		last = min(log2(mib), len(d)-1)
		for i := 0; first && i < last; i++ {
			d[i] = n
		}
		d[last] = n
	}
	return nil
}

// division reads a number of divisions.
func (p *confParser) division() (int64, error) {
	value := p.next()
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 || n&(n-1) != 0 {
		return 0, fmt.Errorf("roundup_power2_divisions: %q divisions: wanted a power of two, or 0", value)
	}
	return n, nil
}
