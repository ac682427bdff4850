package op

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph"
	_ "memopt/internal/test/rapidflags"
)

// piecesOf parses a graph of one node and returns where its rule says that parts begin.
func piecesOf(t require.TestingT, opset int, decls, fixed, node string) []int64 {
	p := pieceOf(t, opset, decls, fixed, node)
	info := Of(p.Node.Kind)
	if info.Joins != nil {
		return info.Joins(p)
	}
	return info.Cuts(p)
}

// pieceOf parses a graph of one node.
func pieceOf(t require.TestingT, opset int, decls, fixed, node string) *Pieces {
	m, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, opset_import: ["" : %d, "com.microsoft" : 1]>
		g (%s) => (float[] unused) <%s> { %s unused = Identity(given) }`, opset, decls, fixed, node), "parts")
	require.NoError(t, err)
	_, err = Infer(m)
	require.NoError(t, err)
	n := m.Graph.Nodes[0]
	return &Pieces{Graph: m.Graph, Node: n, Version: Of(n.Kind).SinceVersion(int64(opset)),
		Dims: func(v graph.ValueID) (dims []int64) {
			for _, d := range m.Graph.Values[v].Type.Shape.Dims {
				c, ok := d.Const()
				if !ok {
					return nil
				}
				dims = append(dims, c)
			}
			return dims
		}}
}

// runOf returns the number of the first element of a box in a row-major array if its elements lie
// one behind the other there.
func runOf(dims, first, count []int64) (at int64, ok bool) {
	next := int64(-1)
	index := make([]int64, len(dims))
	for i := range elements(count) {
		rest, flat := i, int64(0)
		for k := len(dims) - 1; k >= 0; k-- {
			index[k] = first[k] + rest%count[k]
			rest /= count[k]
		}
		for k, d := range dims {
			flat = flat*d + index[k]
		}
		if next >= 0 && flat != next {
			return 0, false
		}
		if next < 0 {
			at = flat
		}
		next = flat + 1
	}
	return at, true
}

func list(name string, v []int64) string {
	elems := strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ", "), "[]")
	return fmt.Sprintf("int64[%d] %s = {%s}", len(v), name, elems)
}

func shape(dims []int64) string { return "float" + strings.ReplaceAll(fmt.Sprint(dims), " ", ", ") }

// drawDims draws a shape without empty dims.
func drawDims(t *rapid.T) []int64 {
	return rapid.SliceOfN(rapid.SampledFrom([]int64{1, 1, 2, 3, 5}), 1, 4).Draw(t, "dims")
}

// Slices are runs exactly where their elements lie one behind the other.
func TestSliceCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := drawDims(t)
		first, count := make([]int64, len(dims)), slices.Clone(dims)
		var starts, ends, axes []int64
		for i, d := range dims {
			if rapid.Bool().Draw(t, "whole") {
				continue
			}
			first[i] = rapid.Int64Range(0, d-1).Draw(t, "first")
			count[i] = rapid.Int64Range(1, d-first[i]).Draw(t, "count")
			start, end, axis := first[i], first[i]+count[i], int64(i)
			if rapid.Bool().Draw(t, "negative") {
				start, axis = start-d, axis-int64(len(dims))
			}
			if end == d && rapid.Bool().Draw(t, "to the end") {
				end = 1 << 40
			}
			starts, ends, axes = append(starts, start), append(ends, end), append(axes, axis)
		}
		if len(starts) == 0 {
			return
		}
		var got []int64
		if rapid.Bool().Draw(t, "attributes") && slices.Min(axes) >= 0 {
			text := func(v []int64) string { return strings.ReplaceAll(fmt.Sprint(v), " ", ", ") }
			got = piecesOf(t, 9, shape(dims)+" x, float given", "",
				fmt.Sprintf("y = Slice<starts = %s, ends = %s, axes = %s>(x)", text(starts), text(ends), text(axes)))
		} else {
			got = piecesOf(t, 13, shape(dims)+" x, float given",
				list("s", starts)+", "+list("e", ends)+", "+list("a", axes), "y = Slice(x, s, e, a)")
		}
		at, ok := runOf(dims, first, count)
		if ok != (got != nil) || ok && !slices.Equal(got, []int64{at}) {
			t.Fatalf("%v from %v, %v: got %v, want %d, %v", dims, first, count, got, at, ok)
		}
	})
}

// Parts along an axis are runs of the whole, be they cut or joined.
func TestPartsAlong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := drawDims(t)
		axis := rapid.IntRange(0, len(dims)-1).Draw(t, "axis")
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 4), 2, 4).Draw(t, "sizes")
		dims[axis] = 0
		var ins, names []string
		for i, n := range sizes {
			part := slices.Clone(dims)
			part[axis] = n
			names = append(names, fmt.Sprintf("p%d", i))
			ins = append(ins, shape(part)+" "+names[i])
		}
		for _, n := range sizes {
			dims[axis] += n
		}
		written := axis
		if rapid.Bool().Draw(t, "negative") {
			written -= len(dims)
		}
		all := strings.Join(names, ", ")
		joined := piecesOf(t, 13, strings.Join(ins, ", ")+", float given", "",
			fmt.Sprintf("y = Concat<axis = %d>(%s)", written, all))
		cut := piecesOf(t, 13, shape(dims)+" x, float given", list("n", sizes),
			fmt.Sprintf("%s = Split<axis = %d>(x, n)", all, written))
		first, count := make([]int64, len(dims)), slices.Clone(dims)
		for i, n := range sizes {
			count[axis] = n
			at, ok := runOf(dims, first, count)
			for _, got := range [][]int64{joined, cut} {
				if (elements(dims[:axis]) == 1) != (got != nil) || got != nil && (!ok || got[i] != at) {
					t.Fatalf("%v along %d, part %d: got %v, want %d, %v", dims, axis, i, got, at, ok)
				}
			}
			first[axis] += n
		}
	})
}

// What the file does not say, or says to be no run, is none.
func TestNoPieces(t *testing.T) {
	const x = "float[4, 2] x, float given"
	for _, c := range []struct{ decls, fixed string }{
		{x + ", int64[1] s", "int64[1] e = {3}, int64[1] a = {0}, int64[1] p = {1}"},
		{x, "int64[1] s = {0}, int64[1] e = {4}, int64[1] a = {0}, int64[1] p = {2}"},
		{"float[N, 2] x, float given", "int64[1] s = {0}, int64[1] e = {4}, int64[1] a = {0}, int64[1] p = {1}"},
	} {
		require.Nil(t, piecesOf(t, 13, c.decls, c.fixed, "y = Slice(x, s, e, a, p)"))
	}
	require.Equal(t, []int64{0, -1, -1},
		piecesOf(t, 13, x, "int64[3] n = {1, 1, 2}", "a, , b = Split<axis = 0>(x, n)"))
	require.Equal(t, []int64{4}, piecesOf(t, 9, x, "", "y = Slice<starts = [2], ends = [9]>(x)"))

	// The dims are known here, and the start is not.
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 13]> g (float[4, 2] x, int64[1] s) => (float[3, 2] y)
		<int64[1] e = {3}> { y = Slice(x, s, e) }`, "slice")
	require.NoError(t, err)
	_, err = Infer(m)
	require.NoError(t, err)
	require.Nil(t, sliceCuts(&Pieces{Graph: m.Graph, Node: m.Graph.Nodes[0], Dims: func(v graph.ValueID) []int64 {
		return [...][]int64{{4, 2}, {1}, {3, 2}, {1}}[v]
	}}))
}
