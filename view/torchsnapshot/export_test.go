package torchsnapshot

import (
	"bufio"
	"bytes"
)

// PickleInts pickles a list of integers.
func PickleInts(list []int64) []byte {
	var b bytes.Buffer
	p := pickler{w: bufio.NewWriter(&b)}
	p.op(opProto)
	p.op(2)
	l := p.list()
	for _, n := range list {
		l.item()
		p.int(n)
	}
	l.done()
	p.op(opStop)
	p.w.Flush()
	return b.Bytes()
}
