package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"memopt/internal/fileio"
	"memopt/internal/inputfile"
)

// PointSchema is the schema of a point's result.
const PointSchema = "memopt.point/v1"

// Outcome is how a point ended.
type Outcome string

// The outcomes.
const (
	Done       Outcome = "done"
	Infeasible Outcome = "unfit"      // does not fit; the exit code is 3
	Negative   Outcome = "negative"   // another result that is no success, such as numbers that differ
	Failed     Outcome = "failed"     // an error, or a process that died
	Unfinished Outcome = "unfinished" // no result yet
)

// Killed is the exit code of a point whose process was killed.
const Killed = -1

// The exit codes that have a meaning here.
const (
	codeInfeasible = 3
	codeDiffers    = 4
	codeAbove      = 5
	codeInvalid    = 6
	codeEarly      = 8
	codeSaved      = 9
	codeSignal     = 128 // and above: ended by a signal that the program has caught
)

// outcomeOf is the meaning of a verb's exit code.
func outcomeOf(code int) Outcome {
	switch code {
	case 0:
		return Done
	case codeInfeasible:
		return Infeasible
	case codeDiffers, codeAbove, codeInvalid, codeEarly:
		return Negative
	case codeSaved:
		return Unfinished
	}
	if code >= codeSignal {
		return Unfinished
	}
	return Failed
}

// Result is the stored result of a point.
type Result struct {
	Schema    string          `json:"schema"`
	ID        string          `json:"id"`
	Verb      string          `json:"verb"`
	Models    []string        `json:"models"`
	Dims      map[string]any  `json:"dims"`
	Flags     map[string]any  `json:"flags"`
	Outcome   Outcome         `json:"outcome"`
	ExitCode  int             `json:"exit_code"`
	Error     string          `json:"error,omitempty"`
	ElapsedMS float64         `json:"elapsed_ms"`
	Version   string          `json:"version"`
	Report    json.RawMessage `json:"report,omitempty"` // the verb's report, without lists
}

// Folder is the shared folder of a sweep.
type Folder struct{ Path string }

// The folders in it.
const (
	pointsName = "points"
	locksName  = "locks"
	logsName   = "logs"
	jobsName   = "jobs"
)

// Make creates missing folders.
func (f *Folder) Make() error {
	for _, name := range []string{pointsName, locksName, logsName} {
		if err := fileio.MakeFolder(filepath.Join(f.Path, name)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) point(id string) string { return filepath.Join(f.Path, pointsName, id+".jsonl") }
func (f *Folder) lock(id string) string  { return filepath.Join(f.Path, locksName, id+".lock") }
func (f *Folder) log(id string) string   { return filepath.Join(f.Path, logsName, id+".log") }

// Job is the folder of a training job.
func (f *Folder) Job(id string) string { return filepath.Join(f.Path, jobsName, id) }

// maxResult bounds a result's file, which others can write, too.
const maxResult = 64 << 20

// Load returns the result of a point; nil without a result. The error says why its file cannot be read.
func (f *Folder) Load(id string) (*Result, error) {
	path := f.point(id)
	data, err := inputfile.Read(path, maxResult)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &Result{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(r); err != nil || r.Schema != PointSchema || r.ID != id {
		return nil, fmt.Errorf("%s: is not the result of the point that it is called by", path)
	}
	return r, nil
}

// save writes a result, whole.
func (f *Folder) save(r *Result) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return fileio.WriteFile(f.point(r.ID), append(data, '\n'))
}

// brief is a report without its lists, which can be as long as the model.
func brief(report []byte) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(report))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	dropLists(tree)
	return json.Marshal(tree)
}

func dropLists(tree map[string]any) {
	for key, v := range tree {
		switch x := v.(type) {
		case []any:
			delete(tree, key)
		case map[string]any:
			dropLists(x)
		}
	}
}
