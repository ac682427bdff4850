package op_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
)

// randomNode is a node of a kind with the attributes.
func randomNode(k graph.Kind, attrs ...graph.Attr) *graph.Node {
	return &graph.Node{Kind: k, Op: op.Of(k).Name, Domain: op.Of(k).Domain, Attrs: attrs}
}

func seedOf(v any) graph.Attr { return graph.Attr{Name: "seed", Value: v} }

// drawsOf reads the entry of a part.
func drawsOf(t require.TestingT, n *graph.Node) op.Draws {
	d, ok, err := op.DrawsOf(n)
	require.NoError(t, err)
	require.True(t, ok)
	return d
}

// TestDrawsOfParts: a part has the seed of its whole in its metadata, one of its own as an
// attribute, and gives the whole's back. Parts of parts are parts of the whole.
func TestDrawsOfParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, seed := op.Dropout, any(rapid.Int64().Draw(t, "seed"))
		bits := int64(0)
		if rapid.Bool().Draw(t, "float") {
			v := math.Float32frombits(rapid.Uint32().Filter(func(b uint32) bool {
				return !math.IsNaN(float64(math.Float32frombits(b)))
			}).Draw(t, "bits"))
			kind, seed, bits = op.RandomNormalLike, v, int64(math.Float32bits(v))
		} else {
			bits = seed.(int64)
		}
		first := rapid.Int64Range(0, 1<<40).Draw(t, "first")
		more := rapid.Int64Range(0, 1<<40).Draw(t, "more")
		part := randomNode(kind, seedOf(seed))
		require.NoError(t, op.SetDrawFrom(part, "y", first))
		require.Equal(t, op.Draws{Schema: op.DrawsSchema, First: first, Seed: &bits}, drawsOf(t, part))
		requireSmallSeed(t, part.Attr("seed").Value)
		own := part.Attr("seed").Value
		require.NoError(t, op.SetDrawFrom(part, "another", more))
		require.Equal(t, op.Draws{Schema: op.DrawsSchema, First: first + more, Seed: &bits}, drawsOf(t, part))
		require.Equal(t, more == 0, own == part.Attr("seed").Value, "parts have seeds of their own")
		require.Len(t, part.Rare().Metadata, 1)
		again := randomNode(kind, seedOf(seed))
		require.NoError(t, op.SetDrawFrom(again, "y", first+more))
		require.Equal(t, part, again, "a part of a part")
		whole := randomNode(kind)
		op.SeedAlike(whole, part)
		require.Equal(t, []graph.Attr{seedOf(seed)}, whole.Attrs)
	})
}

// requireSmallSeed: ONNX Runtime makes a generator's 32 bits of the attribute, so it has to be a
// whole number from 0 to 2^31-1, and of a float one that the float holds.
func requireSmallSeed(t require.TestingT, seed any) {
	switch v := seed.(type) {
	case int64:
		require.True(t, v >= 0 && v < 1<<31, v)
	case float32:
		require.True(t, v >= 0 && v < 1<<24 && v == float32(int64(v)), v)
	}
}

// TestDrawsWithoutSeed: parts of a whole without a seed are of its name until they are given a
// seed, which is the whole's then.
func TestDrawsWithoutSeed(t *testing.T) {
	for _, kind := range []graph.Kind{op.Dropout, op.Bernoulli} {
		part := randomNode(kind)
		require.NoError(t, op.SetDrawFrom(part, "y", 64))
		require.Equal(t, op.Draws{Schema: op.DrawsSchema, First: 64, Of: "y"}, drawsOf(t, part))
		require.Nil(t, part.Attr("seed"))
		whole := randomNode(kind)
		op.SeedAlike(whole, part)
		require.Empty(t, whole.Attrs)
		op.SetSeed(whole, -5)
		seeded := randomNode(kind, whole.Attrs...)
		require.NoError(t, op.SetDrawFrom(seeded, "y", 64))
		op.SetSeed(part, -5)
		require.Equal(t, seeded, part)
		require.NotEqual(t, whole.Attrs, part.Attrs)
		require.Empty(t, whole.Rare().Metadata)
	}
}

// TestDrawsRefused: entries that say nothing that can be obeyed.
func TestDrawsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "wanted JSON",
		"12":                            "wanted JSON",
		"null":                          "wanted JSON",
		`{"first": 4}`:                  `wanted JSON of schema "memopt.draws/v1", got "{\"first\": 4}"`,
		`{"schema": "memopt.draws/v2"}`: "wanted JSON",
		`{"schema": "memopt.draws/v1", "first": "a"}`:                        "wanted JSON",
		`{"schema": "memopt.draws/v1", "first": 0, "run": 4}`:                "run 4 of each stride 0 elements",
		`{"schema": "memopt.draws/v1", "first": 0, "run": 4, "stride": 3}`:   "run 4 of each stride 3",
		`{"schema": "memopt.draws/v1", "first": 0, "stride": 3}`:             "run 0 of each stride 3",
		`{"schema": "memopt.draws/v1", "first": 0, "run": -4, "stride": -4}`: "run -4 of each",
		`{"schema": "memopt.draws/v1", "first": -1}`:                         "first is -1",
		`{"schema": "memopt.draws/v1", "first": 4611686018427387904}`:        "first is 4611686018427387904",
	} {
		n := randomNode(op.Dropout)
		n.EditRare(func(r *graph.Rare) { r.Metadata = []graph.Property{{Key: op.DrawsKey, Value: text}} })
		_, _, err := op.DrawsOf(n)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "without the entry the node draws as a whole")
		require.Equal(t, err, op.SetDrawFrom(n, "y", 0))
	}
	n := randomNode(op.Dropout)
	require.ErrorContains(t, op.SetDrawFrom(n, "y", -1), "cannot begin at element -1")
	runs := randomNode(op.Dropout, seedOf(int64(7)))
	require.NoError(t, op.SetDrawFrom(runs, "y", 64))
	require.NoError(t, op.SetDrawRuns(runs, "y", 8, 16, 32))
	seed := int64(7)
	require.Equal(t, op.Draws{Schema: op.DrawsSchema, First: 72, Run: 16, Stride: 32, Seed: &seed}, drawsOf(t, runs))
	require.ErrorContains(t, op.SetDrawFrom(runs, "y", 0), "16 of each 32 elements of its whole has no parts itself")
	require.NoError(t, op.SetDrawFrom(n, "y", 1<<62-1))
	require.ErrorContains(t, op.SetDrawFrom(n, "y", 1), "cannot begin")
}

// TestDrawsInFile: the entry is in the file, beside what else a node's metadata say, and no part of
// the model's structure; the seed that goes with it is.
func TestDrawsInFile(t *testing.T) {
	const text = `<ir_version: 8, opset_import: ["" : 17]> g (float[4] x, bool t) => (float[4] y) {
		y = Dropout <seed = 7> (x, , t) }`
	m, err := graph.Parse(text, "g")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	n := m.Graph.Nodes[0]
	n.EditRare(func(r *graph.Rare) { r.Metadata = []graph.Property{{Key: "a", Value: "b"}} })
	before := onnx.StructureSHA256(m)
	require.NoError(t, op.SetDrawFrom(n, "whole", 96))
	require.NotEqual(t, before, onnx.StructureSHA256(m))
	var file bytes.Buffer
	require.NoError(t, onnx.Write(&file, m))
	read, err := onnx.Decode(file.Bytes(), "part")
	require.NoError(t, err)
	got := read.Graph.Nodes[0]
	require.Equal(t, n.Rare().Metadata, got.Rare().Metadata)
	require.Equal(t, graph.Property{Key: "a", Value: "b"}, got.Rare().Metadata[0])
	require.JSONEq(t, `{"schema": "memopt.draws/v1", "first": 96, "seed": 7}`, got.Rare().Metadata[1].Value)
	seeded := onnx.StructureSHA256(m)
	n.EditRare(func(r *graph.Rare) { r.Metadata = nil })
	require.Equal(t, seeded, onnx.StructureSHA256(m))
}
