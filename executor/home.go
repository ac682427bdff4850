package executor

import (
	"errors"
	"fmt"

	"memopt/graph"
	"memopt/internal/mapfile"
)

// Home is the memory of states in a file that is mapped, where they have a period of a step: each state has two
// places there. Steps read the present values, and write the next ones into the other place, so that the values of
// the last Commit are in the file, as they were, until the next. The pages are the file's: the system may write them
// out and drop them, and they are no memory of the process's own (RLIMIT_DATA, a cgroup's limit but for what is in
// use).
//
// A state that is written a second time since the last Commit, such as a sum of gradients, is written where it is.
type Home struct {
	file   *mapfile.File
	places []place
	byName map[string]int
	kept   bool
	// Copies maps a further file of so many bytes to be written, for values that steps move to the host (Offload); nil:
	// they lie in memory. Its name is gone when it returns.
	Copies func(bytes int64) (*mapfile.File, error)
}

// Place says where a state lies in its file.
type Place struct {
	Name  string
	DType graph.DType
	Shape []int
	// At are the first bytes of its two places, which are multiples of PlaceAlignment.
	At [2]int64
	// Now is the place of the present values, 0 or 1.
	Now int
}

// PlaceAlignment is that of places: a page, so that none holds bytes of two.
const PlaceAlignment = 4096

// place is a Place at work.
type place struct {
	Place
	data  [2][]byte
	dirty bool // its values are newer than the last Commit
}

// LayPlaces lays tensors out one after the other, the two places of each beside each other, and returns the size of
// the file. ok is false if there is no such tensor, or the sum overflows.
func LayPlaces(list []Place) (bytes int64, ok bool) {
	for i := range list {
		n, ok := Bytes(list[i].DType, list[i].Shape)
		if !ok || list[i].DType == graph.Undefined || list[i].DType == graph.String {
			return 0, false
		}
		size := (int64(n) + PlaceAlignment - 1) / PlaceAlignment * PlaceAlignment
		list[i].At = [2]int64{bytes, bytes + size}
		if bytes += 2 * size; size < 0 || bytes < 0 {
			return 0, false
		}
	}
	return bytes, true
}

// NewHome returns the states of a file that is mapped to be written (mapfile.MapWritable). It takes the file over. kept
// says that the file has their values, of a job that goes on; else they are to be given (Store.Put, Store.Zero).
func NewHome(file *mapfile.File, list []Place, kept bool) (*Home, error) {
	h := &Home{file: file, byName: map[string]int{}, kept: kept}
	for _, p := range list {
		n, _ := Bytes(p.DType, p.Shape)
		x := place{Place: p}
		for k, at := range p.At {
			if at < 0 || at%PlaceAlignment != 0 || at > int64(len(file.Data)-n) {
				err := fmt.Errorf("state %q lies at byte %d: the file has %d", p.Name, at, len(file.Data))
				return nil, errors.Join(err, file.Close())
			}
			x.data[k] = file.Data[at : at+int64(n) : at+int64(n)]
		}
		h.byName[p.Name] = len(h.places)
		h.places = append(h.places, x)
	}
	return h, nil
}

// Commit makes the present values those that stay until the next Commit, if write, which makes their places known to
// whoever comes later, returns no error. Otherwise the values of the last Commit stay.
func (h *Home) Commit(write func(now []Place) error) error {
	now := make([]Place, len(h.places))
	for i := range h.places {
		now[i] = h.places[i].Place
	}
	if err := write(now); err != nil {
		return err
	}
	for i := range h.places {
		h.places[i].dirty = false
	}
	return nil
}

// Sync returns when all values are on the disk.
func (h *Home) Sync() error { return h.file.Sync() }

// Close ends the mapping. No store may use it any more.
func (h *Home) Close() error {
	if h == nil {
		return nil
	}
	h.places, h.byName = nil, nil
	return h.file.Close()
}

// find returns the number of a state's place, for a tensor of a type.
func (h *Home) find(name string, t *Tensor) (int, error) {
	i, ok := h.byName[name]
	if !ok {
		return 0, fmt.Errorf("state %q: the file of states has no place for it", name)
	}
	if p := &h.places[i]; p.DType != t.DType || !equalShapes(p.Shape, t.Shape) {
		return 0, fmt.Errorf("state %q is %v, and its place in the file of states is for %v", name, t,
			&Tensor{DType: p.DType, Shape: p.Shape})
	}
	return i, nil
}

// now is a state's present values.
func (h *Home) now(i int) []byte { return h.places[i].data[h.places[i].Now] }

// next is where its next values belong.
func (h *Home) next(i int) []byte {
	p := &h.places[i]
	if p.dirty {
		return p.data[p.Now]
	}
	return p.data[1-p.Now]
}

// turn makes the values in next the present ones.
func (h *Home) turn(i int) {
	if p := &h.places[i]; !p.dirty {
		p.Now, p.dirty = 1-p.Now, true
	}
}
