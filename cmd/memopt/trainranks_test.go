//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/train/checkpoint"
)

// mpiruns are the launchers that Debian has, side by side.
var mpiruns = []struct {
	name, packages string
	args           []string
}{
	{"mpirun.openmpi", "openmpi-bin and libopenmpi3", []string{"--oversubscribe", "--bind-to", "none"}},
	{"mpirun.mpich", "mpich and libmpich12", nil},
}

// ranksPatience is how long a job of several ranks may take to end.
const ranksPatience = 40 * time.Second

// ranked is a job under mpirun.
type ranked struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err bytes.Buffer
	ended    chan error
}

// eachMPIRun runs a test with every mpirun. start starts a command line on so many ranks; several, one
// on a rank each.
func eachMPIRun(t *testing.T, test func(t *testing.T, start func(ranks int, lines ...string) *ranked)) {
	self, err := os.Executable()
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "memopt") // a name that makes the tests' program memopt
	require.NoError(t, os.Symlink(self, program))
	for _, m := range mpiruns {
		t.Run(m.name, func(t *testing.T) {
			if _, err := exec.LookPath(m.name); err != nil {
				t.Skipf("%v: .ci/install installs %s", err, m.packages)
			}
			test(t, func(ranks int, lines ...string) *ranked {
				args := append([]string{}, m.args...)
				for i, line := range lines {
					if i > 0 {
						args = append(args, ":")
					}
					args = append(args, "-n", strconv.Itoa(ranks), program)
					args = append(args, strings.Fields(line)...)
				}
				return startRanks(t, exec.Command(m.name, args...))
			})
		})
	}
}

func startRanks(t *testing.T, cmd *exec.Cmd) *ranked {
	t.Helper()
	r := &ranked{t: t, cmd: cmd, ended: make(chan error, 1)}
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	cmd.Stdout, cmd.Stderr = &r.out, &r.err
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	require.NoError(t, cmd.Start())
	go func() { r.ended <- cmd.Wait() }()
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return r
}

// code waits for the end and returns mpirun's exit code.
func (r *ranked) code() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(ranksPatience):
		r.t.Fatalf("%v goes on:\n%s", r.cmd.Args, r.err.String())
	}
	return r.cmd.ProcessState.ExitCode()
}

// well waits for an end without an error.
func (r *ranked) well() *ranked {
	r.t.Helper()
	require.Zero(r.t, r.code(), r.err.String())
	return r
}

// once requires a text to be in what the ranks said, a single time.
func (r *ranked) once(texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		require.Equal(r.t, 1, strings.Count(r.err.String(), text), "%q in\n%s", text, r.err.String())
	}
}

// rankJob is a job of the built-in model.
func rankJob(rest string, args ...any) string {
	return "train example:transformer --data example:text --batch 4 --threads 1 -q " + fmt.Sprintf(rest, args...)
}

// endOf are the tensors of a job's checkpoint.
func endOf(t *testing.T, job string, step int64) (weights, others []byte) {
	t.Helper()
	c, err := checkpoint.Load(job)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, step, c.Step)
	return bytes.Clone(c.Weights.Bytes()), bytes.Clone(c.Others.Bytes())
}

// TestRanksOfMPI: a job of several processes has, added up exactly, the bits of one that accumulates;
// each measures the arena that was predicted; and as many go on bit for bit, others with a warning.
func TestRanksOfMPI(t *testing.T) {
	dir := t.TempDir()
	alone := func(n, steps int) (weights, others []byte) {
		job := filepath.Join(dir, fmt.Sprintf("alone%d", n))
		v := startVictim(t, nil, nil, rankJob("--gradient-accumulation-steps %d --reduce exact --max-steps %d -o %s", n,
			steps, job))
		require.Zero(t, v.code(t), v.err.String())
		return endOf(t, job, int64(steps))
	}
	weights2, others2 := alone(2, 4)
	weights4, others4 := alone(4, 2)
	eachMPIRun(t, func(t *testing.T, start func(ranks int, lines ...string) *ranked) {
		dir := t.TempDir()
		two := start(2, rankJob("--reduce exact --max-steps 4 -o %s/two -O json", dir)).well()
		w, o := endOf(t, dir+"/two", 4)
		require.Equal(t, weights2, w)
		require.Equal(t, others2, o)
		var report struct {
			Ranks int
			Peak  struct {
				Arena int64   `json:"arena_bytes"`
				Each  []int64 `json:"rank_arena_bytes"`
			}
		}
		d := json.NewDecoder(&two.out)
		require.NoError(t, d.Decode(&report))
		require.False(t, d.More(), "one rank reports")
		require.Equal(t, 2, report.Ranks)
		require.Equal(t, []int64{report.Peak.Arena, report.Peak.Arena}, report.Peak.Each)

		moving := start(2, rankJob("--reduce exact --max-steps 4 -o %s/moved -O json %s", dir, moveFlags)).well()
		w, o = endOf(t, dir+"/moved", 4)
		require.Equal(t, weights2, w)
		require.Equal(t, others2, o)
		var moved movedJob
		require.NoError(t, json.NewDecoder(&moving.out).Decode(&moved))
		moved.asForetold(t, 2)

		start(4, rankJob("--reduce exact --zero 1 --max-steps 2 -o %s/four", dir)).well()
		w, o = endOf(t, dir+"/four", 2)
		require.Equal(t, weights4, w)
		require.Equal(t, others4, o)

		half := rankJob("--reduce exact --zero 1 --max-steps 4 -o %s/half --save-every 2", dir)
		start(2, half).well()
		require.NoError(t, os.RemoveAll(dir+"/half/checkpoints/step-4"))
		start(2, half+" --resume --zero 0").well()
		w, o = endOf(t, dir+"/half", 4)
		require.Equal(t, weights2, w)
		require.Equal(t, others2, o)
		require.NoError(t, os.RemoveAll(dir+"/half/checkpoints/step-4"))
		other := strings.Replace(half, " -q ", " ", 1)
		r := start(3, other+" --resume").well()
		r.once("ranks: were 2, are 3")
	})
}

// TestRanksDisagreeing: what is not the same on all ranks is said before the first step, once.
func TestRanksDisagreeing(t *testing.T) {
	eachMPIRun(t, func(t *testing.T, start func(ranks int, lines ...string) *ranked) {
		r := start(1, rankJob("--max-steps 3 --data-seed 1"), rankJob("--max-steps 3 --data-seed 2"))
		require.Equal(t, cli.ExitUsage, r.code(), r.err.String())
		r.once("rank 1 has another --data-seed", "than rank 0")
		for _, flags := range [][2]string{{"--batch 2", ""}, {"--reduce exact", ""}, {"--dry-run", ""},
			{"--lr-scheduler cosine --batch auto", "--zero 1"}} {
			r = start(1, rankJob("--max-steps 3 %s", flags[0]), rankJob("--max-steps 3 %s", flags[1]))
			require.Equal(t, cli.ExitUsage, r.code(), "%v: %s", flags, r.err.String())
			r.once("rank 1 has another --")
		}
		start(1, rankJob("--max-steps 2 --logging-steps 1"), rankJob("--max-steps 2 --timeout 99 -v")).well()
		r = start(2, "train example:transformer --data nowhere.bin --threads 1")
		require.Equal(t, cli.ExitUsage, r.code())
		r.once("nowhere.bin: no such file")
		r = start(1, rankJob("--max-steps 3"), "train example:transformer --data nowhere.bin --batch 4 --threads 1 -q "+
			"--max-steps 3")
		require.Equal(t, cli.ExitUsage, r.code())
		r.once("nowhere.bin: no such file")
		for _, wrong := range []string{"-e null", "--reduce some", "--eval-every 3", "--bucket-size none"} {
			r = start(2, rankJob("--max-steps 3 %s", wrong))
			require.Equal(t, cli.ExitUsage, r.code())
			r.once("memopt:")
		}
	})
}

// runningRanks starts a long job and returns the processes of its ranks when it has a checkpoint.
func runningRanks(t *testing.T, start func(ranks int, lines ...string) *ranked, dir, rest string) (
	r *ranked, pids []int) {
	t.Helper()
	r = start(2, rankJob("--max-steps 100000 --save-every 2 --save-total-limit 3 -o %s/job %s", dir, rest))
	require.Eventually(t, func() bool {
		list, _ := filepath.Glob(dir + "/job/checkpoints/step-*")
		return len(list) > 0
	}, ranksPatience, 5*time.Millisecond, r.err.String())
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	pids = make([]int, 2)
	for _, path := range all {
		line, _ := os.ReadFile(path)
		args := strings.Split(string(line), "\x00")
		if filepath.Base(args[0]) != "memopt" || !bytes.Contains(line, []byte(dir+"/job")) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		for rank := range pids {
			for _, name := range []string{"OMPI_COMM_WORLD_RANK", "PMI_RANK"} {
				if bytes.Contains(env, fmt.Appendf(nil, "%s=%d\x00", name, rank)) {
					pids[rank] = pid
				}
			}
		}
	}
	require.NotContains(t, pids, 0)
	return r, pids
}

// gone requires the ranks to end soon after mpirun.
func gone(t *testing.T, pids []int) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, pid := range pids {
			state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err == nil && !bytes.Contains(state, []byte(") Z ")) {
				return false
			}
		}
		return true
	}, ranksPatience, 20*time.Millisecond)
}

// TestRanksFail: a rank that is killed, or that stops to answer, ends the job on all, with the last
// checkpoint whole.
func TestRanksFail(t *testing.T) {
	eachMPIRun(t, func(t *testing.T, start func(ranks int, lines ...string) *ranked) {
		dir := t.TempDir()
		r, pids := runningRanks(t, start, dir, "")
		require.NoError(t, syscall.Kill(pids[1], syscall.SIGKILL))
		require.NotZero(t, r.code())
		gone(t, pids)
		c, err := checkpoint.Load(dir + "/job")
		require.NoError(t, err)
		from := c.Step
		c.Close()

		start(2, rankJob("--max-steps %d -o %s/job --resume", from+1, dir)).well()
		endOf(t, dir+"/job", from+1)

		dir = t.TempDir()
		r, pids = runningRanks(t, start, dir, "--timeout 2")
		require.NoError(t, syscall.Kill(pids[1], syscall.SIGSTOP))
		require.Equal(t, cli.ExitMissing, r.code(), r.err.String())
		require.Contains(t, r.err.String(), "rank 1 does not answer")
		syscall.Kill(pids[1], syscall.SIGKILL) // no launcher ends a stopped process at once
		gone(t, pids)
		c, err = checkpoint.Load(dir + "/job")
		require.NoError(t, err)
		c.Close()
	})
}

// TestRanksAskedToStop: a signal at one rank ends all after the same update, with a checkpoint.
func TestRanksAskedToStop(t *testing.T) {
	eachMPIRun(t, func(t *testing.T, start func(ranks int, lines ...string) *ranked) {
		dir := t.TempDir()
		r, pids := runningRanks(t, start, dir, "")
		require.NoError(t, syscall.Kill(pids[1], syscall.SIGUSR1))
		require.Equal(t, cli.ExitSaved, r.code(), r.err.String())
		r.once("go on with --resume")
		gone(t, pids)
	})
}

// TestRanksInSlurm: mpirun in a batch script takes the job's tasks, and scancel with a signal has all
// ranks save.
func TestRanksInSlurm(t *testing.T) {
	startSlurm(t)
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	program := dir + "/memopt"
	require.NoError(t, os.Symlink(self, program))
	sbatch := func(rest string, args ...any) string {
		script := "#!/bin/sh\nexport OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n" +
			"exec mpirun.openmpi --bind-to none " + program + " " + rankJob(rest, args...) + "\n"
		require.NoError(t, os.WriteFile(dir+"/job.sh", []byte(script), 0o755))
		return dir + "/job.sh"
	}
	t.Cleanup(func() {
		if text, _ := os.ReadFile(dir + "/log"); t.Failed() {
			t.Logf("%s", text)
		}
	})
	log := func() string {
		text, _ := os.ReadFile(dir + "/log")
		return string(text)
	}
	options := []string{"--parsable", "--ntasks=2", "--output=" + dir + "/log", "--open-mode=append", "--chdir=" + dir,
		"--export=ALL"}
	begin := func(script string, more ...string) string {
		out, err := exec.Command("sbatch", slices.Concat(options, more, []string{script})...).CombinedOutput()
		require.NoError(t, err, "%s\n%s", out, log())
		return strings.TrimSpace(string(out))
	}
	begin(sbatch("--reduce exact --zero 1 --max-steps 3 -o %s/job -O json", dir), "--wait")
	require.Contains(t, log(), `"ranks": 2`)
	w, o := endOf(t, dir+"/job", 3)
	alone := startVictim(t, nil, nil, rankJob("--gradient-accumulation-steps 2 --reduce exact --max-steps 3 "+
		"-o %s/alone", dir))
	require.Zero(t, alone.code(t), alone.err.String())
	weights, others := endOf(t, dir+"/alone", 3)
	require.Equal(t, weights, w)
	require.Equal(t, others, o)

	id := begin(sbatch("--max-steps 100000 --save-every 2 --save-total-limit 2 -o %s/long", dir))
	require.Eventually(t, func() bool {
		list, _ := filepath.Glob(dir + "/long/checkpoints/step-*")
		return len(list) > 0
	}, slurmPatience, 10*time.Millisecond)
	require.NoError(t, exec.Command("scancel", "--signal=USR1", "--batch", id).Run())
	require.Eventually(t, func() bool { return strings.Contains(log(), "go on with --resume") }, 30*time.Second,
		50*time.Millisecond)
	c, err := checkpoint.Load(dir + "/long")
	require.NoError(t, err)
	step := c.Step
	c.Close()
	begin(sbatch("--max-steps %d -o %s/long --resume", step+1, dir), "--wait")
	endOf(t, dir+"/long", step+1)
}
