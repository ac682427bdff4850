package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/npz"
	"memopt/graph"
)

// homeFigures are those of a step whose states have a home, of estimate, fit and train.
type homeFigures struct {
	Total int64 `json:"total_bytes"`
	Home  struct {
		Bytes   int64 `json:"bytes"`
		Read    int64 `json:"read_bytes"`
		Written int64 `json:"written_bytes"`
	} `json:"home"`
	Parts map[string]int64 `json:"parts"`
	Peak  struct {
		Arena    int64 `json:"arena_bytes"`
		Measured int64 `json:"measured_arena_bytes"`
	} `json:"peak"`
	Largest struct{ Plain int64 }
}

// figuresOf runs a command line whose JSON has them.
func figuresOf(t *testing.T, code int, line string) (f homeFigures) {
	t.Helper()
	end := inProcess(t.Context(), nil, line+" -O json -q")
	require.Equal(t, code, end.code, "%s\n%s", line, end.errors)
	require.NoError(t, json.Unmarshal([]byte(end.out), &f), end.out)
	return f
}

// TestHomeOfVerbs: estimate promises the bytes that train measures with a home, in all that goes together; fit finds
// the batch that is the largest for both.
func TestHomeOfVerbs(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, writeForward("."))
	x, labels := make([]byte, 4*8*8), make([]byte, 8*8)
	writeArrays(t, "d.npz", []npz.Array{
		{Name: "x", Tensor: &executor.Tensor{DType: graph.Float32, Shape: []int{8, 8}, Data: x}},
		{Name: "labels", Tensor: &executor.Tensor{DType: graph.Int64, Shape: []int{8}, Data: labels}}})
	const home = " --host-dir home --host-budget 1MiB"
	for _, flags := range []string{"", "--max-grad-norm 0", "--optimizer adamw8bit --precision bf16",
		"--precision bf16-pure --max-grad-norm 0", "--gradient-accumulation-steps 2 --optimizer lion"} {
		flags += home
		e := figuresOf(t, 0, "estimate forward.onnx --dim batch=4 "+flags)
		train := "train forward.onnx --data d.npz --batch 4 --max-steps 2 --init random:1 " + flags
		got := figuresOf(t, 0, train)
		info, err := os.Stat(filepath.Join("home", "states"))
		require.NoError(t, err)
		require.Equal(t, info.Size(), e.Home.Bytes, flags)
		require.Equal(t, got.Home.Bytes, e.Home.Bytes)
		require.Equal(t, got.Peak.Arena, got.Peak.Measured)
		require.Equal(t, got.Peak.Measured, e.Total-e.Parts["weights_bytes"]-e.Parts["reserve_bytes"], flags)
		require.NoError(t, os.RemoveAll("home"))
		f := figuresOf(t, 0, fmt.Sprintf("fit forward.onnx --vary batch --effort 0 --gpu %d %s", e.Total, flags))
		require.Equal(t, int64(4), f.Largest.Plain, flags)
		require.Equal(t, e.Home, f.Home)
	}
	const estimate, fit = "estimate forward.onnx --dim batch=4 ", "fit forward.onnx --effort 0 --gpu 1MiB --vary "
	const small = " --host-dir home --host-budget 1KiB"
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{estimate + "--host-dir home", 2, "add --host-budget"},
		{estimate + "--device a100" + home, 2, "take --device cpu"},
		{estimate + "--dp 2" + home, 2, "leave out --dp"},
		{estimate + "--check" + home, 2, "--check and --host-dir"},
		{estimate + "--runtime torch --gpu 1GiB" + home, 2, "--runtime torch"},
		{"estimate example:transformer-small --dim batch=1,seq=8 --precision bf16" + home, 2, "--precision"},
		{estimate + small, 3, "twice their size"},
		{fit + "batch" + small, 3, "twice their size"},
		{fit + "device --dim batch=4" + home, 2, "are for the CPU"},
		{fit + "batch --device a100 --reserve 0" + home, 2, "take --device cpu"},
	} {
		end := inProcess(t.Context(), nil, c.line)
		require.Equal(t, c.code, end.code, "%s\n%s", c.line, end.errors)
		require.Contains(t, end.errors, c.says, c.line)
	}
	require.NoDirExists(t, "home")
}
