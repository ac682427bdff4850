package modules_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/modules"
)

// model makes a model whose nodes have names, one after the other.
func model(t *testing.T, names ...string) *graph.Model {
	t.Helper()
	var b strings.Builder
	b.WriteString(`<ir_version: 8, opset_import: ["" : 17]> m (float[2] x0) => (float[2] y) {` + "\n")
	for i, name := range names {
		out := "x" + string(rune('1'+i))
		if i == len(names)-1 {
			out = "y"
		}
		b.WriteString(`["` + name + `"] ` + out + ` = Relu (x` + string(rune('0'+i)) + ")\n")
	}
	b.WriteString("}\n")
	m, err := graph.Parse(b.String(), "m")
	require.NoError(t, err)
	return m
}

// of are the names of the modules of nodes, innermost; "" for none.
func of(tree *modules.Tree) (list []string) {
	for _, call := range tree.Of {
		name := ""
		if call >= 0 {
			name = tree.Modules[tree.Calls[call].Module].Name
		}
		list = append(list, name)
	}
	return list
}

// TestPaths: names of nodes, as PyTorch 1.13 exported modules, lists, lists in lists and second calls.
func TestPaths(t *testing.T) {
	tree, err := modules.Read(model(t, "/model/seq/seq.0/l/Gemm", "/model/seq/seq.1/seq.1.0/act/Relu",
		"/model/h.1/act_1/Erf", "/model/Add", "/Loss", "no path", "/h/head/Relu"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"model.seq.0.l", "model.seq.1.0.act", "model.h.1.act_1", "model", "", "", "h.head"},
		of(tree))
	require.Equal(t, "model.seq", tree.Modules[tree.Modules[tree.Lookup("model.seq.0")].Parent].Name)
	require.True(t, tree.Within(tree.Of[0], tree.Of[3]))
	require.False(t, tree.Within(tree.Of[3], tree.Of[0]))
	require.False(t, tree.Within(-1, 0))
	require.Equal(t, 3, tree.Depth(tree.Lookup("model.seq.0.l")))
	require.Equal(t, modules.None, tree.Lookup("seq"))
	c := tree.Calls[tree.Of[3]]
	require.Equal(t, []graph.NodeID{0, 4}, []graph.NodeID{c.First, c.End})
	require.Equal(t, 1, tree.Modules[tree.Lookup("model.h.1")].Calls)
}

// TestDicts: of an item of a ModuleDict the exporter writes the key alone, unless it is a number.
func TestDicts(t *testing.T) {
	m := model(t, "/model/b/l/Gemm", "/model/d.7/l/Gemm", "/model/enc_1/Relu", "/model/enc_1/enc_1.0/Relu",
		"/model/in/c/Relu", "/model/in_1/c_1/Relu", "/model/twice/Relu", "/model/elsewhere/Relu")
	m.SetMeta(modules.Key, `{"version":1,"root":"model","modules":[
		{"name":"d","calls":0},{"name":"d.b","calls":1},{"name":"d.b.l","calls":1},{"name":"d.7","calls":1},
		{"name":"d.7.l","calls":1},{"name":"d.enc_1","calls":1},{"name":"d.enc_1.0","calls":1},
		{"name":"in","calls":2},{"name":"in.e","calls":0},{"name":"in.e.f","calls":0},{"name":"in.e.f.c","calls":2},
		{"name":"d.twice","calls":1},{"name":"e","calls":0},{"name":"e.twice","calls":1},
		{"name":"ran","calls":1},{"name":"ran.elsewhere","calls":1}]}`)
	tree, err := modules.Read(m, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"d.b.l", "d.7.l", "d.enc_1", "d.enc_1.0", "in.e.f.c", "in.e.f.c", "twice", "elsewhere"},
		of(tree))
	require.Contains(t, tree.Modules[tree.Lookup("twice")].Refusal, "does not have it")
	require.Contains(t, tree.Modules[tree.Lookup("elsewhere")].Refusal, "does not have it")
}

// TestListed: the exporter's list settles the root, calls and what cannot run again.
func TestListed(t *testing.T) {
	m := model(t, "/model/model.0/l/Gemm", "/model/model.0/act/Relu", "/model/model.0/act_1/Relu", "/model/h_1/Relu",
		"/model/odd/Relu", "/Loss")
	m.SetMeta(modules.Key, `{"version":1,"root":"model","parameters":["model.0.l.weight"],"modules":[
		{"name":"0","class":"Block","calls":1,"checkpointable":true},
		{"name":"0.l","class":"torch.nn.Linear","calls":1,"training":false,"checkpointable":true},
		{"name":"0.act","class":"torch.nn.ReLU","calls":2,"checkpointable":"a step calls it 2 times",
			"attributes":{"inplace":true}},
		{"name":"h_1","class":"H","calls":1,"checkpointable":false},
		{"name":"unused","class":"U","calls":0,"checkpointable":true}]}`)
	tree, err := modules.Read(m, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"0.l", "0.act", "0.act", "h_1", "odd", ""}, of(tree))
	require.NotEqual(t, tree.Of[1], tree.Of[2], "two calls of one module")
	require.Equal(t, []string{"model.0.l.weight"}, tree.Parameters)
	get := func(name string) modules.Module { return tree.Modules[tree.Lookup(name)] }
	require.Empty(t, get("0").Refusal)
	require.True(t, get("0").Training)
	require.False(t, get("0.l").Training)
	require.Equal(t, "a step calls it 2 times", get("0.act").Refusal)
	require.Equal(t, true, get("0.act").Attributes["inplace"])
	require.NotEmpty(t, get("h_1").Refusal)
	require.Contains(t, get("odd").Refusal, "list of modules does not have it")
	require.Equal(t, modules.None, tree.Lookup("unused"))
}

// TestScopes: what exporters on torch.export write beside nodes.
func TestScopes(t *testing.T) {
	m := model(t, "node_1", "node_2")
	m.Graph.Nodes[0].EditRare(func(r *graph.Rare) {
		r.Metadata = []graph.Property{{Key: modules.ScopesKey, Value: `['', 'model', "model.h.0", 'model.h.0.attn', 'linear_1']`}}
	})
	m.SetMeta(modules.Key, `{"version":1,"root":"model","modules":[]}`)
	tree, err := modules.Read(m, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"h.0.attn", ""}, of(tree))
	require.Equal(t, "h.0", tree.Modules[tree.Modules[tree.Lookup("h.0.attn")].Parent].Name)
}

// TestMapped: a map replaces names, and says what is wrong with itself.
func TestMapped(t *testing.T) {
	m := model(t, "a1", "a2", "b1")
	tree, err := modules.Read(m, map[string][]string{"a": {"a*"}, "a.second": {"a2"}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a.second", ""}, of(tree))
	_, err = modules.Read(m, map[string][]string{"a": {"a*"}, "b": {"b*", "a2"}})
	require.ErrorContains(t, err, `node "a2" is of "a" and of "b"`)
	_, err = modules.Read(m, map[string][]string{"": {"a*"}})
	require.ErrorContains(t, err, `a module has the name ""`)
	_, err = modules.Read(m, map[string][]string{"c": {"c*"}})
	require.ErrorContains(t, err, `no node's name matches ["c*"] of module "c"`)
}

// TestBad: files without modules, damaged lists, damaged maps.
func TestBad(t *testing.T) {
	_, err := modules.Read(model(t, "a", "b/c"), nil)
	require.ErrorIs(t, err, modules.ErrNoModules)
	for _, text := range []string{"", "x", "[]", `{"version":2}`, `{"version":1,"modules":3}`} {
		m := model(t, "/a/b")
		m.SetMeta(modules.Key, text)
		_, err = modules.Read(m, nil)
		require.ErrorContains(t, err, modules.Key)
	}
	dir := t.TempDir()
	for _, text := range []string{"", "[]", "{}", `{"a": 1}`} {
		path := filepath.Join(dir, "map.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err = modules.LoadMap(path)
		require.ErrorContains(t, err, "globs of nodes' names", text)
	}
	path := filepath.Join(dir, "map.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"h.0": ["/h.0/*"]}`), 0o600))
	globs, err := modules.LoadMap(path)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"h.0": {"/h.0/*"}}, globs)
	_, err = modules.LoadMap(filepath.Join(dir, "none"))
	require.Error(t, err)
}

// FuzzPaths: no name and no list of scopes does harm.
func FuzzPaths(f *testing.F) {
	f.Add("/model/model.0/x_1/Relu", `['', 'a']`, `{"version":1,"root":"model","modules":[{"name":"0.x"}]}`)
	f.Add("//", "['", "{}")
	f.Fuzz(func(t *testing.T, name, scopes, list string) {
		m := model(t, "a", "b")
		m.Graph.Nodes[0].Name = name
		m.Graph.Nodes[1].EditRare(func(r *graph.Rare) {
			r.Metadata = []graph.Property{{Key: modules.ScopesKey, Value: scopes}}
		})
		m.SetMeta(modules.Key, list)
		tree, err := modules.Read(m, nil)
		if err != nil {
			return
		}
		for i, c := range tree.Calls {
			require.Less(t, int(c.Outer), i)
			require.Less(t, int(c.Module), len(tree.Modules))
		}
		for i := range tree.Modules {
			require.Less(t, int(tree.Modules[i].Parent), i+len(tree.Modules))
			require.LessOrEqual(t, tree.Depth(modules.ID(i)), len(tree.Modules))
		}
	})
}
