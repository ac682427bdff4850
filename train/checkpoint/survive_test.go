//go:build linux

package checkpoint_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"memopt/internal/fileio"
	"memopt/train/checkpoint"
)

// What the test binary does when a test starts it again: the variable names it, and its folder.
const (
	roleVariable   = "MEMOPT_CHECKPOINT_ROLE"
	folderVariable = "MEMOPT_CHECKPOINT_FOLDER"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(folderVariable)
	var err error
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "saver":
		err = saver(dir)
	case "full":
		err = fillDisk(dir)
	case "holder":
		_, err = checkpoint.OpenJob(dir)
		fmt.Println("held")
		time.Sleep(time.Hour)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// again returns the test binary as a command with a role.
func again(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, folderVariable+"="+dir)
	return cmd
}

// elements is the size of the tensors of saver: several pages.
const elements = 40_000

// saver saves one step after the other, from the newest on, and prints each that is saved.
func saver(dir string) error {
	j, err := checkpoint.OpenJob(dir)
	if err != nil {
		return err
	}
	list, err := j.Steps()
	if err != nil {
		return err
	}
	step := int64(0)
	if len(list) > 0 {
		step = list[len(list)-1]
	}
	for err == nil {
		step++
		_, err = j.Save(&checkpoint.Manifest{Step: step, Accumulation: 1}, floats(elements, "w", "b"),
			floats(elements, "w.m", "w.v"), filled(step))
		if err == nil {
			fmt.Println(step)
			err = j.Prune(2)
		}
	}
	return err
}

// TestKills: a process that is killed at any moment leaves a newest checkpoint that is whole, at least
// the last one that it has said was saved; the next one gets the lock, and what was half written is
// gone.
func TestKills(t *testing.T) {
	dir := t.TempDir()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const kills = 100
	last, leftovers := int64(0), 0
	for i := range kills {
		cmd := again(t, "saver", dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var timer *time.Timer
		kill := func() { // soon
			delay := time.Duration(random.Int64N(int64(25 * time.Millisecond)))
			timer = time.AfterFunc(delay, func() { cmd.Process.Kill() })
		}
		if i%2 == 0 {
			kill()
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			last, err = strconv.ParseInt(lines.Text(), 10, 64)
			require.NoError(t, err, lines.Text())
			if timer == nil { // a busy machine may take longer to start a process
				kill()
			}
		}
		require.ErrorContains(t, cmd.Wait(), "killed")
		timer.Stop()
		leftovers += len(temporary(t, dir))
		last = whole(t, dir, last)
	}
	require.Positive(t, last)
	t.Logf("%d checkpoints were saved, %d half ones removed", last, leftovers)
	require.Positive(t, leftovers, "no kill came during a save")
}

// temporary lists what is in the folder of checkpoints under temporary names.
func temporary(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "checkpoints", ".memopt-*"))
	require.NoError(t, err)
	return list
}

// whole requires that a job's folder can be opened, that its newest checkpoint, if there must be one,
// is whole and of step least or later, and that nothing else is there. It returns the step.
func whole(t *testing.T, dir string, least int64) int64 {
	t.Helper()
	j, err := checkpoint.OpenJob(dir)
	require.NoError(t, err)
	defer j.Close()
	require.Empty(t, temporary(t, dir))
	list, err := j.Steps()
	require.NoError(t, err)
	if least == 0 && len(list) == 0 {
		return 0
	}
	entries, err := os.ReadDir(filepath.Join(dir, "checkpoints"))
	require.NoError(t, err)
	require.Len(t, entries, len(list))
	newest := list[len(list)-1]
	require.GreaterOrEqual(t, newest, least)
	for _, step := range list {
		holds(t, j.Path(step), step)
	}
	return newest
}

// TestEveryStep: whatever change to the file system a process dies before, the checkpoint that is
// being written is there or not, also where it replaces one, and those before it are there.
func TestEveryStep(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		dir := t.TempDir()
		j, err := checkpoint.OpenJob(dir)
		require.NoError(t, err)
		save(t, j, 1)
		if replaced {
			save(t, j, 2)
		}
		var ops, snapshots []string
		end := fileio.Observe(func(op, _ string) {
			ops, snapshots = append(ops, op), append(snapshots, copied(t, dir))
		})
		save(t, j, 2)
		end()
		want := "create create change sync create change sync create change sync change sync rename sync remove"
		require.Equal(t, want, strings.Join(ops, " "))
		for i, snapshot := range append(snapshots, copied(t, dir)) {
			least := int64(1)
			if replaced || i == len(snapshots) {
				least = 2
			}
			require.GreaterOrEqual(t, whole(t, snapshot, least), least)
			holds(t, filepath.Join(snapshot, "checkpoints", "step-1"), 1)
		}
		require.NoError(t, j.Close())
	}
}

// copied copies a folder, whose lock is free then.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// fillDisk makes a folder a file system of few bytes, or, where that is not allowed, limits the size
// of files, and saves more than there is room for.
func fillDisk(dir string) error {
	const room = 1 << 18
	full := unix.ENOSPC
	if err := unix.Mount("none", dir, "tmpfs", 0, fmt.Sprint("size=", room)); err != nil {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: room / 4, Max: room / 4}); err != nil {
			return err
		}
		full = unix.EFBIG
	}
	j, err := checkpoint.OpenJob(dir)
	if err != nil {
		return err
	}
	one := func(step int64, elements int) error {
		_, err := j.Save(&checkpoint.Manifest{Step: step, Accumulation: 1}, floats(elements, "w", "b"),
			floats(elements, "w.m", "w.v"), filled(step))
		return err
	}
	if err := one(1, 5); err != nil {
		return err
	}
	for elements := 8 << 10; elements < 128<<10; elements += 5 << 10 {
		err := one(2, elements)
		if err == nil { // it was not too large yet
			if err := os.RemoveAll(j.Path(2)); err != nil {
				return err
			}
			continue
		}
		entries, e := os.ReadDir(filepath.Join(dir, "checkpoints"))
		switch {
		case !errors.Is(err, full):
			return fmt.Errorf("%d elements: %w; wanted %w", elements, err, full)
		case !strings.HasPrefix(err.Error(), "cannot write "+j.Path(2)):
			return fmt.Errorf("the error does not name the output: %w", err)
		case e != nil || len(entries) != 1:
			return fmt.Errorf("%d elements: left behind: %v, %w", elements, entries, e)
		}
	}
	if err := one(2, 1<<20); !errors.Is(err, full) {
		return fmt.Errorf("%w; wanted %w", err, full)
	}
	if err := one(3, 5); err != nil {
		return fmt.Errorf("the job cannot go on: %w", err)
	}
	for _, step := range []int64{1, 3} {
		c, err := checkpoint.Load(j.Path(step))
		if err != nil {
			return err
		}
		c.Close()
	}
	fmt.Println("full:", full)
	return nil
}

// TestFullDisk: on a disk that is full, what was there stays, nothing else is left, the error names
// the file, and smaller checkpoints can be saved.
func TestFullDisk(t *testing.T) {
	cmd := again(t, "full", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 { // such a process may not be started here: it does without a file system
		out, err = again(t, "full", t.TempDir()).CombinedOutput()
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "full: ")
	t.Logf("%s", out)
}

// TestHolder: the error says which process has the lock, and one that is killed has it no more.
func TestHolder(t *testing.T) {
	dir := t.TempDir()
	cmd := again(t, "holder", dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)
	_, err = checkpoint.OpenJob(dir)
	require.ErrorContains(t, err, fmt.Sprintf("another job writes to %s: %s/lock is locked by another process: "+
		"pid %d on ", dir, dir, cmd.Process.Pid))
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	whole(t, dir, 0)
}
