package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
	"memopt/internal/test/schematest"
)

func num(x float64) *Number { return new(Number(x)) }

// full is a line with all fields.
func full(step int64) *Metrics {
	return &Metrics{Step: step, Epoch: 0.25, Loss: num(2.5), LearningRate: num(5e-5), GradNorm: num(math.Inf(1)),
		LossScale: num(65536), Skipped: 1, TokensPerSecond: num(1e4), SamplesPerSecond: num(12.5), ArenaBytes: 1 << 30,
		RSSBytes: 1 << 31, EvalLoss: num(math.NaN())}
}

// TestMetricsLine: the fields of the contract, as the schema has them, and numbers that JSON does not have.
func TestMetricsLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	w, err := OpenMetrics(path, 0)
	require.NoError(t, err)
	require.NoError(t, w.Write(&Metrics{Step: 1, Loss: num(3), LearningRate: num(0), GradNorm: num(math.Inf(-1))}))
	require.NoError(t, w.Write(full(2)))
	require.NoError(t, w.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, `{"step":1,"epoch":0,"loss":3,"learning_rate":0,"grad_norm":"-Infinity"}
{"step":2,"epoch":0.25,"loss":2.5,"learning_rate":0.00005,"grad_norm":"Infinity","loss_scale":65536,"skipped":1,`+
		`"tokens_per_s":10000,"samples_per_s":12.5,"arena_bytes":1073741824,"rss_bytes":2147483648,"eval_loss":"NaN"}
`, string(text))
	schema := schematest.Load(t, schematest.Folder(t), "metrics")
	schema.Described(t)
	for line := range bytes.Lines(text) {
		schema.Check(t, line)
		var m Metrics
		require.NoError(t, json.Unmarshal(line, &m))
		again, err := json.Marshal(&m)
		require.NoError(t, err)
		require.Equal(t, string(line), string(again)+"\n")
	}
	require.Error(t, schema.Validate([]byte(`{"step":1,"epoch":1,"loss":"nan"}`)))
	require.Error(t, json.Unmarshal([]byte(`{"loss":"nan"}`), &Metrics{}))
}

// TestResume: whatever a job had written, and wherever it was killed, after a resumption the file has
// the lines of a job that was never stopped.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, fmt.Sprintf("%d.jsonl", rapid.Uint64().Draw(t, "name")))
		defer os.Remove(path)
		const last = 12
		want, err := linesOf(path, 1, last)
		require.NoError(t, err)
		saved := rapid.Int64Range(0, last).Draw(t, "saved")
		reached := rapid.Int64Range(saved, last).Draw(t, "reached")
		require.NoError(t, os.Remove(path))
		text, err := linesOf(path, 1, reached)
		require.NoError(t, err)
		durable, err := linesOf(path+".durable", 1, saved)
		require.NoError(t, err)
		defer os.Remove(path + ".durable")
		killed := rapid.IntRange(len(durable), len(text)).Draw(t, "killed")
		require.NoError(t, os.WriteFile(path, text[:killed], 0o666))

		w, err := OpenMetrics(path, saved)
		require.NoError(t, err)
		for step := saved + 1; step <= last; step++ {
			require.NoError(t, w.Write(full(step)))
		}
		require.NoError(t, w.Close())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	})
}

// linesOf writes the lines of some steps and returns the file.
func linesOf(path string, from, to int64) ([]byte, error) {
	w, err := OpenMetrics(path, from-1)
	if err != nil {
		return nil, err
	}
	for step := from; step <= to; step++ {
		if err := w.Write(full(step)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// TestOpenMetricsRefuses: what is not a file of metrics stays as it is.
func TestOpenMetricsRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{\"step\":1}\nhello\n{\"step\":2}\n", `:2: "hello\n": wanted a JSON object with a "step"`},
		{"{\"epoch\":1}\n", `:1: "{\"epoch\":1}\n": wanted a JSON object with a "step"`},
		{"[1]\n", `:1: "[1]\n": wanted`},
		{string(bytes.Repeat([]byte("x"), 1<<16)) + "\n", ":1: the line is longer than any"},
	} {
		path := filepath.Join(t.TempDir(), "metrics.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o666))
		_, err := OpenMetrics(path, 1)
		require.ErrorContains(t, err, c.want)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, c.text, string(text))
	}
	_, err := OpenMetrics(t.TempDir(), 0)
	require.Error(t, err)
	_, err = OpenMetrics(os.DevNull, 0)
	require.ErrorContains(t, err, "is not a regular file")
}

// TestMetricsAreNoLink: a link is not followed, whatever it leads to, and a pipe without a reader is not waited for.
func TestMetricsAreNoLink(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "metrics.jsonl")
	const text = "{\"step\":1}\n{\"step\":5}\n"
	require.NoError(t, os.WriteFile(victim, []byte(text), 0o666))
	for _, to := range []string{victim, filepath.Join(dir, "new")} {
		require.NoError(t, os.Symlink(to, path))
		_, err := OpenMetrics(path, 1)
		require.ErrorContains(t, err, path+": it is a symbolic link")
		require.NoError(t, os.Remove(path))
	}
	kept, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, text, string(kept))
	require.NoFileExists(t, filepath.Join(dir, "new"))
}

// disk is a file on a disk with limited room.
type disk struct {
	data     []byte
	room     int // bytes that still fit
	noCut    bool
	truncate int // calls
}

var errFull = errors.New("no space left on device")

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.data = append(d.data, p[:n]...)
	d.room -= n
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func (d *disk) Truncate(size int64) error {
	d.truncate++
	if d.noCut {
		return errFull
	}
	d.room += len(d.data) - int(size)
	d.data = d.data[:size]
	return nil
}

func (d *disk) Sync() error  { return nil }
func (d *disk) Close() error { return nil }

// TestFullDisk: one error, whole lines, and all of them once there is room.
func TestFullDisk(t *testing.T) {
	d := &disk{room: 12}
	a := &appender{path: "file", file: d}
	require.NoError(t, a.add([]byte("line 1\n")))
	require.ErrorIs(t, a.add([]byte("line 2\n")), errFull)
	require.NoError(t, a.add([]byte("line 3\n")), "it is said once")
	d.room = 1000
	require.NoError(t, a.add([]byte("line 4\n")))
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\n", string(d.data))
	d.room = 0
	require.ErrorIs(t, a.add([]byte("line 5\n")), errFull, "and again after writes have worked")
	require.ErrorContains(t, a.close(), "file: 1 records are lost: no space left on device")
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\n", string(d.data))
}

// TestFullDiskKeepsTheNewest: what waits is bounded.
func TestFullDiskKeepsTheNewest(t *testing.T) {
	d := &disk{}
	a := &appender{path: "file", file: d}
	record := bytes.Repeat([]byte("x"), maxPending/8)
	for i := range 20 {
		record := bytes.Clone(record)
		record[0] = byte('a' + i)
		_ = a.add(record)
		require.LessOrEqual(t, a.bytes, maxPending)
	}
	d.room = 1 << 30
	require.NoError(t, a.add([]byte("z")))
	require.Equal(t, byte('a'+13), d.data[0])
	require.Equal(t, 7*len(record)+1, len(d.data))
}

// TestFullDiskAtRandom: with room that comes and goes the file always begins with whole records in
// order, and has them all in the end.
func TestFullDiskAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, want := &disk{}, []byte{}
		a := &appender{path: "file", file: d}
		for i := range rapid.IntRange(1, 30).Draw(t, "records") {
			d.room = rapid.IntRange(0, 40).Draw(t, "room")
			d.noCut = rapid.Bool().Draw(t, "stubborn")
			record := fmt.Appendf(nil, "record %d of some length\n", i)
			want = append(want, record...)
			_ = a.add(record)
			require.True(t, bytes.HasPrefix(want, d.data))
		}
		d.room, d.noCut = 1<<20, false
		require.NoError(t, a.close())
		require.Equal(t, string(want), string(d.data))
	})
}
