package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/fileio"
	"memopt/internal/inputfile"
	"memopt/internal/mapfile"
	"memopt/train/safetensors"
)

// Files of a home: the states, and the values that steps move there.
const (
	statesName = "states"
	copiesName = "copies"
)

// Resident says where the states of a manifest lie, in place of files of tensors: in the file "states" of its folder.
type Resident struct {
	Bytes int64 `json:"bytes"` // of the file
	// Boot is the start of the machine that the values were written in, "" if it is not known: those that the system
	// has not written to the disk end with it. Synced says that they are on the disk.
	Boot    string     `json:"boot"`
	Synced  bool       `json:"synced"`
	Tensors []Residing `json:"tensors"`
}

// Residing is a state of a Resident.
type Residing struct {
	Name   string   `json:"name"`
	DType  string   `json:"dtype"`
	Shape  []int    `json:"shape"`
	Weight bool     `json:"weight"` // else another state
	At     [2]int64 `json:"at"`     // the first bytes of its two places
	Now    int      `json:"now"`    // the place of its values: 0 or 1
}

// check returns an error for tensors that no file of so many bytes has.
func (r *Resident) check() error {
	end := int64(0) // of the place before: they lie in the order of the list
	for _, t := range r.Tensors {
		d, ok := graph.ParseDType(t.DType)
		n, fits := executor.Bytes(d, t.Shape)
		if !ok || !fits || t.Now < 0 || t.Now > 1 {
			return fmt.Errorf("states: %q: type %q, shape %v, place %d: there is no such tensor", t.Name, t.DType,
				t.Shape, t.Now)
		}
		for _, at := range t.At {
			if at < 0 || at%executor.PlaceAlignment != 0 || at > r.Bytes-int64(n) {
				return fmt.Errorf("states: %q lies at byte %d of %d", t.Name, at, r.Bytes)
			}
			if at < end {
				return fmt.Errorf("states: two lie at byte %d", at)
			}
			end = at + int64(n)
		}
	}
	return nil
}

// lost returns an error if the values may have ended with an earlier start of the machine.
func (r *Resident) lost() error {
	if r.Synced || r.Boot != "" && r.Boot == boot() {
		return nil
	}
	return errors.New("the machine was started anew before the states of the last update were on the disk")
}

// Lost returns an error if the states of a home's manifest may have ended with an earlier start of the machine.
func (m *Manifest) Lost() error {
	if m.States == nil {
		return nil
	}
	return m.States.lost()
}

// boot names this start of the machine, where the system tells it (Linux: proc(5), /proc/sys/kernel/random/boot_id).
func boot() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Home is a folder in which the states of a job lie while it trains (executor.Home). Its file "states" has them twice,
// and checkpoint.json says which are those of the last update: it is a checkpoint at any time, without a copy.
// One process at a time has it.
type Home struct {
	dir    string
	lock   *fileio.Lock
	states *executor.Home
	weight map[string]bool
}

// OpenHome takes a folder for the states of a job, or makes it. If another process has it, the error names that.
func OpenHome(dir string) (*Home, error) {
	if err := fileio.MakeFolder(dir); err != nil {
		return nil, err
	}
	lock, err := fileio.TakeLock(filepath.Join(dir, lockName), holder())
	if locked := (*fileio.LockedError)(nil); errors.As(err, &locked) {
		return nil, fmt.Errorf("another job has its states in %s: %w; wait for its end, or choose another folder",
			dir, err)
	}
	if err != nil {
		return nil, err
	}
	h := &Home{dir: dir, lock: lock, weight: map[string]bool{}}
	if err := fileio.RemoveLeftovers(dir); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Dir returns the folder.
func (h *Home) Dir() string { return h.dir }

// Has returns the manifest of the folder's checkpoint, nil if it has none that is whole. The error is that of one that
// cannot be read.
func (h *Home) Has() (*Manifest, error) {
	m, err := ReadManifest(h.dir)
	if errors.Is(err, ErrNone) {
		return nil, nil
	}
	if err != nil || m.Lost() != nil {
		return nil, err
	}
	return m, nil
}

// Load is the package's Load of the folder's own checkpoint.
func (h *Home) Load() (*Checkpoint, error) { return load(h.dir, false) }

// At reports whether a path is that of the folder.
func (h *Home) At(path string) bool {
	a, err := os.Stat(h.dir)
	b, e := os.Stat(path)
	return err == nil && e == nil && os.SameFile(a, b)
}

// Owns reports whether a checkpoint is the folder's own.
func (h *Home) Owns(c *Checkpoint) bool {
	return h != nil && c != nil && c.States != nil && h.At(c.Path)
}

// HomeBytes is the size of the file of states for the tensors of a job.
func HomeBytes(weights, others []safetensors.Entry) (int64, error) {
	_, bytes, err := lay(weights, others)
	return bytes, err
}

// lay gives the tensors of a job their places.
func lay(weights, others []safetensors.Entry) (list []executor.Place, bytes int64, err error) {
	for _, e := range slices.Concat(weights, others) {
		list = append(list, executor.Place{Name: e.Name, DType: e.DType, Shape: e.Shape})
	}
	bytes, ok := executor.LayPlaces(list)
	if !ok {
		return nil, 0, errors.New("the states of the job are of no size that a file has")
	}
	return list, bytes, nil
}

// Lay readies the file of states for the tensors of a job. from is the folder's own checkpoint that the job goes on
// with, nil for another job, which gives all values. The error of a full disk is one that fileio.Full knows.
func (h *Home) Lay(weights, others []safetensors.Entry, from *Checkpoint) (*executor.Home, error) {
	list, bytes, err := lay(weights, others)
	if err != nil {
		return nil, err
	}
	for _, e := range weights {
		h.weight[e.Name] = true
	}
	path := filepath.Join(h.dir, statesName)
	if from != nil {
		if err := from.places(list, bytes); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	} else if err := os.Remove(filepath.Join(h.dir, manifestName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // the states of another job must not be taken for this one's
	}
	f, err := fileio.OpenAppend(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if from != nil && info.Size() != bytes {
		return nil, errors.Join(from.cutOff(path, info), f.Close())
	}
	if err := fileio.Reserve(f, bytes); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	mapped, err := mapfile.MapWritable(f)
	if err != nil {
		return nil, err
	}
	if h.states, err = executor.NewHome(mapped, list, from != nil); err != nil {
		return nil, err
	}
	h.states.Copies = h.copies
	return h.states, nil
}

// copies maps a file of the folder for values that move there. The file has no name once it is mapped: it ends with the
// process.
func (h *Home) copies(bytes int64) (*mapfile.File, error) {
	path := filepath.Join(h.dir, copiesName)
	f, err := fileio.OpenAppend(path)
	if err != nil {
		return nil, err
	}
	defer os.Remove(path)
	if err := fileio.Reserve(f, bytes); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return mapfile.MapWritable(f)
}

// places takes the places of a job's states from a checkpoint in a home.
func (c *Checkpoint) places(list []executor.Place, bytes int64) error {
	byName := map[string]*Residing{}
	for i := range c.States.Tensors {
		byName[c.States.Tensors[i].Name] = &c.States.Tensors[i]
	}
	for i := range list {
		p := &list[i]
		t := byName[p.Name]
		if t == nil || t.DType != p.DType.String() || !slices.Equal(t.Shape, p.Shape) || t.At != p.At {
			return fmt.Errorf("has no %q of type %v%v where the job has it: it is of another model or optimizer",
				p.Name, p.DType, p.Shape)
		}
		p.Now = t.Now
	}
	if len(list) != len(byName) || bytes != c.States.Bytes {
		return fmt.Errorf("has %d states in %d bytes, and the job %d in %d: it is of another model or optimizer",
			len(byName), c.States.Bytes, len(list), bytes)
	}
	return nil
}

// Commit makes the present states the folder's checkpoint, in the time of a small file, with the position of m. synced
// waits until they are on the disk, so that they outlive the machine's start, too; without, they outlive the process.
// After an error the checkpoint before is still whole. Commit sets m's Schema, Saved, Files and States.
func (h *Home) Commit(m *Manifest, synced bool) error {
	if synced {
		if err := h.states.Sync(); err != nil {
			return err
		}
	}
	return h.states.Commit(func(now []executor.Place) error {
		r := &Resident{Boot: boot(), Synced: synced}
		for _, p := range now {
			r.Tensors = append(r.Tensors, Residing{p.Name, p.DType.String(), p.Shape, h.weight[p.Name], p.At, p.Now})
			n, _ := executor.Bytes(p.DType, p.Shape)
			size := p.At[1] - p.At[0]
			r.Bytes = max(r.Bytes, p.At[1]+max(size, int64(n)))
		}
		m.Schema, m.Saved, m.Files, m.States = Schema, time.Now().UTC().Format(time.RFC3339), []File{}, r
		if err := m.check(); err != nil {
			return fmt.Errorf("cannot save step %d: %w", m.Step, err)
		}
		text, err := m.encode()
		if err != nil {
			return fmt.Errorf("cannot save step %d: %w", m.Step, err)
		}
		return fileio.WriteFile(filepath.Join(h.dir, manifestName), text)
	})
}

// Close gives the folder back. The stores of its states are closed before.
func (h *Home) Close() error {
	if h == nil {
		return nil
	}
	err := errors.Join(h.states.Close(), h.lock.Release())
	h.states, h.lock = nil, nil
	return err
}

// cutOff is the error for a file of states of another size than the manifest's.
func (c *Checkpoint) cutOff(path string, info fs.FileInfo) error {
	return fmt.Errorf("%s has %d bytes; %s wants %d: it is cut off or another file", path, info.Size(), manifestName,
		c.States.Bytes)
}

// takeHome keeps a job from writing to the home of a checkpoint while it is open.
func (c *Checkpoint) takeHome() (err error) {
	c.lock, err = fileio.TakeLock(filepath.Join(c.Path, lockName), holder())
	if locked := (*fileio.LockedError)(nil); errors.As(err, &locked) {
		return fmt.Errorf("%s: %w: the states of its job change; wait for its end", c.Path, err)
	}
	return nil // whoever may not write the lock reads
}

// openStates opens the file of states of a checkpoint in a home, as files of tensors.
func (c *Checkpoint) openStates() (err error) {
	if err := c.States.lost(); err != nil {
		return fmt.Errorf("%s: %w", c.Path, err)
	}
	for weight, to := range map[bool]**safetensors.File{true: &c.Weights, false: &c.Others} {
		var entries []safetensors.Entry
		var begins []int
		for _, t := range c.States.Tensors {
			if t.Weight == weight {
				d, _ := graph.ParseDType(t.DType)
				entries = append(entries, safetensors.Entry{Name: t.Name, DType: d, Shape: t.Shape})
				begins = append(begins, int(t.At[t.Now]))
			}
		}
		path := filepath.Join(c.Path, statesName)
		file, info, err := inputfile.OpenRegular(path)
		if err != nil {
			return err
		}
		if info.Size() != c.States.Bytes {
			return errors.Join(c.cutOff(path, info), file.Close())
		}
		mapped, err := mapfile.Map(file)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if *to, err = safetensors.Lay(path, mapped, entries, begins); err != nil {
			return errors.Join(err, mapped.Close())
		}
	}
	return nil
}
