package onnx

import (
	"bufio"
	"fmt"
	"io"

	"memopt/graph"
)

// mover decides which tensors of a model that is being encoded lie in external
// data, and gathers those that go into the output's own data file.
type mover struct {
	name      string // of the output's data file, as the model refers to it
	threshold int64  // least bytes of an initializer that moves there; 0 means that all stay
	sameDir   bool   // external data that the model has is reachable from the output
	from      *externals
	used      map[string]bool          // locations of external data that the model has
	moved     map[graph.External]int64 // offsets of the parts that were moved from external data
	chunks    []chunk                  // of the data file, in order
	size      int64                    // of the data file
}

// chunk is the contents of one tensor in the data file.
type chunk struct {
	tensor string
	offset int64
	size   int64
	source graph.Source
}

// place says where in external data a tensor is to lie; nil is in the model's file.
func (m *mover) place(t *graph.TensorData, weight bool) (*graph.External, error) {
	if t.External != nil {
		m.used[t.External.Location] = true
		if m.sameDir {
			return t.External, nil
		}
	}
	size, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	if t.External != nil {
		return m.movedFrom(t, size)
	}
	if !weight || m.threshold <= 0 || size < m.threshold || t.Source == nil || t.DType == graph.String {
		return nil, nil
	}
	return m.add(t, size), nil
}

// movedFrom moves a tensor from the model's external data; tensors that share their
// bytes there share them again.
func (m *mover) movedFrom(t *graph.TensorData, size int64) (*graph.External, error) {
	if t.Source == nil {
		return nil, fmt.Errorf("external data %q: no contents", t.External.Location)
	}
	key := graph.External{Location: t.External.Location, Offset: t.External.Offset, Length: size}
	if offset, ok := m.moved[key]; ok {
		return &graph.External{Location: m.name, Offset: offset, Length: size}, nil
	}
	x := m.add(t, size)
	m.moved[key] = x.Offset
	return x, nil
}

// Offsets of large tensors are multiples of the largest granularity that runtimes need to map them;
// small ones are aligned for vector instructions.
const (
	smallAlign = 64
	largeAlign = 4096
	largeFrom  = 64 << 10
)

func (m *mover) add(t *graph.TensorData, size int64) *graph.External {
	align := int64(smallAlign)
	if size >= largeFrom {
		align = largeAlign
	}
	offset := (m.size + align - 1) / align * align
	m.chunks = append(m.chunks, chunk{t.Name, offset, size, t.Source})
	m.size = offset + size
	return &graph.External{Location: m.name, Offset: offset, Length: size}
}

// stays reports whether an encoded tensor stays as it is.
func (m *mover) stays(wire []byte, weight bool) (bool, error) {
	stays := !weight || m.threshold <= 0
	err := reader{rest: wire, pos: -1}.eachOf(tensorDataPlace, func(*field) error {
		stays = false
		return nil
	})
	return stays, err
}

// writeData writes the data file. External data are copied from file to file; tensors of the
// model's own file and of the heap are written from where they are.
func (m *mover) writeData(w io.Writer) error {
	b := buffered(w)
	var from copier
	defer from.close()
	var pad [largeAlign]byte
	at := int64(0)
	for _, c := range m.chunks {
		if _, err := b.Write(pad[:c.offset-at]); err != nil {
			return err
		}
		if err := c.writeTo(w, b, &from); err != nil {
			return fmt.Errorf("tensor %q: %w", c.tensor, err)
		}
		at = c.offset + c.size
	}
	return b.Flush()
}

// writeTo writes the tensor through b, the buffer of w, or to w itself.
func (c *chunk) writeTo(w io.Writer, b *bufio.Writer, from *copier) error {
	if o, ok := c.source.(*outside); ok {
		if c.size < largeFrom {
			return from.copy(b, o, c.size)
		}
		if err := b.Flush(); err != nil {
			return err
		}
		return from.copy(w, o, c.size)
	}
	data, err := c.source.Bytes()
	if err != nil {
		return err
	}
	if int64(len(data)) != c.size {
		return wrongSize(int64(len(data)), c.size)
	}
	_, err = b.Write(data)
	return err
}
