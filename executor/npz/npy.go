package npz

import (
	"encoding/binary"
	"fmt"
	"io"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/memlimit"
)

// WriteArray writes a tensor as a .npy file.
func WriteArray(w io.Writer, t *executor.Tensor) error {
	if descrs[t.DType] == "" {
		return fmt.Errorf("numpy has no type for %v", t)
	}
	if n, ok := executor.Bytes(t.DType, t.Shape); !ok || n != len(t.Data) {
		return fmt.Errorf("%v has %d bytes", t, len(t.Data))
	}
	h := header{dtype: t.DType, shape: t.Shape}
	if _, err := w.Write(h.format()); err != nil {
		return err
	}
	_, err := w.Write(t.Data)
	return err
}

// ReadArray reads a .npy file to its end.
func ReadArray(r io.Reader) (*executor.Tensor, error) { return readArray(r, -1) }

// readArray reads a .npy file. size is its length in bytes, or -1 if unknown.
func readArray(r io.Reader, size int64) (*executor.Tensor, error) {
	h, length, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	n, err := h.bytes()
	if err != nil {
		return nil, err
	}
	if size >= 0 {
		if err := h.complete(n, size-length); err != nil {
			return nil, err
		}
		if err := memlimit.Check(int64(n), "an array of %v%v", h.dtype, h.shape); err != nil {
			return nil, err
		}
	}
	data, err := readExactly(r, n)
	if err != nil {
		return nil, fmt.Errorf("an array of %v%v: %w", h.dtype, h.shape, err)
	}
	t := &executor.Tensor{DType: h.dtype, Shape: h.shape, Data: data}
	return t, h.arrange(t)
}

// bytes returns the size of the array.
func (h *header) bytes() (int, error) {
	n, ok := executor.Bytes(h.dtype, h.shape)
	if !ok {
		return 0, fmt.Errorf("an array of shape %v is too large", h.shape)
	}
	return n, nil
}

// complete makes sure that the n bytes of the array, and no others, follow the header.
func (h *header) complete(n int, there int64) error {
	if there != int64(n) {
		return fmt.Errorf("an array of %v%v has %d bytes, wanted %d", h.dtype, h.shape, there, n)
	}
	return nil
}

// readHeader reads the part before the array, and returns its length.
func readHeader(r io.Reader) (h header, length int64, err error) {
	var start [12]byte
	if _, err := io.ReadFull(r, start[:10]); err != nil {
		return h, 0, fmt.Errorf("not a .npy file: %w", err)
	}
	if string(start[:len(magic)]) != magic {
		return h, 0, fmt.Errorf("not a .npy file: it starts with %q", start[:len(magic)])
	}
	n, before := int(binary.LittleEndian.Uint16(start[8:])), 10
	switch major := start[6]; major {
	case 1:
	case 2, 3:
		if _, err := io.ReadFull(r, start[10:]); err != nil {
			return h, 0, fmt.Errorf("cut off in the header: %w", err)
		}
		n, before = int(binary.LittleEndian.Uint32(start[8:])), 12
	default:
		return h, 0, fmt.Errorf("version %d of .npy is not supported", major)
	}
	if n > maxHeader {
		return h, 0, fmt.Errorf("the header has %d bytes, wanted at most %d", n, maxHeader)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, 0, fmt.Errorf("cut off in the header: %w", err)
	}
	h, err = parseHeader(string(text))
	return h, int64(before + n), err
}

// readExactly reads n bytes and makes sure that the file ends there. Memory grows with the data
// that is really there, because a header can promise anything.
func readExactly(r io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	data := make([]byte, 0, (min(n, step)+7)&^7)
	for len(data) < n {
		if len(data) == cap(data) {
			if err := memlimit.Check(int64(min(n, 2*cap(data))), ""); err != nil {
				return nil, err
			}
			larger := make([]byte, len(data), (min(n, 2*cap(data))+7)&^7)
			copy(larger, data)
			data = larger
		}
		got, err := io.ReadFull(r, data[len(data):min(n, cap(data))])
		data = data[:len(data)+got]
		if err != nil {
			return nil, fmt.Errorf("cut off after %d of %d bytes", len(data), n)
		}
	}
	var more [1]byte
	if _, err := io.ReadFull(r, more[:]); err != io.EOF {
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("more than %d bytes", n)
	}
	return data, nil
}

// arrange converts the array to this module's form: little-endian, the last dim running fastest,
// bools 0 or 1.
func (h *header) arrange(t *executor.Tensor) error {
	size := t.DType.Bits() / 8
	if h.swapped {
		for i := 0; i < len(t.Data); i += size {
			e := t.Data[i : i+size]
			for a, b := 0, size-1; a < b; a, b = a+1, b-1 {
				e[a], e[b] = e[b], e[a]
			}
		}
	}
	if t.DType == graph.Bool {
		for i, b := range t.Data {
			if b > 1 {
				return fmt.Errorf("bool %d is %d", i, b)
			}
		}
	}
	if h.fortran && len(t.Shape) > 1 && len(t.Data) > 0 {
		if err := memlimit.Check(int64(len(t.Data)), "an array of %v in Fortran's order", t); err != nil {
			return err
		}
		t.Data = transpose(t.Data, t.Shape, size)
	}
	return nil
}

// transpose turns an array whose first dim runs fastest into one whose last dim does.
func transpose(from []byte, shape []int, size int) []byte {
	strides := make([]int, len(shape)) // in from, in bytes
	n := size
	for i, d := range shape {
		strides[i] = n
		n *= d
	}
	to := make([]byte, len(from))
	place := make([]int, len(shape))
	at := 0
	for i := 0; i < len(to); i += size {
		copy(to[i:i+size], from[at:at+size])
		for axis := len(shape) - 1; axis >= 0; axis-- {
			place[axis]++
			at += strides[axis]
			if place[axis] < shape[axis] {
				break
			}
			at -= shape[axis] * strides[axis]
			place[axis] = 0
		}
	}
	return to
}
