package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"memopt/internal/fileio"
)

// Slurm runs a grid's missing points as an array job.
type Slurm struct {
	*Runner
	AtOnce int      // most tasks that run at a time; 0 means no limit
	Grace  int      // seconds between the signal that a task is about to end and its end
	Args   []string // further arguments of sbatch, which the script has
	Note   func(format string, args ...any)
}

// Names of files in the shared folder.
const (
	gridName   = "grid.json"
	scriptName = "slurm.sh"
	jobName    = "slurm.job"
)

// quote makes a text one word of the shell, and of a line of #SBATCH.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Write writes the script for points, and a copy of the grid, which tasks read.
func (s *Slurm) Write(points []*Point) (script string, err error) {
	if err := s.Folder.Make(); err != nil {
		return "", err
	}
	folder, err := filepath.Abs(s.Folder.Path)
	if err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, text := range s.Args {
		if strings.ContainsAny(text, "'\n\\") {
			return "", fmt.Errorf("%q: a script of Slurm cannot have this argument of sbatch; wanted one without "+
				"quotes, backslashes and line breaks", text)
		}
	}
	if strings.ContainsAny(folder+here, "'\n\\") {
		return "", fmt.Errorf("%q: a script of Slurm cannot have this path; wanted one without quotes, "+
			"backslashes and line breaks", folder)
	}
	if err := fileio.WriteFile(filepath.Join(folder, gridName), s.Grid.Data); err != nil {
		return "", err
	}
	script = filepath.Join(folder, scriptName)
	return script, fileio.WriteFile(script, []byte(s.script(points, folder, here)))
}

// script is the text of the array job.
func (s *Slurm) script(points []*Point, folder, here string) string {
	var list []int
	for _, p := range points {
		list = append(list, p.Index)
	}
	array := Ranges(list)
	if s.AtOnce > 0 {
		array += fmt.Sprintf("%%%d", s.AtOnce)
	}
	log := strings.ReplaceAll(folder, "%", "%%") + "/" + logsName + "/slurm-%A_%a.log"
	lines := []string{"#!/bin/sh", "#SBATCH --job-name=memopt-sweep", "#SBATCH --array=" + array,
		"#SBATCH --chdir=" + quote(here), "#SBATCH --output=" + quote(log),
		fmt.Sprintf("#SBATCH --signal=B:USR1@%d", s.Grace), "#SBATCH --no-requeue"}
	if len(s.Args) > 0 {
		var args []string
		for _, text := range s.Args {
			args = append(args, quote(text))
		}
		lines = append(lines, "#SBATCH "+strings.Join(args, " "))
	}
	words := []string{"exec"}
	for _, text := range s.Command {
		words = append(words, quote(text))
	}
	words = append(words, "sweep", quote(filepath.Join(folder, gridName)), "-o", quote(folder))
	if s.Retry {
		words = append(words, "--retry")
	}
	return strings.Join(append(lines, strings.Join(words, " ")), "\n") + "\n"
}

// Run submits the missing points, unless a job of an earlier sweep is still there, and waits for the
// end. The results are in the folder then.
func (s *Slurm) Run(ctx context.Context) error {
	list, err := s.Missing()
	if err != nil || len(list) == 0 {
		return err
	}
	if err := s.Folder.Make(); err != nil {
		return err
	}
	file := filepath.Join(s.Folder.Path, jobName)
	data, _ := os.ReadFile(file) // absent: no job was submitted
	job := strings.TrimSpace(string(data))
	active := job != ""
	if active {
		if active, err = s.active(ctx, job); err != nil {
			return err
		}
	}
	if !active {
		script, err := s.Write(list)
		if err != nil {
			return err
		}
		// A signal must not come between the submission and the file that records it.
		out, err := slurmCommand(context.WithoutCancel(ctx), "sbatch", "--parsable", script)
		if err != nil {
			return err
		}
		job, _, _ = strings.Cut(strings.TrimSpace(out), ";") // ID;CLUSTER
		if err := fileio.WriteFile(file, []byte(job+"\n")); err != nil {
			return fmt.Errorf("job %s was submitted: %w", job, err)
		}
		s.Note("submitted job %s with %d points; Ctrl-C stops waiting, scancel %s ends it", job, len(list), job)
	} else {
		s.Note("job %s of an earlier sweep is still there: waiting for it", job)
	}
	return s.wait(ctx, job)
}

// How often Slurm is asked: seldom, as sites wish.
const (
	firstPoll = time.Second
	lastPoll  = 30 * time.Second
)

// wait waits until all points have results or the job has gone.
func (s *Slurm) wait(ctx context.Context, job string) error {
	for every := firstPoll; ; every = min(every*3/2, lastPoll) {
		active, err := s.active(ctx, job)
		if err != nil {
			return err
		}
		list, err := s.missingFiles()
		if err != nil {
			return err
		}
		s.done = len(s.Grid.Points) - list
		s.say(0)
		if list == 0 || !active {
			return ctx.Err()
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
}

// missingFiles counts the points that have no result, failed ones of an earlier sweep not among them.
func (s *Slurm) missingFiles() (n int, err error) {
	for _, p := range s.Grid.Points {
		id, err := s.ID(p)
		if err != nil {
			return 0, err
		}
		res := s.load(id)
		if res == nil || s.Retry && res.Outcome == Failed {
			n++
		}
	}
	return n, nil
}

// active reports whether a job still has tasks that wait or run. Slurm forgets jobs some minutes after
// their end; while its controller is down, the job counts as active.
func (s *Slurm) active(ctx context.Context, job string) (bool, error) {
	out, err := slurmCommand(ctx, "squeue", "--noheader", "--format=%i", "--jobs="+job)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return false, err
	case err != nil:
		return !strings.Contains(err.Error(), "Invalid job id"), nil
	}
	return strings.TrimSpace(out) != "", nil
}

// slurmCommand runs a command of Slurm and returns its output.
func slurmCommand(ctx context.Context, name string, args ...string) (string, error) {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%w: %s is not installed here; run this where jobs are submitted, or write the script "+
			"with --write and submit it there", exec.ErrNotFound, name)
	case err != nil:
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err,
			strings.Join(strings.Fields(said.String()), " "))
	}
	return string(out), nil
}
