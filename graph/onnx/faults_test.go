package onnx_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
	"memopt/graph/onnx"
)

func replaceOnce(s, old, new string) string { return strings.Replace(s, old, new, 1) }

// TestFaults decodes the models of testdata/faults.txt, given as text or as
// hexadecimal bytes, and prints the error, which is one line that names the file.
func TestFaults(t *testing.T) {
	datadriven.RunTest(t, "testdata/faults.txt", func(t *testing.T, d *datadriven.TestData) string {
		var data []byte
		switch d.Cmd {
		case "text":
			data = []byte(d.Input)
		case "graph":
			data = fromText(t, "ModelProto", `ir_version: 8 opset_import { version: 17 } graph { `+d.Input+` }`)
		case "model":
			data = fromText(t, "ModelProto", d.Input)
		case "hex":
			var err error
			data, err = hex.DecodeString(strings.Join(strings.Fields(d.Input), ""))
			require.NoError(t, err)
		}
		m, err := onnx.Decode(data, "m.onnx")
		if err != nil {
			require.ErrorAs(t, err, new(*onnx.FormatError))
			require.NotContains(t, err.Error(), "\n")
			return err.Error() + "\n"
		}
		return contents(m)
	})
}

// contents reads all initializers and prints why one cannot be read.
func contents(m *graph.Model) string {
	for _, id := range m.Graph.Initializers {
		t := m.Graph.Values[id].Data
		if t.Source == nil {
			continue
		}
		if _, err := t.Source.Bytes(); err != nil {
			return "contents: " + err.Error() + "\n"
		}
	}
	return "ok\n"
}

// nested wraps a graph in n levels of subgraphs.
func nested(n int) []byte {
	const op, name, kind = 4, 1, 20
	g := []byte{}
	for range n {
		attr := protowire.AppendTag(nil, name, protowire.BytesType)
		attr = protowire.AppendString(attr, "body")
		attr = protowire.AppendTag(attr, kind, protowire.VarintType)
		attr = protowire.AppendVarint(attr, 5)
		attr = protowire.AppendTag(attr, 6, protowire.BytesType)
		attr = protowire.AppendBytes(attr, g)
		node := protowire.AppendTag(nil, op, protowire.BytesType)
		node = protowire.AppendString(node, "Op")
		node = protowire.AppendTag(node, 5, protowire.BytesType)
		node = protowire.AppendBytes(node, attr)
		g = protowire.AppendTag(nil, 1, protowire.BytesType)
		g = protowire.AppendBytes(g, node)
	}
	m := []byte{0x08, 8}
	m = protowire.AppendTag(m, 7, protowire.BytesType)
	return protowire.AppendBytes(m, g)
}

func TestNestingIsLimited(t *testing.T) {
	_, err := onnx.Decode(nested(onnx.MaxDepth-1), "m.onnx")
	require.NoError(t, err)
	for _, n := range []int{onnx.MaxDepth, 2000} {
		_, err = onnx.Decode(nested(n), "m.onnx")
		require.ErrorContains(t, err, "graphs are nested more than 64 deep")
		require.Less(t, len(err.Error()), 3000)
	}

	types := fromText(t, "ModelProto", `ir_version: 8 graph { input { name: "x" type { `+
		strings.Repeat("sequence_type { elem_type { ", 70)+strings.Repeat("} } ", 70)+` } } }`)
	_, err = onnx.Decode(types, "m.onnx")
	require.ErrorContains(t, err, "types are nested more than 64 deep")
}

// TestDamage decodes every truncation and many single-bit errors of the
// hand-made model: no panic, and what is accepted survives a round trip.
func TestDamage(t *testing.T) {
	data := everything(t)
	for n := 0; n < len(data); n += 2 {
		if _, err := onnx.Decode(data[:n:n], "m.onnx"); err == nil {
			checkStable(t, data[:n:n])
		}
	}
	damaged := make([]byte, len(data))
	for bit := 0; bit < 8*len(data); bit += 7 {
		copy(damaged, data)
		damaged[bit/8] ^= 1 << (bit % 8)
		checkStable(t, damaged)
	}
}

// checkStable decodes data that may be anything and checks what must then hold.
func checkStable(t testing.TB, data []byte) {
	m, err := onnx.Decode(data, "m.onnx")
	if err != nil {
		var fault *onnx.FormatError
		if !errors.As(err, &fault) || strings.ContainsAny(err.Error(), "\n\r") ||
			!strings.HasPrefix(err.Error(), "m.onnx: ") {
			t.Fatalf("a bad error: %q", err)
		}
		return
	}
	if err := graph.Verify(m); err != nil {
		t.Fatalf("the decoded model is not valid: %v", err)
	}
	contents(m) // may fail, may not panic
	out, err := onnx.Encode(m)
	if err != nil {
		t.Fatalf("a decoded model cannot be encoded: %v", err)
	}
	again, err := onnx.Decode(out, "m.onnx")
	if err != nil {
		t.Fatalf("an encoded model cannot be decoded: %v", err)
	}
	stable, err := onnx.Encode(again)
	if err != nil || string(stable) != string(out) {
		t.Fatalf("encoding is not stable (%v):\n%x\n%x", err, out, stable)
	}
	if a, b := onnx.StructureSHA256(m), onnx.StructureSHA256(again); a != b {
		t.Fatal("encoding changes the structure's hash")
	}
}

// TestAllocationIsBounded: files that promise much and hold little.
func TestAllocationIsBounded(t *testing.T) {
	header := []byte{0x08, 8, 0x3a}
	model := func(g []byte) []byte { return protowire.AppendBytes(append([]byte{}, header...), g) }
	repeat := func(unit string, n int) []byte { return []byte(strings.Repeat(unit, n)) }
	const n = 200_000
	for name, data := range map[string][]byte{
		"empty nodes":        model(repeat("\x0a\x00", n)),
		"empty initializers": model(repeat("\x2a\x00", n)),
		"empty inputs":       model(repeat("\x5a\x00", n)),
		"empty properties":   model(repeat("\x82\x01\x00", n)),
		"empty attributes": model(protowire.AppendBytes([]byte{0x0a},
			append([]byte("\x22\x01N"), repeat("\x2a\x00", n)...))),
		"huge dims": model(protowire.AppendBytes([]byte{0x2a},
			[]byte("\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01\x42\x01w"))),
		"merged graphs":    repeat("\x3a\x04\x12\x02ab", n),
		"same empty field": model(repeat("\x12\x00", n)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := onnx.Decode(data, "m.onnx")
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		assert.Less(t, used, uint64(128*len(data)+1<<20), "%s: %d bytes for %d (%v)", name, used, len(data), err)
	}
}

// TestManyAttributes: names are compared in linear time.
func TestManyAttributes(t *testing.T) {
	var attrs strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&attrs, `attribute { name: "a%d" type: INT i: 1 } `, i)
	}
	m := decodeText(t, `ir_version: 8 graph { node { op_type: "Op" `+attrs.String()+`} }`)
	assert.Len(t, m.Graph.Nodes[0].Attrs, 20_000)
	_, err := onnx.Decode(fromText(t, "ModelProto",
		`ir_version: 8 graph { node { op_type: "Op" `+attrs.String()+`attribute { name: "a77" type: INT i: 1 } } }`),
		"")
	require.ErrorContains(t, err, `attribute 20000 "a77": it appears twice`)
}

func TestFunctionsAreLimited(t *testing.T) {
	var data []byte
	for i := range onnx.MaxFunctions + 1 {
		data = protowire.AppendTag(data, 25, protowire.BytesType)
		data = protowire.AppendBytes(data, fmt.Appendf(nil, "\x0a\x06%06d", i))
	}
	_, err := onnx.Decode(data, "m.onnx")
	require.ErrorContains(t, err, "the model has more than 100000 functions")
}

// TestLongChainOfFunctions: functions that call each other as deep as they may.
func TestLongChainOfFunctions(t *testing.T) {
	data := fromText(t, "ModelProto", `ir_version: 8 graph { }`)
	for i := range onnx.MaxFunctions {
		node := fmt.Appendf(nil, "\x22\x06%06d", i+1)
		body := fmt.Appendf(nil, "\x0a\x06%06d", i)
		body = protowire.AppendTag(body, 7, protowire.BytesType)
		data = protowire.AppendTag(data, 25, protowire.BytesType)
		data = protowire.AppendBytes(data, protowire.AppendBytes(body, node))
	}
	m, err := onnx.Decode(data, "m.onnx")
	require.NoError(t, err)
	require.Len(t, m.Functions, onnx.MaxFunctions)
}
