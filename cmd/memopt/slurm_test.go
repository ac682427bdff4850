//go:build linux

package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// slurmPrograms are what the tests need of Debian's packages slurm-wlm and munge.
var slurmPrograms = []string{"munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo"}

// slurmPatience is how long the daemons may take for anything.
const slurmPatience = time.Minute

// startSlurm starts a Slurm of one machine with two cores, all of whose state is in a folder, and has
// this process and what it starts use it.
func startSlurm(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can start Slurm's daemons")
	}
	for _, name := range slurmPrograms {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%v: .ci/install installs slurm-wlm and munge", err)
		}
	}
	dir, err := os.MkdirTemp("", "slurm") // a short name, as sockets must have
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"ctld", "d", "munge"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	key := make([]byte, 128)
	_, err = rand.Read(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/munge/key", key, 0o400))
	host, err := os.Hostname()
	require.NoError(t, err)
	host, _, _ = strings.Cut(host, ".")
	conf := strings.NewReplacer("DIR", dir, "HOST", host, "PORT1", freePort(t), "PORT2", freePort(t)).Replace(slurmConf)
	require.NoError(t, os.WriteFile(dir+"/slurm.conf", []byte(conf), 0o644))
	t.Setenv("SLURM_CONF", dir+"/slurm.conf")
	daemon(t, dir, "munged", "--foreground", "--force", "--key-file="+dir+"/munge/key", "--socket="+dir+"/munge/socket",
		"--pid-file="+dir+"/munged.pid", "--log-file="+dir+"/munge/log", "--seed-file="+dir+"/munge/seed")
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir + "/munge/socket")
		return err == nil
	}, slurmPatience, 20*time.Millisecond)
	daemon(t, dir, "slurmctld", "-D")
	daemon(t, dir, "slurmd", "-D")
	require.Eventually(t, func() bool {
		out, _ := exec.Command("sinfo", "--noheader", "--format=%t").Output()
		return strings.TrimSpace(string(out)) == "idle"
	}, slurmPatience, 200*time.Millisecond, "the node did not come up")
}

// slurmConf is the configuration: no accounting and no cgroups, which a container may lack.
const slurmConf = `ClusterName=local
SlurmctldHost=HOST(127.0.0.1)
SlurmctldPort=PORT1
SlurmdPort=PORT2
AuthType=auth/munge
AuthInfo=socket=DIR/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=DIR/ctld
SlurmdSpoolDir=DIR/d
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2
NodeName=HOST NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// daemon starts a program that is ended with the test.
func daemon(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".out"))
	require.NoError(t, err)
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		killed := time.AfterFunc(promptly, func() { cmd.Process.Kill() })
		cmd.Wait()
		killed.Stop()
		log.Close()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s: %s", name, text)
		}
	})
}

// freePort is a port that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// program is this test's program under the name that makes it memopt, also where it calls itself by its
// path.
func program(t *testing.T) string {
	t.Helper()
	own, err := os.Executable()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "memopt")
	from, err := os.Open(own)
	require.NoError(t, err)
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	return path
}

// TestSweepOnSlurm: an array job that is cancelled in the middle loses no point, and the next sweep runs
// the others, none twice.
func TestSweepOnSlurm(t *testing.T) {
	startSlurm(t)
	t.Chdir(t.TempDir())
	const points, enough = 20, 5
	writeGrid(t, fmt.Sprintf(`{"verb": "plan", "models": "example:cnn", "dims": {"batch": [%s]},
		"flags": {"budget": "60%%", "time-limit": 2}}`, counting(64, points)))
	memopt := program(t)
	sweep := func(rest ...string) *exec.Cmd {
		return exec.Command(memopt, append([]string{"sweep", "grid.json", "-o", "out", "--on", "slurm"}, rest...)...)
	}
	said, err := sweep("--sbatch=--partition=none").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "invalid partition specified: none")

	first := sweep("--jobs", "2")
	var out strings.Builder
	first.Stdout, first.Stderr = &out, &out
	require.NoError(t, first.Start())
	require.Eventually(t, func() bool { return len(sweepFiles(t)) >= enough }, slurmPatience, 20*time.Millisecond)
	job, err := os.ReadFile("out/slurm.job")
	require.NoError(t, err)
	said, err = exec.Command("scancel", strings.TrimSpace(string(job))).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Error(t, first.Wait())
	require.Equal(t, cli.ExitSaved, first.ProcessState.ExitCode(), out.String())
	require.Contains(t, out.String(), "points were stopped and are not finished")
	kept := sweepFiles(t)
	require.GreaterOrEqual(t, len(kept), enough)
	require.Less(t, len(kept), points)
	before := readAll(t, kept)

	said, err = sweep("--jobs", "2", "--sbatch=--cpus-per-task=1").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "20 points: 20 done.")
	require.Len(t, sweepFiles(t), points)
	require.Equal(t, before, readAll(t, kept))
	again, err := sweep().CombinedOutput()
	require.NoError(t, err, "%s", again)
	require.NotContains(t, string(again), "submitted")
}

// counting is n numbers from the first, with commas between.
func counting(first, n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint(first+i))
	}
	return strings.Join(list, ",")
}

// TestSweepWithoutSlurm: where there is no Slurm, the error says what to do; --write needs none.
func TestSweepWithoutSlurm(t *testing.T) {
	t.Chdir(t.TempDir())
	writeGrid(t, sweepGrid)
	t.Setenv("PATH", t.TempDir())
	got := inProcess(t.Context(), nil, "sweep grid.json -o out --on slurm")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errors, "sbatch is not installed here")
	got = inProcess(t.Context(), nil, "sweep grid.json -o out --on slurm --write --jobs 3")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, readAll(t, []string{strings.TrimSpace(got.out)}), "#SBATCH --array=0-3%3\n")
	got = inProcess(t.Context(), nil,
		"sweep grid.json -o out --on slurm --write --sbatch=--mem=8G --sbatch=--time=1:00")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, readAll(t, []string{strings.TrimSpace(got.out)}), "#SBATCH '--mem=8G' '--time=1:00'\nexec")
	got = inProcess(t.Context(), nil, "sweep grid.json -o out --on slurm --write --sbatch=--comment='")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errors, "cannot have this argument of sbatch")
}

// TestSweepLosesAProcess: where the system kills a point's process, as it does when memory is short, that
// point has failed, and the others are run.
func TestSweepLosesAProcess(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)
	writeGrid(t, `{"verb": "plan", "models": "example:mlp", "dims": {"batch": [4096, 64]},
		"flags": {"budget": "60%", "time-limit": 30, "effort": 20}}`)
	v := startVictim(t, nil, nil, "sweep "+here+"/grid.json -q -o "+here+"/out")
	children := fmt.Sprintf("/proc/%d/task/*/children", v.cmd.Process.Pid)
	var child int
	require.Eventually(t, func() bool {
		files, _ := filepath.Glob(children)
		for _, file := range files {
			text, _ := os.ReadFile(file)
			if _, err := fmt.Sscan(string(text), &child); err != nil {
				continue
			}
			// Go starts a process of its own first, to see what the system can do.
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			return strings.HasPrefix(string(line), "memopt\x00plan")
		}
		return false
	}, promptly, time.Millisecond)
	require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
	require.NoError(t, os.Remove("grid.json")) // it is read once
	<-v.ended
	require.Equal(t, cli.ExitInternal, v.cmd.ProcessState.ExitCode(), v.err.String())
	require.Contains(t, v.err.String(), "1 of 2 points failed; the first is point 0: the process ended with signal: "+
		"killed; memory may have been short")
	require.Len(t, sweepFiles(t), 2)
}
