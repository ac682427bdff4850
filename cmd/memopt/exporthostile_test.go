package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor"
	"memopt/graph"
	"memopt/train/checkpoint"
)

// sha is a SHA-256 as manifests have it.
func sha(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// sign gives a manifest the size and hash that its first file has now, and its own hash.
func sign(t *testing.T, text, weights []byte) []byte {
	t.Helper()
	var m struct{ Files []checkpoint.File }
	require.NoError(t, json.Unmarshal(text, &m))
	text = bytes.Replace(text, []byte(m.Files[0].SHA256), []byte(sha(weights)), 1)
	text = bytes.Replace(text, fmt.Appendf(nil, `"bytes": %d`, m.Files[0].Bytes),
		fmt.Appendf(nil, `"bytes": %d`, len(weights)), 1)
	own := regexp.MustCompile(`  "sha256": "[0-9a-f]{64}"\n}`)
	zeros := own.ReplaceAll(text, []byte(`  "sha256": "`+strings.Repeat("0", 64)+"\"\n}"))
	return own.ReplaceAll(text, []byte(`  "sha256": "`+sha(zeros)+"\"\n}"))
}

// TestExportHostile: whatever is in a checkpoint, with right hashes or wrong ones, export ends with a
// model, or with one line that says what is wrong; and so does a job that is to go on from there or
// to begin with its weights.
func TestExportHostile(t *testing.T) {
	exitFolder(t)
	writeText(t, "frozen.onnx", frozenText)
	job := trained(t, "frozen.onnx", []state{{"w", []int{4}, []float32{5, 6, 7, 8}}}, nil)
	archive(t, "data.npz", map[string]*executor.Tensor{
		"x": executor.NewTensor[float32](graph.Float32, []int{1, 4}, 1, 2, 3, 4)})
	step := filepath.Join(job, "checkpoints", "step-7")
	names := []string{"weights.safetensors", "checkpoint.json"}
	var whole [2][]byte
	for i, name := range names {
		var err error
		whole[i], err = os.ReadFile(filepath.Join(step, name))
		require.NoError(t, err)
	}
	require.Equal(t, whole[1], sign(t, whole[1], whole[0]))
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"9", "-1", `"`, "{", "}", "[", "null", "F64", "1e9", "\x1b[31m", "18446744073709551616", ","}
	codes := map[string]int{}
	for range 300 {
		files := [2][]byte{bytes.Clone(whole[0]), bytes.Clone(whole[1])}
		which := random.IntN(2)
		data := files[which]
		for range 1 + random.IntN(3) {
			at := random.IntN(len(data))
			switch random.IntN(3) {
			case 0:
				data[at] ^= 1 << random.IntN(8)
			case 1:
				data = append(data[:at:at], data[min(len(data), at+random.IntN(9)):]...)
			default:
				word := words[random.IntN(len(words))]
				data = append(append(data[:at:at], word...), data[min(len(data), at+len(word)):]...)
			}
			data = append(data, 0)[:max(len(data), 1)]
		}
		if files[which] = data; which == 0 {
			files[1] = sign(t, files[1], files[0])
		}
		for i, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(step, name), files[i], 0o666))
		}
		for _, line := range []string{"export " + job + " -o out.onnx -q",
			"train frozen.onnx --data data.npz --max-steps 1 --freeze base -q --init " + step +
				"/weights.safetensors"} {
			got := inProcess(t.Context(), nil, line)
			codes[line[:5]+fmt.Sprint(got.code)]++
			require.Contains(t, []int{0, cli.ExitUsage, cli.ExitInfeasible, cli.ExitInvalid}, got.code, "%s\n%q",
				got.errors, data)
			require.LessOrEqual(t, strings.Count(got.errors, "\n"), 1, got.errors)
			require.NotContains(t, got.errors, "\x1b")
		}
	}
	require.Len(t, codes, 4, "%v", codes)
}
