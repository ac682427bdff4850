package doctor

import (
	"io"
	"strings"
	"sync"
)

// tailBytes is the number of bytes kept of a command's output.
const tailBytes = 300

// tail keeps the end of the written text, and passes all of it on.
type tail struct {
	mu   sync.Mutex
	also io.Writer // may be nil
	last []byte
}

// passed passes on text for another stream than a tail's, in turn with the tail.
type passed struct{ t *tail }

// Write passes data on.
func (p passed) Write(data []byte) (int, error) {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	return p.t.also.Write(data)
}

// beside is where the other stream goes.
func (t *tail) beside() io.Writer { return passed{t} }

// Write keeps the end of data.
func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, data...)
	if len(t.last) > tailBytes {
		t.last = append(t.last[:0], t.last[len(t.last)-tailBytes:]...)
	}
	if t.also != nil {
		return t.also.Write(data)
	}
	return len(data), nil
}

// String returns the kept text as one line.
func (t *tail) String() string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(t.last), "")), " ")
}
