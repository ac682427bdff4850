package pack

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCSV(t *testing.T) {
	const in = "\ufeffsize, lower,id,note,upper\r\n4,0,b1,\"a, b\",3\n 8 ,-2,b2,,9\n"
	table, err := ReadCSV(strings.NewReader(in))
	require.NoError(t, err)
	assert.Equal(t, []Buffer{{0, 3, 4, nil}, {-2, 9, 8, nil}}, table.Buffers)
	assert.Equal(t, []string{"b1", "b2"}, table.IDs)
	assert.Nil(t, table.Offsets)
	var out strings.Builder
	require.NoError(t, table.WriteCSV(&out, []int64{8, 0}))
	assert.Equal(t, "size,lower,id,note,upper,offset\n4,0,b1,\"a, b\",3,8\n 8 ,-2,b2,,9,0\n",
		strings.ReplaceAll(out.String(), "\" 8 \"", " 8 "))
	assert.ErrorContains(t, table.WriteCSV(&out, []int64{8}), "1 offsets for 2 rows")

	again, err := ReadCSV(strings.NewReader(out.String()))
	require.NoError(t, err)
	assert.Equal(t, []int64{8, 0}, again.Offsets)
	out.Reset()
	require.NoError(t, again.WriteCSV(&out, []int64{9, 1}), "the column that is there is used")
	assert.Contains(t, out.String(), "3,9\n")
}

func TestCSVErrors(t *testing.T) {
	const header, gaps = "id,lower,upper,size\n", "id,lower,upper,size,gaps\n"
	for in, want := range map[string]string{
		"":                                    "the file is empty: wanted a header with id, lower, upper and size",
		"id,lower,upper\n":                    `line 1: no column "size" in the header "id,lower,upper"`,
		"0,1,2,3\n":                           `line 1: no column "id"`,
		"id,lower,upper,size,id\n":            `line 1: the column "id" appears twice`,
		header + "a,0,1\n":                    "record on line 2: wrong number of fields",
		header + "a,0,1,2\nb,x,1,2\n":         `line 3: lower is "x": wanted a whole number`,
		header + "a,0,1.5,2\n":                `line 2: upper is "1.5": wanted a whole number`,
		header + "a,0,1,-2\n":                 "line 2: size is -2: it must not be negative",
		header + "a,5,5,2\n":                  "line 2: lower is 5 and upper is 5: upper must be greater",
		header + "a,0,1,99999999999999999999": "line 2: size 99999999999999999999 does not fit into 64 bits",
		header + "a,0,1,2\n\na,0,1,2\n":       `line 4: id "a" is on line 2 already`,
		"id,lower,upper,size,alignment\na,0,1,2,1\nb,0,1,2,64\n": "line 3: alignment 64: only 1 is supported",
		"id,lower,upper,size,offset\na,0,1,2,?\n":                `line 2: offset is "?": wanted a whole number`,

		gaps + "a,0,9,2,2-5 4-6\n":                           "line 2: the gap from 4 to 6 begins before 5",
		gaps + "a,0,9,2,2-10\n":                              "line 2: the gap from 2 to 10 is outside the buffer's",
		gaps + "a,0,9,2,5-5\n":                               "line 2: the gap from 5 to 5 must end after it starts",
		gaps + "a,0,9,2,5-9 0-5\n":                           "line 2: the gaps leave the buffer no time",
		gaps + "a,0,9,2,5\n":                                 `line 2: gap "5": wanted two whole numbers, such as "2-5"`,
		gaps + "a,0,9,2,5-x\n":                               `line 2: the end of gap "5-x" is "x"`,
		gaps + "a,0,9,2,2-5@0:1\n":                           `line 2: gap "2-5@0:1" keeps a part of the buffer live`,
		"id,lower,upper,size,begin\n":                        `line 1: the columns "lower" and "begin" are`,
		"buffer,begin,end,size\na,5,4,2\n":                   "line 2: begin is 5 and end is 4: end must not",
		"buffer,begin,end,size\na,5,9223372036854775807,2\n": "line 2: end is 9223372036854775807: wanted a smaller",
	} {
		_, err := ReadCSV(strings.NewReader(in))
		assert.ErrorContains(t, err, want, "%q", in)
	}
	table, err := ReadCSV(strings.NewReader(header))
	require.NoError(t, err)
	assert.Empty(t, table.Buffers)
}

// TestCSVNames: minimalloc's other names of columns; an end is the last step, of gaps as well.
func TestCSVNames(t *testing.T) {
	want := []Buffer{{0, 10, 4, []Gap{{2, 5}, {7, 8}}}, {-3, 5, 4, []Gap{{-2, -1}}}}
	for in, header := range map[string]string{
		"id,lower,upper,size,gaps\na,0,10,4,7-8  2-5\nb,-3,5,4,-2--1\n":    "id,lower,upper,size,gaps,offset\n",
		"buffer,begin,end,size,gaps\na,0,9,4,2-4 7-7\nb,-3,4,4,-2--2\n":    "buffer,begin,end,size,gaps,offset\n",
		"buffer_id,start,end,size,gaps\na,0,9,4,2-4 7-7\nb,-3,4,4,-2--2\n": "buffer_id,start,end,size,gaps,offset\n",
		"id,begin,upper,size,gaps\na,0,10,4,2-5 7-8\nb,-3,5,4, -2--1 \n":   "id,begin,upper,size,gaps,offset\n",
	} {
		table, err := ReadCSV(strings.NewReader(in))
		require.NoError(t, err, "%q", in)
		require.Equal(t, want, table.Buffers, "%q", in)
		require.Equal(t, []string{"a", "b"}, table.IDs)
		var out strings.Builder
		require.NoError(t, table.WriteCSV(&out, []int64{0, 0}))
		require.Contains(t, out.String(), header)
	}
}

func BenchmarkReadCSV(b *testing.B) {
	var in strings.Builder
	in.WriteString("id,lower,upper,size\n")
	for i := range 100_000 {
		fmt.Fprintf(&in, "%d,%d,%d,%d\n", i, i, i+10, 1024)
	}
	b.SetBytes(int64(in.Len()))
	for b.Loop() {
		if _, err := ReadCSV(strings.NewReader(in.String())); err != nil {
			b.Fatal(err)
		}
	}
}

// full is a full disk.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestWriteCSVFull: a failed write is an error, even if it is noticed only at the end.
func TestWriteCSVFull(t *testing.T) {
	for _, rows := range []int{1, 5000} {
		text := "id,lower,upper,size\n"
		for i := range rows {
			text += fmt.Sprintf("b%d,0,4,8\n", i)
		}
		table, err := ReadCSV(strings.NewReader(text))
		require.NoError(t, err)
		require.ErrorIs(t, table.WriteCSV(full{}, make([]int64, rows)), errFull, "%d rows", rows)
		require.Error(t, table.WriteCSV(full{}, make([]int64, rows+1)))
	}
}
