package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"memopt/internal/fileio"
	"memopt/internal/inputfile"
	"memopt/internal/mapfile"
	"memopt/train/safetensors"
)

// Checkpoint is a checkpoint that has been loaded. Its tensors lie in its files, which are mapped.
type Checkpoint struct {
	Manifest
	Path    string            // of its folder
	Weights *safetensors.File // the parameters
	Others  *safetensors.File // the other states
	lock    *fileio.Lock      // of the home that they lie in, or nil
}

// ErrNone is wrapped by errors about folders that have no checkpoint.
var ErrNone = errors.New("no checkpoint is there")

// maxManifest bounds the bytes of a manifest; most of them are the plan's.
const maxManifest = 1 << 30

// Load opens a checkpoint: its folder, or the newest in a job's folder or in the checkpoints folder
// of a job. Every file's hash is compared with the manifest's.
func Load(path string) (*Checkpoint, error) { return load(path, true) }

// load is Load; apart says that another one may have the checkpoint's home.
func load(path string, apart bool) (*Checkpoint, error) {
	path, err := Find(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Path: path}
	if err := c.load(apart); err != nil {
		c.Close()
		return nil, fmt.Errorf("%w; take another checkpoint of the job, if it has one", err)
	}
	return c, nil
}

// ReadManifest reads the manifest of the checkpoint that Load opens, without its tensors.
func ReadManifest(path string) (*Manifest, error) {
	path, err := Find(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Path: path}
	return &c.Manifest, c.readManifest()
}

// Find returns the folder of the checkpoint that Load opens, for example job/checkpoints/step-100
// for job.
func Find(path string) (string, error) {
	if _, err := os.Stat(filepath.Join(path, manifestName)); err == nil {
		return path, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s: %w: it is a file; wanted a job's folder or a checkpoint's", path, ErrNone)
	}
	for _, dir := range []string{filepath.Join(path, folderName), path} {
		list, err := steps(dir)
		if err != nil {
			return "", err
		}
		if len(list) > 0 {
			return stepPath(dir, list[len(list)-1]), nil
		}
	}
	return "", fmt.Errorf("%s: %w: neither %s nor %s/%sN/%s is in it", path, ErrNone,
		manifestName, folderName, stepPrefix, manifestName)
}

// load reads the files.
func (c *Checkpoint) load(apart bool) (err error) {
	if err := c.readManifest(); err != nil {
		return err
	}
	if c.States != nil && apart {
		if err := c.takeHome(); err != nil {
			return err
		}
		c.Manifest = Manifest{}
		if err := c.readManifest(); err != nil { // it may have changed before
			return err
		}
	}
	if c.States != nil {
		return c.openStates()
	}
	if c.Weights, err = c.open(weightsName); err != nil {
		return err
	}
	c.Others, err = c.open(othersName)
	return err
}

// readManifest reads the manifest alone.
func (c *Checkpoint) readManifest() error {
	path := filepath.Join(c.Path, manifestName)
	text, err := inputfile.Read(path, maxManifest)
	if err != nil {
		return err
	}
	if err := c.Manifest.decode(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// open opens a file of tensors and compares it with the manifest.
func (c *Checkpoint) open(name string) (*safetensors.File, error) {
	want, err := c.file(name)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.Path, name)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s, which %s names, cannot be read: %w", path, manifestName, errors.Unwrap(err))
	}
	info, err := f.Stat()
	f.Close()
	if err == nil && info.Size() != want.Bytes {
		return nil, fmt.Errorf("%s has %d bytes; %s wants %d: it is cut off or another file",
			path, info.Size(), manifestName, want.Bytes)
	}
	file, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	got, err := sumOf(file)
	if err == nil && got != want.SHA256 {
		err = fmt.Errorf("%s has SHA-256 %s; %s wants %s: it has been edited or is another file",
			path, got, manifestName, want.SHA256)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// sumOf hashes a file.
func sumOf(f *safetensors.File) (text string, err error) {
	defer mapfile.Guard(&err)()
	return sum(f.Bytes()), nil
}

// HasState reports whether the checkpoint has the contents of a state of that name.
func (c *Checkpoint) HasState(name string) bool {
	_, weight := c.Weights.Tensor(name)
	_, other := c.Others.Tensor(name)
	return weight || other
}

// Close ends the mappings of the files.
func (c *Checkpoint) Close() error {
	return errors.Join(c.Weights.Close(), c.Others.Close(), c.lock.Release())
}
