package remat

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestReadWrite: what is written is read back.
func TestReadWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := instances(t, 10)
		for v := range in.Nodes {
			in.IDs = append(in.IDs, int64(1000-v*3))
		}
		var b bytes.Buffer
		require.NoError(t, Write(&b, in))
		got, err := Read(&b)
		require.NoError(t, err)
		require.Equal(t, in, got)
	})
}

// TestReadErrors: what is wrong is named.
func TestReadErrors(t *testing.T) {
	node := func(rest string) string {
		return `{"budget":9,"nodes":[{"id":4,"cost":1,"size":1,"inputs":[]},{"id":-7,` + rest + `}]}`
	}
	for _, c := range []struct{ file, want string }{
		{``, "EOF"},
		{`[]`, "must start with {"},
		{`{"budget":9,"nodes":[`, "EOF"},
		{`{"budget":9,"nodes":{}}`, "must start with ["},
		{`{"budget":9,"nodes":[]} x`, "after the end"},
		{`{"nodes":[]}`, "no budget"},
		{`{"budget":0,"nodes":[]}`, "budget is 0"},
		{`{"budget":1e99,"nodes":[]}`, "budget"},
		{`{"budget":9,"budget":9}`, "twice"},
		{`{"budget":9,"colour":9}`, "colour"},
		{node(`"size":1`), "position 1 needs"},
		{node(`"cost":1,"size":1,"inputs":[5]`), "node -7: its input 5"},
		{node(`"cost":1,"size":1,"inputs":[-7]`), "node -7: its input -7"},
		{node(`"cost":1,"size":1,"inputs":[4,4]`), "node -7: the input 4 appears twice"},
		{node(`"cost":0,"size":1`), "node -7: the cost is 0"},
		{node(`"cost":1,"size":0`), "node -7: the size is 0"},
		{node(`"cost":1,"size":-1`), "node -7: the size is -1"},
		{node(`"cost":1,"size":1,"workspace":-1`), "node -7: the workspace is -1"},
		{node(`"cost":9223372036854775807,"size":1`), "node -7: with its cost"},
		{node(`"cost":1,"size":9223372036854775807`), "node -7: with its size"},
		{node(`"cost":1,"size":1,"alias":4`), "node -7: its alias 4 is not one of its inputs"},
		{node(`"cost":1,"size":1,"alias":5`), "node -7: its alias 5"},
		{node(`"cost":92233720368547758070,"size":1`), "position 1"},
		{node(`"cost":1.5,"size":1`), "position 1"},
		{node(`"cost":1,"size":1,"colour":1`), "colour"},
		{`{"budget":9,"nodes":[{"id":4,"cost":1,"size":1},{"id":4,"cost":1,"size":1}]}`, "node 4: another node"},
		{strings.Repeat(`{"nodes":[`, 100000), "remat"},
		{`{"name":` + strings.Repeat("[", 100000), "remat"},
	} {
		_, err := Read(strings.NewReader(c.file))
		require.ErrorContains(t, err, c.want, "%.80s", c.file)
	}
}
