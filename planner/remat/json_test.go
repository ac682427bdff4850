package remat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// writeInstance writes an instance so that Read reads the same.
func writeInstance(w io.Writer, in *Instance) error {
	b := bufio.NewWriter(w)
	name, err := json.Marshal(in.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "{\"name\":%s,\"budget\":%d,\"nodes\":[", name, in.Budget)
	for v := range in.Nodes {
		node := &in.Nodes[v]
		id := fileID(in.id(v))
		n := fileNode{ID: &id, Cost: &node.Cost, Size: &node.Size, Inputs: []fileID{}, Keep: node.Keep,
			Workspace: node.Workspace}
		for _, u := range node.Inputs {
			n.Inputs = append(n.Inputs, fileID(in.id(int(u))))
		}
		if node.Alias >= 0 {
			alias := fileID(in.id(int(node.Alias)))
			n.Alias = &alias
		}
		line, err := json.Marshal(&n)
		if err != nil {
			return err
		}
		if v > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(line)
	}
	b.WriteString("\n]}\n")
	return b.Flush()
}

// TestReadWrite: what is written is read back.
func TestReadWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := instances(t, 10)
		for v := range in.Nodes {
			in.IDs = append(in.IDs, fmt.Sprint(1000-v*3))
		}
		var b bytes.Buffer
		require.NoError(t, writeInstance(&b, in))
		got, err := Read(&b)
		require.NoError(t, err)
		require.Equal(t, in, got)
	})
}

// TestReadNames: ids may be texts, which schedules have as the file does; a budget may be left out.
func TestReadNames(t *testing.T) {
	in, err := Read(strings.NewReader(`{"nodes":[{"id":"a\u003c","cost":1,"size":1},
		{"id":7,"cost":1,"size":1,"inputs":["a<"]},{"id":"7","cost":1,"size":1,"inputs":[7],"alias":7}]}`))
	require.NoError(t, err)
	require.Zero(t, in.Budget)
	require.Equal(t, []string{`"a\u003c"`, "7", `"7"`}, in.IDs)
	require.Equal(t, []int32{0}, in.Nodes[1].Inputs)
	require.EqualValues(t, 1, in.Nodes[2].Alias)
	var b bytes.Buffer
	require.NoError(t, WriteSchedule(&b, in, &Schedule{Steps: []Step{{Node: 0}, {Node: 2, Free: true}}}))
	require.Equal(t, "{\"steps\":[{\"compute\":\"a\\u003c\"},\n{\"free\":\"7\"}]}\n", b.String())
	require.ErrorContains(t, in.Validate(), "the budget is 0")
}

// TestReadErrors: what is wrong is named.
func TestReadErrors(t *testing.T) {
	node := func(rest string) string {
		return `{"budget":9,"nodes":[{"id":4,"cost":1,"size":1,"inputs":[]},{"id":-7,` + rest + `}]}`
	}
	for _, c := range []struct{ file, want string }{
		{``, "the file is empty"},
		{`[]`, "must start with {"},
		{`{"budget":9,"nodes":[`, "line 1: the file ends before the instance does"},
		{`{"budget":9,"nodes":{}}`, "must start with ["},
		{`{"budget":9,"nodes":[]} x`, "after the end"},
		{`{"budget":0,"nodes":[]}`, "budget is 0"},
		{`{"budget":1e99,"nodes":[]}`, "line 1: budget is 1e99: wanted a whole number"},
		{"{\n", "line 2: the file ends before the instance does: it is cut off"},
		{"\n{\"budget\":9,\n\"nodes\":[\n{\"id\":1,\"cost\":2,", "line 4: the file ends before"},
		{`{"budget":"9","nodes":[]}`, "line 1: budget is a text: wanted a whole number"},
		{`{"budgte":9}`, `an instance has no field "budgte"; did you mean "budget"?`},
		{`{"budget":9,"nodes":[1]}`, "the node at position 0: it is a number: wanted an object"},
		{"{\"budget\":9,\n\"nodes\":[\n{\"id\":1,\"cost\":2,\"size\":3},\n\n{\"id\":1,\"cost\":2.5,\"size\":3}]}",
			"line 5: the node at position 1: cost is 2.5: wanted a whole number"},
		{node(`"cost":1,"size":1,"inputs":4`), "position 1: inputs is a number: wanted a list of ids"},
		{node(`"cost":1,"size":1,"inputs":["a"]`), `node -7: its input "a" is not one of the nodes before it`},
		{node(`"cost":1,"size":1,"inputs":[1.5]`), "position 1: an id is 1.5: wanted a whole number, or a name"},
		{node(`"cost":1,"size":1,"keep":1`), "keep is a number: wanted true or false"},
		{node(`"coste":1`), `position 1: a node has no field "coste"; did you mean "cost"?`},
		{`{"budget":9,"nodes":[{"id":"net/a","cost":1,"size":1},{"id":"b","cost":1,"size":1,"inputs":["net/b"]}]}`,
			`node "b": its input "net/b" is not one of the nodes before it; did you mean "net/a"?`},
		{"{\"budget\":9,\n\"nodes\":[{\"id\":1 \"cost\"}", "line 2: this is no JSON: the node at position 0"},
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
		{node(`"cost":92233720368547758070,"size":1`),
			"cost is 92233720368547758070: wanted a whole number of at most 64 bits"},
		{node(`"cost":1.5,"size":1`), "cost is 1.5: wanted a whole number"},
		{node(`"cost":1,"size":1,"colour":1`), "colour"},
		{`{"budget":9,"nodes":[{"id":4,"cost":1,"size":1},{"id":4,"cost":1,"size":1}]}`, "node 4: another node"},
		{strings.Repeat(`{"nodes":[`, 100000), "remat"},
		{`{"name":` + strings.Repeat("[", 100000), "remat"},
	} {
		_, err := Read(strings.NewReader(c.file))
		require.ErrorContains(t, err, c.want, "%.80s", c.file)
	}
}
