package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Schema names the format of manifests, which docs/schemas/checkpoint.schema.json describes.
const Schema = "memopt.checkpoint/v1"

// Manifest is a checkpoint's JSON file: the position of the job, and its identity.
type Manifest struct {
	Schema  string `json:"schema"`  // set by Save
	Version string `json:"version"` // of memopt
	Saved   string `json:"saved"`   // when, by the machine's clock (RFC 3339); for people only

	Step    int64 `json:"step"`    // updates that have been made, skipped ones included
	Epoch   int64 `json:"epoch"`   // of the next batch, from 0
	Batch   int64 `json:"batch"`   // the next one in the epoch, from 0
	Samples int64 `json:"samples"` // that have been trained on, in all epochs
	Tokens  int64 `json:"tokens"`  // likewise; 0 where data are no tokens

	Seed     uint64 `json:"seed"`      // of the model's random nodes
	DataSeed uint64 `json:"data_seed"` // of the order of samples

	Model        Model            `json:"model"`
	Data         Data             `json:"data"`
	Optimizer    json.RawMessage  `json:"optimizer"` // the job's settings
	Schedule     json.RawMessage  `json:"schedule"`
	LossScale    *LossScale       `json:"loss_scale"` // nil if losses are not scaled
	Accumulation int64            `json:"accumulation"`
	Dims         map[string]int64 `json:"dims"`
	Plan         json.RawMessage  `json:"plan,omitempty"`    // the plan file's JSON
	Options      json.RawMessage  `json:"options,omitempty"` // other settings that a job goes on with
	Metrics      *Metrics         `json:"metrics,omitempty"` // of the last step
	Files        []File           `json:"files"`             // set by Save
	States       *Resident        `json:"states,omitempty"`  // in a home, in place of Files; set by Home.Commit

	// SHA256 is that of the manifest's own text with zeros in the place of its digits. Set by Save.
	SHA256 string `json:"sha256"`
}

// Model identifies the model of a job.
type Model struct {
	Path            string `json:"path"`             // as the job was given it
	StructureSHA256 string `json:"structure_sha256"` // onnx.StructureSHA256
	FrozenSHA256    string `json:"frozen_sha256"`    // of the contents of all initializers that are no states of the job
}

// Data identifies the data of a job.
type Data struct {
	Paths    []string `json:"paths"`    // as the job was given them
	Samples  int64    `json:"samples"`  // in an epoch
	Identity string   `json:"identity"` // the source's hash of names, sizes and contents
}

// LossScale is the state of a loss scale.
type LossScale struct {
	Scale float64 `json:"scale"`
	Good  int64   `json:"good"` // steps without an overflow since it changed
}

// Metrics are numbers of the last step. Those that are not finite, which JSON does not have, are
// left out with the others.
type Metrics struct {
	Loss float64  `json:"loss"`
	Eval *float64 `json:"eval,omitempty"`
}

// finite reports whether all numbers are finite.
func (m *Metrics) finite() bool {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	return m == nil || finite(m.Loss) && (m.Eval == nil || finite(*m.Eval))
}

// File is a file of a checkpoint.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hexadecimal
}

// check returns an error for an invalid manifest.
func (m *Manifest) check() error {
	switch {
	case m.Schema != Schema:
		return fmt.Errorf("schema is %.40q; wanted %q: it is no checkpoint, or one of a later release",
			m.Schema, Schema)
	case m.Step < 0 || m.Epoch < 0 || m.Batch < 0 || m.Samples < 0 || m.Tokens < 0:
		return fmt.Errorf("step %d, epoch %d, batch %d, samples %d, tokens %d: none can be negative",
			m.Step, m.Epoch, m.Batch, m.Samples, m.Tokens)
	case m.Accumulation < 1:
		return fmt.Errorf("accumulation is %d; wanted 1 or more", m.Accumulation)
	}
	if m.States != nil {
		return m.States.check()
	}
	for _, name := range []string{weightsName, othersName} {
		if _, err := m.file(name); err != nil {
			return err
		}
	}
	return nil
}

// file returns the manifest's record of a file.
func (m *Manifest) file(name string) (File, error) {
	for _, f := range m.Files {
		if f.Name == name {
			return f, nil
		}
	}
	return File{}, fmt.Errorf("files: %s is missing", name)
}

// zeros stand for a manifest's own hash while it is computed.
var zeros = strings.Repeat("0", 2*sha256.Size)

// encode returns a manifest's text, with its hash.
func (m *Manifest) encode() ([]byte, error) {
	m.SHA256 = zeros
	if !m.Metrics.finite() {
		m.Metrics = nil
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	m.SHA256 = sum(text)
	at := bytes.LastIndex(text, []byte(zeros)) // the last field
	copy(text[at:], m.SHA256)
	return text, nil
}

// decode reads a manifest and checks it.
func (m *Manifest) decode(text []byte) error {
	if err := json.Unmarshal(text, m); err != nil {
		return fmt.Errorf("%w: it is cut off or has been edited", err)
	}
	if err := m.check(); err != nil {
		return err
	}
	if at := bytes.LastIndex(text, []byte(m.SHA256)); at >= 0 && len(m.SHA256) == len(zeros) {
		text = append(append(bytes.Clone(text[:at]), zeros...), text[at+len(zeros):]...)
	}
	if got := sum(text); got != m.SHA256 {
		return fmt.Errorf("has SHA-256 %s; wanted %s: it has been edited", got, m.SHA256)
	}
	return nil
}

// sum returns a SHA-256 in hexadecimal.
func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}
