package mutate_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/internal/test/mutate"
)

const text = `<ir_version: 8, opset_import: ["" : 17]> m (float[batch, 8] x, float[8, 4] w) => (float[batch, 4] y) <int64[1] one = {1}> {
	h = MatMul(x, w)  t = Tanh(h)  u = Unsqueeze(t, one)  s = Squeeze(u, one)  y = Softmax<axis = 1>(s) }`

func model(t *testing.T) []byte {
	t.Helper()
	m, err := graph.Parse(text, "m")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, onnx.Write(&b, m))
	return b.Bytes()
}

// TestMutantsDecode: a mutation is of meaning, not of bytes: of single mutations, at least half
// leave a file that decodes, and nearly all of these another model.
func TestMutantsDecode(t *testing.T) {
	data := model(t)
	models := &mutate.Models{Operators: []mutate.Operator{{Name: "Softmax"}, {Name: "Gemm"}}, Donors: [][]byte{data}}
	decoded, same := 0, 0
	const tries = 1000
	for seed := range uint64(tries) {
		mutant, did := models.Mutate(data, mutate.Genome(rand.New(rand.NewPCG(seed, 1)), 1))
		require.Len(t, did, 1)
		if bytes.Equal(mutant, data) {
			same++
		}
		if _, err := onnx.Decode(mutant, "mutant"); err == nil {
			decoded++
		}
	}
	require.Greater(t, decoded, tries/2)
	require.Less(t, same, tries/10)
}

// TestHasLoss: a model gets a scalar output, one without a float output stays.
func TestHasLoss(t *testing.T) {
	m, err := onnx.Decode(mutate.HasLoss(model(t)), "m")
	require.NoError(t, err)
	require.Len(t, m.Graph.Outputs, 2)
	require.Zero(t, m.Graph.Outputs[1].Type.Shape.Rank())
	require.NoError(t, graph.Verify(m))
	require.Equal(t, []byte("none"), mutate.HasLoss([]byte("none")))
}

func TestSymbols(t *testing.T) {
	require.Equal(t, []string{"batch"}, mutate.Symbols(model(t)))
	require.Empty(t, mutate.Symbols(nil))
}

// TestShrink: what does not matter to a failure is left out of a genome and of a model.
func TestShrink(t *testing.T) {
	genome := []byte("aaaabbbbccccdd")
	require.Equal(t, []byte("bbbbdd"),
		mutate.ShrinkGenome(genome, func(g []byte) bool {
			return bytes.Contains(g, []byte("bbbb")) && bytes.HasSuffix(g, []byte("dd"))
		}))

	fails := func(data []byte) bool {
		m, err := onnx.Decode(data, "m")
		if err != nil || m.Graph == nil {
			return false
		}
		for _, n := range m.Graph.Nodes {
			if n.Op == "Tanh" {
				return true
			}
		}
		return false
	}
	small := mutate.ShrinkModel(model(t), fails)
	require.True(t, fails(small))
	m, err := onnx.Decode(small, "m")
	require.NoError(t, err)
	require.Len(t, m.Graph.Nodes, 1)
	require.Empty(t, m.Graph.Inputs)
	require.Less(t, len(small), 20)
}

// TestOtherMutants: the mutators of JSON, tables and archives change what they are given, and
// mostly leave it well-formed.
func TestOtherMutants(t *testing.T) {
	document := []byte(`{"a":[1,2,{"b":"text"}],"c":null,"d":-3.5}`)
	table := []byte("id,lower,upper,size\na,0,2,8\nb,1,3,8\n")
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	f, err := w.Create("x.npy")
	require.NoError(t, err)
	header := "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
	f.Write([]byte("\x93NUMPY\x01\x00" + string(rune(len(header))) + "\x00" + header + "12345678"))
	require.NoError(t, w.Close())
	valid, changed := map[string]int{}, map[string]int{}
	const tries = 300
	for seed := range uint64(tries) {
		genome := mutate.Genome(rand.New(rand.NewPCG(seed, 2)), 1)
		for name, c := range map[string]struct {
			mutate func(data, genome []byte) ([]byte, []string)
			data   []byte
			valid  func([]byte) bool
		}{
			"JSON": {mutate.JSON, document, json.Valid},
			"CSV":  {mutate.CSV, table, func(b []byte) bool { return strings.Count(string(b), "\n") > 1 }},
			"arrays": {mutate.NPZ, archive.Bytes(), func(b []byte) bool {
				_, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
				return err == nil
			}},
		} {
			mutant, _ := c.mutate(c.data, genome)
			if !bytes.Equal(mutant, c.data) {
				changed[name]++
			}
			if c.valid(mutant) {
				valid[name]++
			}
		}
	}
	for _, name := range []string{"JSON", "CSV", "arrays"} {
		require.Greater(t, changed[name], tries*2/3, name)
		require.Greater(t, valid[name], tries*2/3, name)
	}
}
