package remat

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// second is an instance of version 2 with nodes behind one named a that reads w.
func second(nodes string) string {
	return `{"format":"memopt-instance","version":2,"budget":9,"live":[{"id":"w","size":1}],"nodes":[
{"id":"a","cost":1,"inputs":["w"],"size":1},
` + nodes + `]}`
}

// TestReadSecond: every field arrives.
func TestReadSecond(t *testing.T) {
	in, p, err := ReadAny(strings.NewReader(`{"format":"memopt-instance","version":2,"name":"net","budget":90,
"cost_unit":"ms","order":"given","live":[{"id":"w","size":8},{"id":"x","size":0}],"nodes":[
{"id":"a","cost":0.25,"inputs":["x","w"],"outputs":[{"id":"a.0","size":4},{"id":"a.1","size":0,"keep":true}],"workspace":3},
{"id":"b","cost":2,"inputs":["a.1","w"],"size":7,"keep":true,"recompute":false,"tags":{"k":[1]}},
{"id":"c","inputs":["b","a.0"],"alias":"a.0"},
{"id":"d","inputs":["w"],"alias":"w","size":5,"tags":null},
{"id":"e","cost":1e3,"inputs":["c"],"outputs":[],"recompute":true}]}`))
	require.NoError(t, err)
	require.Nil(t, in)
	require.Equal(t, &Problem{Name: "net", Budget: 90, Resident: 8, Unit: "ms", InOrder: true, Nodes: []Computation{
		{ID: "a", Cost: 0.25, Outputs: []Output{{ID: "a.0", Size: 4}, {ID: "a.1", Keep: true}}, Workspace: 3},
		{ID: "b", Cost: 2, Inputs: []int32{1}, Outputs: []Output{{ID: "b", Size: 7, Keep: true}}, Once: true,
			Tags: json.RawMessage(`{"k":[1]}`)},
		{ID: "c", Inputs: []int32{0, 2}, Outputs: []Output{{ID: "c"}}, View: true},
		{ID: "d", Outputs: []Output{{ID: "d"}}},
		{ID: "e", Cost: 1000, Inputs: []int32{3}},
	}}, p)
	_, err = Read(strings.NewReader(second(`{"id":"b","cost":1,"size":1}`)))
	require.ErrorContains(t, err, "the instance is of version 2")
}

// TestReadVersionAlone: a version is enough, and ids may be whole numbers.
func TestReadVersionAlone(t *testing.T) {
	_, p, err := ReadAny(strings.NewReader(`{"name":"net","version":2,"cost_unit":"us","nodes":[
{"id":0,"cost":1,"size":4,"offload":false},{"id":1,"inputs":[0],"alias":0,"offload":true},{"id":"2","cost":1,"size":1,"inputs":["1"]}]}`))
	require.NoError(t, err)
	require.Equal(t, &Problem{Name: "net", Unit: "us", Nodes: []Computation{
		{ID: "0", Cost: 1, Outputs: []Output{{ID: "0", Size: 4}}, Stay: true},
		{ID: "1", Inputs: []int32{0}, Outputs: []Output{{ID: "1"}}, View: true},
		{ID: "2", Cost: 1, Inputs: []int32{1}, Outputs: []Output{{ID: "2", Size: 1}}},
	}}, p)
}

// TestReadSecondErrors: an error names the node and the field.
func TestReadSecondErrors(t *testing.T) {
	head := func(text string) string { return `{"format":"memopt-instance",` + text + `}` }
	node := func(text string) string { return second(`{"id":"b",` + text + `}`) }
	for _, c := range []struct{ file, want string }{
		{head(`"nodes":[]`), `the version is missing: wanted "version": 2`},
		{head(`"version":3`), "the version is 3: this program reads version 2"},
		{head(`"version":"2.0"`), "the version is 2.0"},
		{`{"format":"net"}`, `the format is "net": wanted "memopt-instance"`},
		{`{"format":7}`, "format is a number: wanted a text in quotes"},
		{`{"nodes":[],"format":"memopt-instance"}`, `"format" stands behind "nodes"`},
		{`{"nodes":[],"version":2}`, `"version" stands behind "nodes": it must come before`},
		{`{"version":1}`, "the version is 1: this program reads version 2, and version 1, which has no version"},
		{head(`"version":2,"nodes":[{"id":"a","cost":1,"size":1}],"live":[]`), `"live" stands behind "nodes"`},
		{head(`"version":2,"cost_unit":"h"`), `the cost_unit is "h": wanted one of ["us" "ms" "flops"]`},
		{head(`"version":2,"order":"any"`), `the order is "any": wanted one of ["free" "given"]`},
		{head(`"version":2,"budgte":"any"`), `an instance has no field "budgte"; did you mean "budget"?`},
		{head(`"version":2,"budget":0,"nodes":[]`), "the budget is 0 bytes"},
		{head(`"version":2,"live":[{"id":"w"}]`), "the live value at position 0: it needs id and size"},
		{head(`"version":2,"live":[{"id":"w","size":1,"keep":true}]`), `a value has no field "keep"`},
		{head(`"version":2,"live":[{"id":"w","size":1},{"id":"w","size":1}]`), `another value has the id "w"`},
		{head(`"version":2,"live":[{"id":"w","size":-1}]`), `the live value "w": the size is -1 bytes`},
		{head(`"version":2,"live":{}`), "must start with ["},
		{node(`"cost":1,"size":1,"colour":1`), `line 3: node "b": a node has no field "colour"`},
		{node(`"cost":"1","size":1`), `line 3: node "b": cost is a text: wanted a number`},
		{node(`"cost":-0.5,"size":1`), `node "b": the cost is -0.5: it must be a number from 0 on`},
		{node(`"cost":1e999,"size":1`), `node "b": cost is 1e999: wanted a number`},
		{node(`"cost":1,"size":1.5`), `node "b": size is 1.5: wanted a whole number`},
		{node(`"cost":1,"size":-1`), `node "b": the size of output "b" is -1 bytes`},
		{node(`"cost":1,"size":1,"workspace":-1`), `node "b": the workspace is -1 bytes`},
		{node(`"cost":1,"size":9007199254740992`), `node "b": with its size of output "b" of 9007199254740992 bytes`},
		{node(`"size":1`), `node "b": it needs a cost`},
		{node(`"cost":1`), `node "b": it needs a size, or outputs`},
		{node(`"cost":1,"size":1,"inputs":["aa"]`), `node "b": its input "aa" is no value before it`},
		{node(`"cost":1,"size":1,"inputs":["b"]`), `node "b": its input "b" is no value before it`},
		{node(`"cost":1,"size":1,"inputs":["a","a"]`), `node "b": its input "a" appears twice`},
		{node(`"cost":1,"size":1,"inputs":[7]`), `node "b": its input "7" is no value before it`},
		{node(`"cost":1,"size":1,"inputs":[7.5]`), `node "b": an id is 7.5: wanted a text, or a whole number`},
		{node(`"cost":1,"size":1,"inputs":7`), `node "b": inputs is a number: wanted a list of ids`},
		{node(`"cost":1,"size":1,"offload":0`), `node "b": offload is a number: wanted true or false`},
		{node(`"cost":1,"size":1,"outputs":[]`), `node "b": it has outputs and a size`},
		{node(`"cost":1,"keep":true,"outputs":[]`), `node "b": it has outputs and keep`},
		{node(`"cost":1,"outputs":[{"id":"a","size":1}]`), `node "b": another value has the id "a"`},
		{node(`"cost":1,"outputs":[{"id":"b.0"}]`), `node "b": the output at position 0: it needs id and size`},
		{node(`"cost":1,"outputs":[{"id":"","size":1}]`), "the output at position 0: its id is empty"},
		{node(`"cost":1,"outputs":[{"id":"b.0","size":"1"}]`), `the output at position 0: size is a text: wanted`},
		{node(`"cost":1,"outputs":[{"id":"b.0","sise":1}]`), `a value has no field "sise"; did you mean "size"?`},
		{node(`"alias":"a"`), `node "b": its alias "a" is not one of its inputs`},
		{node(`"cost":1,"size":1,"recompute":0`), `node "b": recompute is a number: wanted true or false`},
		{second(`{"cost":1,"size":1}`), "the node at position 1: it needs an id"},
		{second(`{"id":true,"cost":1,"size":1}`), "the node at position 1: an id is true: wanted a text"},
		{second(`{"id":"","cost":1,"size":1}`), "the node at position 1: its id is empty"},
		{second(`{"id":"a","cost":1,"size":1}`), `node "a": another node has the same id`},
		{second(`7`), "the node at position 1: it is a number: wanted an object"},
		{second(`{"id":"b","cost":1,"outputs":[{"id":"b.0","size":1}]},{"id":"c","cost":1,"size":1,"inputs":["b"]}`),
			`node "c": its input "b" is no value before it: it is a node with outputs of their own ids`},
		{second(`{"id":"net","cost":1,"size":1},{"id":"c","cost":1,"size":1,"inputs":["nett"]}`),
			`its input "nett" is no value before it; did you mean "net"?`},
		{strings.TrimSuffix(second(`{"id":"b","cost":1`), "]}"), "the file ends before the instance does"},
		{second(`{"id":"b" "cost":1}`), "this is no JSON"},
	} {
		_, _, err := ReadAny(strings.NewReader(c.file))
		require.ErrorContains(t, err, c.want, "%.200s", c.file)
		require.ErrorContains(t, err, "remat: ")
	}
}

// TestWriteSteps: a step names a node or a value.
func TestWriteSteps(t *testing.T) {
	_, p, err := ReadAny(strings.NewReader(second(`{"id":"b<","cost":1,"inputs":["a"],"outputs":[{"id":"b.0","size":1}]}`)))
	require.NoError(t, err)
	s, err := p.Solve(context.Background(), Options{})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, p.WriteSteps(&b, s.Steps))
	require.Equal(t, "{\"steps\":[{\"compute\":\"a\"},\n{\"compute\":\"b\\u003c\"},\n{\"free\":\"b.0\"},\n"+
		"{\"free\":\"a\"}]}\n", b.String())
	b.Reset()
	p.Nodes[0].ID, p.Nodes[1].Outputs[0].ID = "", ""
	require.NoError(t, p.WriteSteps(&b, s.Steps[:3]))
	require.Equal(t, "{\"steps\":[{\"compute\":\"0\"},\n{\"compute\":\"b\\u003c\"},\n{\"free\":\"1\"}]}\n", b.String())
}
