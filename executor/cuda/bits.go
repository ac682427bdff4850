package cuda

import (
	"memopt/executor"
	"memopt/graph"
)

// bitSize returns the bytes of an integer in the names of kernels of bits.cu, "" for other types.
func bitSize(t graph.DType) string {
	if !t.IsInteger() || t.Bits() < 8 || t.Bits() > 64 {
		return ""
	}
	return string(rune('0' + t.Bits()/8))
}

// bitwise makes kernels of bits.cu, of two integers of the same type.
func bitwise(name string) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		size := bitSize(p.DType(0))
		if size == "" || p.DType(1) != p.DType(0) {
			return nil, noTypes(p)
		}
		return newBroadcast(d, "bits", "bits_"+name+"_"+size, 2, 4)
	}
}

// newBitShift makes the kernel of BitShift.
func newBitShift(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if p.Node.Str("direction", "") == "LEFT" {
		return bitwise("left")(d, p)
	}
	return bitwise("right")(d, p)
}

// newBitwiseNot makes the kernel of BitwiseNot.
func newBitwiseNot(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size := bitSize(p.DType(0))
	if size == "" {
		return nil, noTypes(p)
	}
	return newUnary(d, p, "bits", "bits_not_"+size)
}
