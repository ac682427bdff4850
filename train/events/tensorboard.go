package events

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of TensorFlow's messages Event (tensorflow/core/util/event.proto), its SessionLog, and
// Summary (tensorflow/core/framework/summary.proto).
const (
	eventWallTime    = 1 // double, seconds since 1970
	eventStep        = 2 // int64
	eventFileVersion = 3 // string
	eventSummary     = 5 // Summary
	eventSessionLog  = 7 // SessionLog
	sessionStatus    = 1 // enum: START is 1
	summaryValue     = 1 // repeated Value
	valueTag         = 1 // string
	valueSimple      = 2 // float
)

// fileVersion is the first record of every event file.
const fileVersion = "brain.Event:2"

// eventPrefix begins the names of event files; TensorBoard finds them by it.
const eventPrefix = "events.out.tfevents."

// TensorBoard writes scalars as TensorBoard reads them: an event file of records, each the length of
// its data (uint64), the masked CRC-32C of these eight bytes, the data, which are an Event, and their
// masked CRC-32C, all little-endian. It is for one goroutine at a time.
type TensorBoard struct {
	a     *appender
	begin float64              // seconds since 1970 when the file was opened, no earlier than the events before
	since func() time.Duration // how long ago that was, by a clock that only goes forward
	last  float64
}

// OpenTensorBoard makes an event file in a folder, beside those that a job has written there before.
// TensorBoard goes by the time in the names of files and by the order of events, so neither goes
// back, even where the computer's clock has. A job that goes on after step upTo makes TensorBoard
// drop later steps of earlier files; a new job gives 0.
func OpenTensorBoard(dir string, upTo int64) (*TensorBoard, error) {
	now := time.Now()
	return openTensorBoard(dir, upTo, now, func() time.Duration { return time.Since(now) })
}

func openTensorBoard(dir string, upTo int64, now time.Time, since func() time.Duration) (*TensorBoard, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	second, latest, err := latestEvents(dir)
	if err != nil {
		return nil, err
	}
	t := &TensorBoard{begin: max(float64(now.UnixNano())/1e9, latest), since: since}
	second = max(second+1, int64(t.begin))
	if t.a, err = newEventFile(dir, second); err != nil {
		return nil, err
	}
	first := record(t.event(nil, eventFileVersion, []byte(fileVersion)))
	if upTo > 0 {
		start := protowire.AppendVarint(protowire.AppendTag(nil, sessionStatus, protowire.VarintType), 1)
		first = append(first, record(t.event(new(upTo+1), eventSessionLog, start))...)
	}
	if err := t.a.add(first); err != nil {
		return nil, errors.Join(err, t.a.file.Close(), os.Remove(t.a.path))
	}
	return t, nil
}

// newEventFile makes the file: its name has the time, the host and the process, and a number that no
// other file of the second has.
func newEventFile(dir string, second int64) (*appender, error) {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	host = strings.Map(func(r rune) rune {
		if r == filepath.Separator || r < ' ' {
			return '_'
		}
		return r
	}, host)
	for n := 0; ; n++ {
		path := filepath.Join(dir, fmt.Sprintf("%s%010d.%s.%d.%d", eventPrefix, second, host, os.Getpid(), n))
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &appender{path: path, file: f}, nil
	}
}

// latestEvents returns the largest second in the names of a folder's event files, -1 without any, and
// the time of the last event of the file that has it.
func latestEvents(dir string) (second int64, last float64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	second, path := -1, ""
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), eventPrefix)
		number, _, _ := strings.Cut(name, ".")
		if at, err := strconv.ParseInt(number, 10, 64); ok && err == nil && at >= second && e.Type().IsRegular() {
			second, path = at, filepath.Join(dir, e.Name())
		}
	}
	if path == "" {
		return second, 0, nil
	}
	last, err = lastWallTime(path)
	return second, last, err
}

// lastWallTime returns the largest time in an event file, as far as it can be read.
func lastWallTime(path string) (last float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		data, err := readRecord(r)
		if err != nil {
			return last, nil // torn, or not ours: the records so far count
		}
		if at, ok := wallTime(data); ok {
			last = max(last, at)
		}
	}
}

// maxRecord bounds the size of a record to read; a job's are less than a hundred bytes.
const maxRecord = 1 << 20

// readRecord reads the data of a record and checks both sums.
func readRecord(r io.Reader) ([]byte, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(head[:8])
	if masked(head[:8]) != binary.LittleEndian.Uint32(head[8:]) || n > maxRecord {
		return nil, errors.New("a record's length is damaged")
	}
	data := make([]byte, n+4)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	if masked(data[:n]) != binary.LittleEndian.Uint32(data[n:]) {
		return nil, errors.New("a record's data are damaged")
	}
	return data[:n], nil
}

// wallTime reads the time of an event, its first field.
func wallTime(event []byte) (float64, bool) {
	number, kind, n := protowire.ConsumeTag(event)
	if n < 0 || number != eventWallTime || kind != protowire.Fixed64Type {
		return 0, false
	}
	bits, m := protowire.ConsumeFixed64(event[n:])
	at := math.Float64frombits(bits)
	return at, m > 0 && cmp.Compare(at, 0) > 0 && !math.IsInf(at, 0)
}

// castagnoli is the polynomial of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the CRC-32C of data, rotated and shifted so that a sum of data with sums in them is not
// weak (tensorflow/core/lib/hash/crc32c.h).
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// record frames data.
func record(data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(make([]byte, 0, len(data)+16), uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(out, masked(out))
	out = append(out, data...)
	return binary.LittleEndian.AppendUint32(out, masked(data))
}

// event encodes an Event: now, the step unless nil, and a field of bytes.
func (t *TensorBoard) event(step *int64, field protowire.Number, content []byte) []byte {
	t.last = max(t.last, t.begin+t.since().Seconds())
	out := protowire.AppendTag(nil, eventWallTime, protowire.Fixed64Type)
	out = protowire.AppendFixed64(out, math.Float64bits(t.last))
	if step != nil {
		out = protowire.AppendTag(out, eventStep, protowire.VarintType)
		out = protowire.AppendVarint(out, uint64(*step))
	}
	out = protowire.AppendTag(out, field, protowire.BytesType)
	return protowire.AppendBytes(out, content)
}

// Scalar appends a value, as a float32, which TensorBoard shows under a tag such as train/loss. It
// reports a disk that is full once; the values are written later.
func (t *TensorBoard) Scalar(step int64, tag string, value float64) error {
	v := protowire.AppendTag(nil, valueTag, protowire.BytesType)
	v = protowire.AppendString(v, strings.ToValidUTF8(tag, "\uFFFD"))
	v = protowire.AppendTag(v, valueSimple, protowire.Fixed32Type)
	v = protowire.AppendFixed32(v, math.Float32bits(float32(value)))
	summary := protowire.AppendBytes(protowire.AppendTag(nil, summaryValue, protowire.BytesType), v)
	return t.a.add(record(t.event(&step, eventSummary, summary)))
}

// Close writes the pending records and closes the file.
func (t *TensorBoard) Close() error { return t.a.close() }
