//go:build unix

package main

import (
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// jobLine trains the perceptron of the PyTorch tests, with a last batch that is smaller.
func jobLine(t *testing.T, rest string) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("testdata", "pytorch", "mlp"))
	require.NoError(t, err)
	return "train " + folder + "/model.onnx --data " + folder + "/x.npy --data " + folder + "/labels.npy --batch 7 " +
		"--learning-rate 1e-3 --warmup-steps 50 --max-steps 30000 --save-every 40 --save-total-limit 3 " +
		"--threads 1 " + rest
}

// lastWeights are the files of the last checkpoint of a job in a folder.
func lastWeights(t *testing.T, job string) (weights, others []byte) {
	t.Helper()
	var err error
	folder := filepath.Join(job, "checkpoints", "step-30000")
	weights, err = os.ReadFile(filepath.Join(folder, "weights.safetensors"))
	require.NoError(t, err)
	others, err = os.ReadFile(filepath.Join(folder, "optimizer.safetensors"))
	require.NoError(t, err)
	return weights, others
}

// TestJobSurvivesKills: a job that is killed a hundred times at any moment, and goes on each time, ends
// with the bits of one that was left alone, and with the same metrics.
func TestJobSurvivesKills(t *testing.T) {
	alone := filepath.Join(t.TempDir(), "job")
	whole := startVictim(t, nil, nil, jobLine(t, "-o "+alone))
	require.NoError(t, <-whole.ended, whole.err.String())
	weights, others := lastWeights(t, alone)

	job := filepath.Join(t.TempDir(), "job")
	rng := rand.New(rand.NewPCG(11, 12))
	kills := 0
	for tries := 0; ; tries++ {
		require.Less(t, tries, 2000)
		rest := "-o " + job
		if list, _ := filepath.Glob(filepath.Join(job, "checkpoints", "step-*")); len(list) > 0 {
			rest += " --resume"
		}
		v := startVictim(t, nil, nil, jobLine(t, rest))
		var life <-chan time.Time // nil: it is left alone
		if kills < 100 {
			life = time.After(time.Duration(10+rng.IntN(70)) * time.Millisecond)
		}
		select {
		case err := <-v.ended:
			require.NoError(t, err, v.err.String())
		case <-life:
			require.NoError(t, v.cmd.Process.Kill())
			if <-v.ended; v.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
				kills++
				continue
			}
		}
		break
	}
	require.GreaterOrEqual(t, kills, 100, "the job must last longer")
	w, o := lastWeights(t, job)
	require.Equal(t, weights, w)
	require.Equal(t, others, o)
}

// TestJobStops: each signal that asks for the end has the job save after the update under way, and
// exit with a code of its own.
func TestJobStops(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGHUP} {
		if signal.Ignored(s) {
			continue // as under nohup: what the tests start ignores it, too
		}
		job := filepath.Join(t.TempDir(), "job")
		v := startVictim(t, nil, nil, jobLine(t, "-o "+job+" --max-steps 10000000"))
		require.Eventually(t, func() bool {
			list, _ := filepath.Glob(filepath.Join(job, "checkpoints", "step-*"))
			return len(list) > 0
		}, promptly, time.Millisecond)
		require.NoError(t, v.cmd.Process.Signal(s))
		require.Equal(t, cli.ExitSaved, v.code(t), v.err.String())
		require.Contains(t, v.err.String(), "go on with --resume")
		require.Empty(t, v.left(t))
	}
}
