package events

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// schemaOfEvents is what TensorFlow publishes in event.proto and summary.proto, as far as scalars go,
// typed from there and not from this package.
func schemaOfEvents(t *testing.T) protoreflect.MessageDescriptor {
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string,
		repeated bool) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind,
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if repeated {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		if of != "" {
			f.TypeName = proto.String(".tensorflow." + of)
		}
		return f
	}
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	const (
		double  = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE
		float   = descriptorpb.FieldDescriptorProto_TYPE_FLOAT
		integer = descriptorpb.FieldDescriptorProto_TYPE_INT64
		text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
		part    = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
		choice  = descriptorpb.FieldDescriptorProto_TYPE_ENUM
	)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("event.proto"), Package: proto.String("tensorflow"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			message("Event", field("wall_time", 1, double, "", false), field("step", 2, integer, "", false),
				field("file_version", 3, text, "", false), field("summary", 5, part, "Summary", false),
				field("session_log", 7, part, "SessionLog", false)),
			message("SessionLog", field("status", 1, choice, "SessionStatus", false)),
			message("Summary", field("value", 1, part, "SummaryValue", true)),
			message("SummaryValue", field("tag", 1, text, "", false), field("simple_value", 2, float, "", false)),
		},
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: proto.String("SessionStatus"),
			Value: []*descriptorpb.EnumValueDescriptorProto{
				{Name: proto.String("STATUS_UNSPECIFIED"), Number: proto.Int32(0)},
				{Name: proto.String("START"), Number: proto.Int32(1)},
				{Name: proto.String("STOP"), Number: proto.Int32(2)},
				{Name: proto.String("CHECKPOINT"), Number: proto.Int32(3)},
			}}},
	}, nil)
	require.NoError(t, err)
	return file.Messages().ByName("Event")
}

// crc32c is the sum bit by bit, as its polynomial defines it.
func crc32c(data []byte) uint32 {
	sum := ^uint32(0)
	for _, b := range data {
		sum ^= uint32(b)
		for range 8 {
			if sum&1 != 0 {
				sum = sum>>1 ^ 0x82f63b78
			} else {
				sum >>= 1
			}
		}
	}
	return ^sum
}

type scalar struct {
	step  int64
	tag   string
	value float32
}

// eventFile is a decoded event file.
type eventFile struct {
	version string
	start   int64 // the step of a session's start; 0: none
	times   []float64
	scalars []scalar
}

// decode reads an event file by the published format.
func decode(t *testing.T, path string) (f eventFile) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	event := schemaOfEvents(t)
	sum := func(b []byte) uint32 { c := crc32c(b); return (c>>15 | c<<17) + 0xa282ead8 }
	for len(data) > 0 {
		n := binary.LittleEndian.Uint64(data)
		require.Equal(t, sum(data[:8]), binary.LittleEndian.Uint32(data[8:]))
		require.Equal(t, sum(data[12:12+n]), binary.LittleEndian.Uint32(data[12+n:]))
		m := dynamicpb.NewMessage(event)
		require.NoError(t, proto.Unmarshal(data[12:12+n], m))
		require.Empty(t, m.GetUnknown())
		data = data[16+n:]
		get := func(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
			return m.Get(m.Descriptor().Fields().ByName(name))
		}
		f.times = append(f.times, get(m, "wall_time").Float())
		if v := get(m, "file_version").String(); v != "" {
			f.version = v
		}
		if get(get(m, "session_log").Message(), "status").Enum() == 1 {
			f.start = get(m, "step").Int()
		}
		values := get(get(m, "summary").Message(), "value").List()
		for i := range values.Len() {
			v := values.Get(i).Message()
			f.scalars = append(f.scalars, scalar{get(m, "step").Int(), get(v, "tag").String(),
				float32(get(v, "simple_value").Float())})
		}
	}
	return f
}

// decodeFolder reads all event files of a folder in the order of their names.
func decodeFolder(t *testing.T, dir string) (files []eventFile) {
	paths, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	require.NoError(t, err)
	slices.Sort(paths)
	for _, p := range paths {
		files = append(files, decode(t, p))
	}
	return files
}

func TestCRC(t *testing.T) {
	require.Equal(t, uint32(0xe3069283), crc32c([]byte("123456789")), "the check value of CRC-32C")
}

func TestScalars(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	board, err := OpenTensorBoard(dir, 0)
	require.NoError(t, err)
	require.NoError(t, board.Scalar(1, "train/loss", 2.5))
	require.NoError(t, board.Scalar(1<<40, "train/learning_rate", 5e-5))
	require.NoError(t, board.Scalar(3, "eval/loss", math.Inf(1)))
	require.NoError(t, board.Scalar(3, "bad \xff tag", 1e300))
	require.NoError(t, board.Close())
	files := decodeFolder(t, dir)
	require.Len(t, files, 1)
	require.Equal(t, "brain.Event:2", files[0].version)
	require.Zero(t, files[0].start)
	inf := float32(math.Inf(1))
	require.Equal(t, []scalar{{1, "train/loss", 2.5}, {1 << 40, "train/learning_rate", 5e-5}, {3, "eval/loss", inf},
		{3, "bad \uFFFD tag", inf}}, files[0].scalars)
	require.InDelta(t, float64(time.Now().Unix()), files[0].times[0], 60)
}

// TestClock: times of events, and the times in the names of files, never go back, though the clock
// does within a job and between two.
func TestClock(t *testing.T) {
	dir := t.TempDir()
	begin := time.Unix(1_700_000_000, 500_000_000)
	elapsed := []time.Duration{0, 5 * time.Second, -time.Hour, 7 * time.Second, 6 * time.Second}
	for _, now := range []time.Time{begin, begin.Add(-24 * time.Hour), begin.Add(-time.Second), begin.Add(time.Hour)} {
		i := 0
		board, err := openTensorBoard(dir, 0, now, func() time.Duration { i++; return elapsed[(i-1)%len(elapsed)] })
		require.NoError(t, err)
		for step := range 4 {
			require.NoError(t, board.Scalar(int64(step), "a", 1))
		}
		require.NoError(t, board.Close())
	}
	var all []float64
	for _, f := range decodeFolder(t, dir) {
		all = append(all, f.times...)
	}
	require.Len(t, all, 20)
	require.True(t, slices.IsSorted(all), "%v", all)
	require.Equal(t, 1_700_000_000.5, all[0])
	require.Equal(t, 1_700_000_007.5, all[5], "a job goes on from the last time of the one before")
	require.Equal(t, 1_700_000_021.5, all[14])
	require.Equal(t, 1_700_003_600.5, all[15])
	later := "events.out.tfevents.1900000000.host.99999999.0" // by a clock that was wrong
	require.NoError(t, os.WriteFile(filepath.Join(dir, later), nil, 0o666))
	board, err := openTensorBoard(dir, 0, begin, func() time.Duration { return 0 })
	require.NoError(t, err)
	require.NoError(t, board.Close())
	require.Less(t, later, filepath.Base(board.a.path))
}

// TestResumedBoard: a job that goes on has a file of its own, behind those before, which has
// TensorBoard forget later steps; a torn record of a killed job does no harm.
func TestResumedBoard(t *testing.T) {
	dir := t.TempDir()
	board, err := OpenTensorBoard(dir, 0)
	require.NoError(t, err)
	require.NoError(t, board.Scalar(9, "a", 1))
	require.NoError(t, board.Scalar(10, "a", 1))
	size := board.a.size
	first := board.a.path
	require.NoError(t, board.Close())
	require.NoError(t, os.Truncate(first, size-3))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "events.out.tfevents.x"), nil, 0o666))
	board, err = OpenTensorBoard(dir, 8)
	require.NoError(t, err)
	require.NoError(t, board.Scalar(9, "a", 2))
	require.Less(t, first, board.a.path)
	base := strings.Split(filepath.Base(board.a.path), ".")
	require.GreaterOrEqual(t, len(base), 7)
	require.Len(t, base[3], 10)
	require.NoError(t, board.Close())
	f := decode(t, board.a.path)
	require.Equal(t, int64(9), f.start)
	require.Equal(t, []scalar{{9, "a", 2}}, f.scalars)
}
