package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"memopt/internal/fileio"
	"memopt/train/safetensors"
)

// Names in a job's folder and in that of a checkpoint.
const (
	lockName     = "lock"
	folderName   = "checkpoints"
	stepPrefix   = "step-"
	weightsName  = "weights.safetensors"
	othersName   = "optimizer.safetensors"
	manifestName = "checkpoint.json"
)

// Job is a job's folder, which no other process writes while it is open.
type Job struct {
	dir, checkpoints string
	lock             *fileio.Lock
}

// OpenJob opens a job's folder, or makes it, takes its lock, and removes the remains of an
// interrupted save. If another process has the lock, the error names it. A folder of checkpoints
// that is a symbolic link is refused.
func OpenJob(dir string) (*Job, error) {
	j := &Job{dir: dir, checkpoints: filepath.Join(dir, folderName)}
	if err := fileio.MakeFolder(j.checkpoints); err != nil {
		return nil, err
	}
	var err error
	j.lock, err = fileio.TakeLock(filepath.Join(dir, lockName), holder())
	if locked := (*fileio.LockedError)(nil); errors.As(err, &locked) {
		return nil, fmt.Errorf("another job writes to %s: %w; wait for its end, or choose another folder", dir, err)
	}
	if err != nil {
		return nil, err
	}
	if err := fileio.RemoveLeftovers(j.checkpoints); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// holder says who has a lock.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("pid %d on %s since %s", os.Getpid(), host, time.Now().Format(time.RFC3339))
}

// Dir returns the job's folder.
func (j *Job) Dir() string { return j.dir }

// Close gives the job's folder back.
func (j *Job) Close() error {
	l := j.lock
	j.lock = nil
	return l.Release()
}

// Steps returns the steps of the complete checkpoints, ascending.
func (j *Job) Steps() ([]int64, error) { return steps(j.checkpoints) }

// Path returns the folder of the checkpoint of a step, which need not exist.
func (j *Job) Path(step int64) string { return stepPath(j.checkpoints, step) }

func stepPath(dir string, step int64) string {
	return filepath.Join(dir, stepPrefix+strconv.FormatInt(step, 10))
}

// steps lists the checkpoints in a folder, which need not exist.
func steps(dir string) ([]int64, error) {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []int64
	for _, entry := range list {
		text, ok := strings.CutPrefix(entry.Name(), stepPrefix)
		n, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, entry.Name(), manifestName)); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Save writes the checkpoint of step m.Step and returns its path. read copies the contents of a
// tensor of either list to dst. Save sets m's Schema, Saved and Files. An older checkpoint of
// that step is replaced. After an error, as on a full disk, all is as it was.
func (j *Job) Save(m *Manifest, weights, others []safetensors.Entry,
	read func(name string, dst []byte) error) (path string, err error) {
	path = j.Path(m.Step)
	folder, err := fileio.CreateFolder(path)
	if err != nil {
		return "", err
	}
	defer folder.Discard()
	m.Schema, m.Saved, m.Files, m.States = Schema, time.Now().UTC().Format(time.RFC3339), nil, nil
	for _, part := range []struct {
		name    string
		entries []safetensors.Entry
	}{{weightsName, weights}, {othersName, others}} {
		file, err := writeTensors(folder, part.name, part.entries, read)
		if err != nil {
			return "", err
		}
		m.Files = append(m.Files, file)
	}
	if err := m.check(); err != nil {
		return "", fmt.Errorf("cannot save step %d: %w", m.Step, err)
	}
	text, err := m.encode()
	if err != nil {
		return "", fmt.Errorf("cannot save step %d: %w", m.Step, err)
	}
	err = folder.Write(manifestName, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return "", err
	}
	return path, folder.Commit()
}

// writeTensors writes a file of tensors, and hashes it meanwhile.
func writeTensors(folder *fileio.Folder, name string, entries []safetensors.Entry,
	read func(name string, dst []byte) error) (File, error) {
	h := &counter{h: sha256.New()}
	err := folder.Write(name, func(w io.Writer) error {
		return safetensors.Write(io.MultiWriter(w, h), entries, map[string]string{"format": Schema},
			func(i int, dst []byte) error { return read(entries[i].Name, dst) })
	})
	return File{Name: name, Bytes: h.n, SHA256: hex.EncodeToString(h.h.Sum(nil))}, err
}

// counter hashes and counts the bytes written to it.
type counter struct {
	h hash.Hash
	n int64
}

// Write never fails.
func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.h.Write(p)
}

// Prune removes the oldest checkpoints until at most limit are left. The newest always stays; a
// limit below 1 means no limit.
func (j *Job) Prune(limit int) error {
	list, err := j.Steps()
	if err != nil || limit < 1 {
		return err
	}
	for _, step := range list[:max(len(list)-limit, 0)] {
		if err := fileio.RemoveFolder(j.Path(step)); err != nil {
			return err
		}
	}
	return nil
}
