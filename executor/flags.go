package executor

import "encoding/binary"

// Flags are words of device memory for the errors that kernels of a captured step find, because the
// host cannot wait for them within it. They are 0 when a replay begins; after it the session reads
// them.
type Flags struct {
	block   []byte // of the device
	read    []byte // of the host
	reports []func(word uint32) error
}

const (
	flagBytes = 4 // of a flag
	nodeFlags = 2 // that a node's kernel may ask for: RoiAlign looks at the numbers and at the image of each region
)

// flagsSize is the size of the flags of that many nodes.
func flagsSize(nodes int) int { return flagBytes * nodeFlags * nodes }

// Add returns a flag. After a replay, report turns its value into an error unless that is 0. A
// node's kernel uses at most nodeFlags.
func (f *Flags) Add(report func(word uint32) error) []byte {
	at := flagBytes * len(f.reports)
	f.reports = append(f.reports, report)
	return f.block[at : at+flagBytes : at+flagBytes]
}

// check reads the flags after a replay and returns the first error.
func (f *Flags) check(mem DeviceMemory) error {
	if len(f.reports) == 0 {
		return nil
	}
	if n := flagBytes * len(f.reports); len(f.read) != n {
		f.read = make([]byte, n)
	}
	if err := mem.CopyOut(f.read, f.block[:len(f.read)]); err != nil {
		return err
	}
	for i, report := range f.reports {
		if word := binary.LittleEndian.Uint32(f.read[flagBytes*i:]); word != 0 {
			if err := report(word); err != nil {
				return err
			}
		}
	}
	return nil
}
