package events

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Metrics is a line of metrics.jsonl: the log of a step, or the result of an evaluation. Fields
// that were not measured are nil or 0 and left out (docs/schemas/metrics.schema.json).
type Metrics struct {
	Step  int64   `json:"step"`  // updates so far, those that were left out included
	Epoch float64 `json:"epoch"` // with the part of the running one that is done

	Loss         *Number `json:"loss,omitempty"`          // mean of the updates since the last line
	LearningRate *Number `json:"learning_rate,omitempty"` // of the last update
	GradNorm     *Number `json:"grad_norm,omitempty"`     // before clipping, of the last update
	LossScale    *Number `json:"loss_scale,omitempty"`    // of the last update, where one is in use
	Skipped      int64   `json:"skipped,omitempty"`       // updates since the last line that were left out, or made without a batch

	TokensPerSecond  *Number `json:"tokens_per_s,omitempty"`
	SamplesPerSecond *Number `json:"samples_per_s,omitempty"` // where samples are not tokens

	ArenaBytes int64 `json:"arena_bytes,omitempty"` // measured, of the steps so far
	HostBytes  int64 `json:"host_bytes,omitempty"`  // likewise, of values that move to the host
	RSSBytes   int64 `json:"rss_bytes,omitempty"`   // of the process, at its highest

	EvalLoss *Number `json:"eval_loss,omitempty"` // mean over the evaluation data
}

// MetricsWriter writes metrics.jsonl. It is for one goroutine at a time.
type MetricsWriter struct{ a *appender }

// OpenMetrics opens a file of metrics, or makes it. A job that goes on after step upTo begins by
// cutting off the lines of later steps, which it will make again, and a last line that is torn. The
// cut is one call of the system: a job that is killed leaves the file as it was, or cut. The error
// says where a line before it cannot be read.
func OpenMetrics(path string, upTo int64) (*MetricsWriter, error) {
	a, held, err := openAppender(path)
	if err != nil {
		return nil, err
	}
	size, err := linesUpTo(path, held, upTo)
	if err == nil {
		err = a.cut(size)
	}
	if err != nil {
		a.file.Close()
		return nil, err
	}
	return &MetricsWriter{a}, nil
}

// linesUpTo returns how many bytes the leading lines of steps up to one take.
func linesUpTo(path string, file io.Reader, upTo int64) (size int64, err error) {
	r := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return size, nil // the rest is torn, or empty
		case errors.Is(err, bufio.ErrBufferFull):
			return 0, fmt.Errorf("%s:%d: the line is longer than any of a training job's; move the file away",
				path, number)
		case err != nil:
			return 0, err
		}
		var m struct{ Step *int64 }
		if err := json.Unmarshal(line, &m); err != nil || m.Step == nil {
			return 0, fmt.Errorf(`%s:%d: %.60q: wanted a JSON object with a "step"; mend the line, or move the file away`,
				path, number, line)
		}
		if *m.Step > upTo {
			return size, nil
		}
		size += int64(len(line))
	}
}

// Write appends a line. It reports a disk that is full once; the lines are written later.
func (w *MetricsWriter) Write(m *Metrics) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return w.a.add(append(line, '\n'))
}

// Close writes the pending records and closes the file.
func (w *MetricsWriter) Close() error { return w.a.close() }
