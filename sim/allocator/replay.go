package allocator

// Event is a request of a program. Blocks have numbers that the program gives them; the number of a block that was
// given back may be given anew.
type Event struct {
	Block int32
	// Bytes are those asked for. A negative number gives the block back.
	Bytes int64
	// Step is the step of the program that asks, for reports.
	Step int32
}

// Free is the bytes of an event that gives a block back.
const Free = -1

// Usage is an allocator's memory at a moment, in bytes.
type Usage struct {
	Asked     int64 // by the program
	Allocated int64 // in blocks that the program holds
	Reserved  int64 // that the allocator has of the device
}

// Memory is the memory of a device. The zero value has no end.
type Memory struct {
	Total int64 // bytes of the device; 0: it has no end
	Other int64 // of these, the bytes of others: the context, libraries, other programs
}

// free is the bytes that the device has left beside so many that an allocator has reserved.
func (m Memory) free(reserved int64) int64 {
	if m.Total == 0 {
		return 1<<62 - reserved
	}
	return max(m.Total-m.Other-reserved, 0)
}

// Allocator hands out memory.
type Allocator interface {
	// Take hands out a block of at least so many bytes, under a number that it does not hold. The error is an
	// *OutOfMemoryError.
	Take(block int32, bytes int64) error
	// Give takes a block back.
	Give(block int32)
	// Usage is the memory at this moment.
	Usage() Usage
}

// Outcome is the memory of a program that an allocator served.
type Outcome struct {
	Peak Usage // each number by itself at its highest
	// AtPeak is the memory when the most was reserved, for the first time.
	AtPeak Usage
	// Fail is the event that the allocator has no memory for, an index into the program's; -1 without such.
	Fail int
	Err  *OutOfMemoryError // of that event; nil without such
	Last Usage             // at the end, or when memory ran out
}

// Fragmentation is the share of the reserved bytes that no block held when the most was reserved.
func (o *Outcome) Fragmentation() float64 {
	if o.AtPeak.Reserved == 0 {
		return 0
	}
	return float64(o.AtPeak.Reserved-o.AtPeak.Allocated) / float64(o.AtPeak.Reserved)
}

// Replay plays events through an allocator, up to the first one that runs out of memory.
func Replay(a Allocator, events []Event) *Outcome {
	o := &Outcome{Fail: -1}
	for i := range events {
		e := &events[i]
		if e.Bytes < 0 {
			a.Give(e.Block)
			continue
		}
		if err := a.Take(e.Block, e.Bytes); err != nil {
			o.Fail, o.Err = i, outOfMemory(err)
			o.see(a.Usage())
			break
		}
		o.see(a.Usage())
	}
	o.Last = a.Usage()
	return o
}

// see notes a moment's memory.
func (o *Outcome) see(u Usage) {
	if u.Reserved > o.AtPeak.Reserved || u.Reserved == o.AtPeak.Reserved && u.Allocated > o.AtPeak.Allocated {
		o.AtPeak = u
	}
	o.Peak.Asked = max(o.Peak.Asked, u.Asked)
	o.Peak.Allocated = max(o.Peak.Allocated, u.Allocated)
	o.Peak.Reserved = max(o.Peak.Reserved, u.Reserved)
}
